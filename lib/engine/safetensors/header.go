package safetensors

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
)

// ErrDamaged says that a file is torn, changed, or none of this format.
var ErrDamaged = errors.New("damaged, or no safetensors file")

// Tensor describes one array of a file.
type Tensor struct {
	Name  string
	DType string // as the format writes it: F32, I64, BOOL
	Shape []int

	begin  int64
	sum    uint32 // CRC-32C of the data
	summed bool   // sum is known
}

// Header is what a file holds besides data. Metadata is free text; the keys
// "crc32c" and "header" are the package's own.
type Header struct {
	Tensors  []Tensor
	Metadata map[string]string
}

// maxHeader bounds a header, in bytes, as Python's reader does.
const maxHeader = 100_000_000

// Sizes of the element types that the package knows, in bytes.
var sizes = map[string]int64{"BOOL": 1, "U8": 1, "I8": 1, "F8_E4M3": 1, "F8_E5M2": 1, "U16": 2, "I16": 2, "F16": 2, "BF16": 2,
	"U32": 4, "I32": 4, "F32": 4, "U64": 8, "I64": 8, "F64": 8}

// Size is the size of the data in bytes. It is that of a tensor that has been
// checked: by Create or by Open.
func (t Tensor) Size() int64 {
	n := sizes[t.DType]
	for _, d := range t.Shape {
		n *= int64(d)
	}
	return n
}

// check refuses types and shapes whose size is not known or does not fit.
func (t Tensor) check() error {
	n := sizes[t.DType]
	if n == 0 {
		return fmt.Errorf("safetensors: array %.80q has the element type %.20q: want one of %s", t.Name, t.DType, known())
	}
	for _, d := range t.Shape {
		if d < 0 || d > 0 && n > math.MaxInt64/2/int64(d) {
			return fmt.Errorf("safetensors: array %.80q: shape %v is impossible", t.Name, t.Shape)
		}
		n *= int64(d)
	}
	return nil
}

func known() string { return strings.Join(slices.Sorted(maps.Keys(sizes)), ", ") }

// lay puts the tensors in the order of the format, wide types first, so that
// each is aligned, and gives them their offsets.
func (h *Header) lay() error {
	slices.SortStableFunc(h.Tensors, func(a, b Tensor) int {
		return cmp.Or(cmp.Compare(sizes[b.DType], sizes[a.DType]), strings.Compare(a.Name, b.Name))
	})
	seen := make(map[string]bool, len(h.Tensors))
	at := int64(0)
	for i := range h.Tensors {
		t := &h.Tensors[i]
		if err := t.check(); err != nil {
			return err
		}
		if t.Name == "__metadata__" || seen[t.Name] {
			return fmt.Errorf("safetensors: array name %.80q is taken", t.Name)
		}
		seen[t.Name] = true
		t.begin = at
		if at > math.MaxInt64/2-t.Size() {
			return fmt.Errorf("safetensors: arrays are too large for a file")
		}
		at += t.Size()
	}
	return nil
}

const (
	sumsKey   = "crc32c"
	headerKey = "header"
	zeroSum   = "0000000000000000000000000000000000000000000000000000000000000000" // the length of a SHA-256
)

// encode writes the header with its length and its sums. Its size does not
// depend on what the sums are.
func (h *Header) encode() ([]byte, error) {
	b := []byte(`{"__metadata__":{`)
	var keys []string
	for k := range h.Metadata {
		if k != sumsKey && k != headerKey {
			keys = append(keys, k)
		}
	}
	slices.Sort(keys)
	for _, k := range keys {
		b = append(quote(append(quote(b, k), ':'), h.Metadata[k]), ',')
	}
	b = append(b, `"`+sumsKey+`":"`...)
	for _, t := range h.Tensors {
		b = fmt.Appendf(b, "%08x", t.sum)
	}
	b = append(b, `","`+headerKey+`":"`...)
	at := len(b)
	b = append(b, zeroSum+`"}`...)
	for _, t := range h.Tensors {
		b = append(quote(append(b, ','), t.Name), `:{"dtype":`...)
		b = append(quote(b, t.DType), `,"shape":[`...)
		for i, d := range t.Shape {
			if i > 0 {
				b = append(b, ',')
			}
			b = strconv.AppendInt(b, int64(d), 10)
		}
		b = fmt.Appendf(b, `],"data_offsets":[%d,%d]}`, t.begin, t.begin+t.Size())
	}
	b = append(b, '}')
	for len(b)%8 != 0 {
		b = append(b, ' ')
	}
	if len(b) > maxHeader {
		return nil, fmt.Errorf("safetensors: %d arrays need a header of %d bytes: limit is %d", len(h.Tensors), len(b), maxHeader)
	}
	sum := sha256.Sum256(b)
	hex.Encode(b[at:], sum[:])
	return b, nil
}

func quote(b []byte, s string) []byte {
	q, err := json.Marshal(s)
	if err != nil {
		panic("safetensors: " + err.Error()) // a string always encodes
	}
	return append(b, q...)
}

