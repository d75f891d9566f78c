package data

import (
	"archive/zip"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"reflect"
	"regexp"
	"strconv"
	"strings"

	"github.com/gomlx/compute/dtypes/float16"
)

// NPY reads an array that NumPy has saved: floats, integers and bools, of either byte order and
// in C's or Fortran's order. Floats of 16 bits become float32.
func NPY(path string) (Array, error) {
	f, err := os.Open(path)
	if err != nil {
		return Array{}, fileError(err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return Array{}, fileError(err)
	}
	a, err := readNPY(f, info.Size())
	if err != nil {
		return a, fmt.Errorf("data: %s: %w", path, err)
	}
	return a, nil
}

// NPZ reads the arrays of an archive of NumPy's savez or savez_compressed, by name.
func NPZ(path string) (map[string]Array, error) {
	z, err := zip.OpenReader(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fileError(err)
	}
	if err != nil {
		return nil, fmt.Errorf("data: %s: %w", path, err)
	}
	defer z.Close()
	all := map[string]Array{}
	for _, f := range z.File {
		name, is := strings.CutSuffix(f.Name, ".npy")
		if !is {
			return nil, fmt.Errorf("data: %s: it holds %s: want arrays, as numpy.savez writes them", path, f.Name)
		}
		r, err := f.Open()
		if err == nil {
			all[name], err = readNPY(r, int64(min(f.UncompressedSize64, math.MaxInt64)))
			r.Close()
		}
		if err != nil {
			return nil, fmt.Errorf("data: %s: %s: %w", path, f.Name, err)
		}
	}
	return all, nil
}

var (
	npyType  = regexp.MustCompile(`'descr': *'([<>|=])([a-z])(\d+)'`)
	npyShape = regexp.MustCompile(`'shape': *\(([0-9, ]*)\)`)
	npyTypes = map[string]reflect.Type{"f2": reflect.TypeFor[uint16](), "f4": reflect.TypeFor[float32](), "f8": reflect.TypeFor[float64](), "b1": reflect.TypeFor[bool](),
		"u1": reflect.TypeFor[uint8](), "u2": reflect.TypeFor[uint16](), "u4": reflect.TypeFor[uint32](), "u8": reflect.TypeFor[uint64](),
		"i1": reflect.TypeFor[int8](), "i2": reflect.TypeFor[int16](), "i4": reflect.TypeFor[int32](), "i8": reflect.TypeFor[int64]()}
)

// readNPY reads one array of a file of so many bytes.
func readNPY(r io.Reader, size int64) (a Array, err error) {
	start := make([]byte, 10)
	if _, err := io.ReadFull(r, start); err != nil || string(start[:6]) != "\x93NUMPY" {
		return a, fmt.Errorf("no array of NumPy: it does not begin with \\x93NUMPY")
	}
	length := int64(binary.LittleEndian.Uint16(start[8:]))
	read := int64(len(start))
	if start[6] > 1 { // version 2 and 3
		rest := make([]byte, 2)
		if _, err := io.ReadFull(r, rest); err != nil {
			return a, err
		}
		length |= int64(binary.LittleEndian.Uint16(rest)) << 16
		read += 2
	}
	if length > size-read {
		return a, fmt.Errorf("a header of %d bytes in a file of %d", length, size)
	}
	header := make([]byte, length)
	if _, err := io.ReadFull(r, header); err != nil {
		return a, fmt.Errorf("header: %w", err)
	}
	typ, shape := npyType.FindSubmatch(header), npyShape.FindSubmatch(header)
	element := reflect.Type(nil)
	if typ != nil {
		element = npyTypes[string(typ[2])+string(typ[3])]
	}
	switch {
	case bytes.Contains(header, []byte("'|O'")):
		return a, fmt.Errorf("it holds Python objects: want numbers or bools: save x.astype(numpy.float32), with rows of one length")
	case element == nil || shape == nil:
		return a, fmt.Errorf("header %.80q: want numbers or bools of 1 to 8 bytes: save x.astype(numpy.float32)", bytes.TrimSpace(header))
	}
	count := int64(1)
	for d := range strings.SplitSeq(string(shape[1]), ",") {
		if d = strings.TrimSpace(d); d == "" {
			continue
		}
		n, err := strconv.ParseInt(d, 10, 64)
		if err != nil || n < 0 || n > 0 && count > size/n {
			return a, fmt.Errorf("shape (%s): more than the file holds", shape[1])
		}
		count, a.Dims = count*n, append(a.Dims, int(n))
	}
	if want := count * int64(element.Size()); want != size-read-length {
		return a, fmt.Errorf("it has %d bytes of data, want %d for %s of shape (%s)", size-read-length, want, element, shape[1])
	}
	// The size is what an archive says of itself: memory grows with what is there.
	raw, err := io.ReadAll(io.LimitReader(r, count*int64(element.Size())))
	if err == nil && int64(len(raw)) < count*int64(element.Size()) {
		err = fmt.Errorf("%d bytes of data, want %d for %s of shape (%s)", len(raw), count*int64(element.Size()), element, shape[1])
	}
	if err != nil {
		return a, err
	}
	v := reflect.MakeSlice(reflect.SliceOf(element), int(count), int(count))
	order := binary.ByteOrder(binary.LittleEndian)
	if typ[1][0] == '>' {
		order = binary.BigEndian
	}
	if _, err := binary.Decode(raw, order, v.Interface()); err != nil {
		return a, err
	}
	if string(typ[2]) == "f" && element.Size() == 2 {
		l := make([]float32, v.Len())
		for i, h := range v.Interface().([]uint16) {
			l[i] = float16.Float16(h).Float32()
		}
		v = reflect.ValueOf(l)
	}
	if len(a.Dims) > 1 && bytes.Contains(header, []byte("'fortran_order': True")) {
		v = cOrder(v, a.Dims)
	}
	flat := v.Interface()
	a.Flat = flat
	return a, nil
}

// cOrder is an array whose first index changed fastest, with the last one so.
func cOrder(v reflect.Value, dims []int) reflect.Value {
	to := reflect.MakeSlice(v.Type(), v.Len(), v.Len())
	index := make([]int, len(dims))
	for i := range v.Len() {
		from, step := 0, 1
		for k, d := range dims {
			from, step = from+index[k]*step, step*d
		}
		to.Index(i).Set(v.Index(from))
		for k := len(dims) - 1; k >= 0; k-- {
			if index[k]++; index[k] < dims[k] {
				break
			}
			index[k] = 0
		}
	}
	return to
}