// parseHeader reads a header for a file with size bytes of data.
func parseHeader(b []byte, size int64) (*Header, error) {
	damaged := func(format string, args ...any) error {
		return fmt.Errorf("safetensors: header: %s: %w", fmt.Sprintf(format, args...), ErrDamaged)
	}
	h := &Header{}
	var ends []int64
	seen := map[string]bool{}
	d := json.NewDecoder(bytes.NewReader(b))
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return nil, damaged("got %.20q, want a JSON object", b)
	}
	for d.More() {
		t, err := d.Token()
		name, ok := t.(string)
		if err != nil || !ok {
			return nil, damaged("%v", err)
		}
		if seen[name] {
			return nil, damaged("array %.80q comes twice", name)
		}
		seen[name] = true
		if name == "__metadata__" {
			if err := d.Decode(&h.Metadata); err != nil {
				return nil, damaged("metadata: %v", err)
			}
			continue
		}
		x, end, err := parseTensor(d)
		if err != nil {
			return nil, damaged("array %.80q %v", name, err)
		}
		x.Name = name
		if err := x.check(); err != nil {
			return nil, err
		}
		h.Tensors, ends = append(h.Tensors, x), append(ends, end)
	}
	if _, err := d.Token(); err != nil {
		return nil, damaged("%v", err)
	}
	if rest := bytes.TrimRight(b[d.InputOffset():], " "); len(rest) > 0 {
		return nil, damaged("%d bytes after its end", len(rest))
	}
	return h, h.finish(b, ends, size, damaged)
}

// parseTensor reads what a header says of one array. Each of its three fields must be
// there once: JSON would take one that is missing, or null, for zeros.
func parseTensor(d *json.Decoder) (x Tensor, end int64, err error) {
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return x, 0, fmt.Errorf("is %v, want an object", t)
	}
	seen := map[string]bool{}
	for d.More() {
		t, err := d.Token()
		key, ok := t.(string)
		if err != nil || !ok {
			return x, 0, unexpected(err)
		}
		if seen[key] {
			return x, 0, fmt.Errorf("has %q twice", key)
		}
		seen[key] = true
		switch key {
		case "dtype":
			var s *string
			if err = d.Decode(&s); err == nil && s == nil {
				err = errors.New("is null")
			} else if err == nil {
				x.DType = *s
			}
		case "shape":
			var l []int64
			l, err = parseList(d)
			x.Shape = make([]int, len(l))
			for i, n := range l {
				x.Shape[i] = int(n)
			}
		case "data_offsets":
			var l []int64
			if l, err = parseList(d); err == nil && len(l) != 2 {
				err = fmt.Errorf("has %d numbers, want 2", len(l))
			} else if err == nil {
				x.begin, end = l[0], l[1]
			}
		default:
			var other json.RawMessage
			err = d.Decode(&other)
		}
		if err != nil {
			return x, 0, fmt.Errorf("has a bad %s: %w", key, unexpected(err))
		}
	}
	if _, err := d.Token(); err != nil {
		return x, 0, unexpected(err)
	}
	for _, key := range []string{"dtype", "shape", "data_offsets"} {
		if !seen[key] {
			return x, 0, fmt.Errorf("has no %s", key)
		}
	}
	return x, end, nil
}

// unexpected is the error of JSON that ends too soon, where err is that it ends.
func unexpected(err error) error {
	if err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}

// parseList reads a list of integers.
func parseList(d *json.Decoder) ([]int64, error) {
	var l []*int64
	if err := d.Decode(&l); err != nil {
		return nil, err
	}
	if l == nil {
		return nil, errors.New("is null")
	}
	all := make([]int64, len(l))
	for i, n := range l {
		if n == nil {
			return nil, fmt.Errorf("number %d is null", i)
		}
		all[i] = *n
	}
	return all, nil
}

// finish checks offsets and checksums.
func (h *Header) finish(b []byte, ends []int64, size int64, damaged func(string, ...any) error) error {
	for i, x := range h.Tensors {
		if ends[i] != x.begin+x.Size() || x.begin < 0 {
			return damaged("array %.80q lies at %d to %d, but %s%v takes %d bytes", x.Name, x.begin, ends[i], x.DType, x.Shape, x.Size())
		}
	}
	slices.SortStableFunc(h.Tensors, func(a, b Tensor) int {
		return cmp.Or(cmp.Compare(a.begin, b.begin), cmp.Compare(a.Size(), b.Size()))
	})
	at := int64(0)
	for _, x := range h.Tensors {
		if x.begin != at {
			return damaged("array %.80q begins at %d, want %d: no gap and no overlap", x.Name, x.begin, at)
		}
		at += x.Size()
	}
	if at != size {
		return damaged("%d bytes of data, want %d", size, at)
	}
	sum, sums := h.Metadata[headerKey], h.Metadata[sumsKey]
	delete(h.Metadata, headerKey)
	delete(h.Metadata, sumsKey)
	if sum == "" && sums == "" {
		return nil // not ours
	}
	mark := []byte(`"` + headerKey + `":"` + sum + `"`)
	k := bytes.Index(b, mark)
	if k < 0 || len(sum) != len(zeroSum) || len(sums) != 8*len(h.Tensors) {
		return damaged("its sums are torn")
	}
	zeroed := bytes.Clone(b)
	copy(zeroed[k+len(mark)-1-len(sum):], zeroSum)
	if got := sha256.Sum256(zeroed); hex.EncodeToString(got[:]) != sum {
		return damaged("checksum is %x…, want %.8s…", got[:4], sum)
	}
	for i := range h.Tensors {
		v, err := strconv.ParseUint(sums[8*i:8*i+8], 16, 32)
		if err != nil {
			return damaged("its sums are torn")
		}
		h.Tensors[i].sum, h.Tensors[i].summed = uint32(v), true
	}
	return nil
}
