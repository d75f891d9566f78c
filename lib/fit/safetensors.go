package fit

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math"
	"os"
	"slices"
	"strings"
	"syscall"

	"gaiden/lib/engine/files"
)

// Save writes the net's variables to a safetensors file, with the names and
// layouts that PyTorch has for the same layers: conv.weight is [out in kernel
// kernel], fc.weight [out in], with the inputs of a layer after Flatten in
// PyTorch's order (channels first); bn.weight, bn.bias, bn.running_mean,
// bn.running_var; lstm.weight_ih_l0 and so on, with zeros for the second of the
// two biases that nn.LSTM adds. Variables of other layers keep their names and
// layouts. The file takes the place of an old one only when it is complete and on
// disk; package files says what else holds for it.
func (n *Net) Save(path string) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if err := n.open(); err != nil {
		return err
	}
	f, err := files.Create(path)
	if err != nil {
		return fmt.Errorf("fit: %s: save: %w", n.name, err)
	}
	defer f.Abort()
	all, err := n.weights()
	if err != nil {
		return err
	}
	rules, err := n.rules()
	if err != nil {
		return err
	}
	if err := WriteSafetensors(f, rules.out(all)); err != nil {
		return fmt.Errorf("fit: %s: save: %w", n.name, err)
	}
	if err := f.Commit(); err != nil {
		return fmt.Errorf("fit: %s: save: %w", n.name, err)
	}
	return nil
}

// Restore reads a file that Save or PyTorch has written. The optimizer's state
// begins anew.
func (n *Net) Restore(path string) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if err := n.change(); err != nil {
		return err
	}
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0) // a pipe would wait for somebody who writes
	if err != nil {
		return fmt.Errorf("fit: %s: restore: %w", n.name, err)
	}
	defer f.Close()
	all, err := ReadSafetensors(f)
	if err != nil {
		return fmt.Errorf("fit: %s: restore %s: %w", n.name, path, err)
	}
	rules, err := n.rules()
	if err != nil {
		return err
	}
	return n.setWeights(rules.in(all))
}

// entry is what a safetensors header says of a tensor.
type entry struct {
	DType   string `json:"dtype"`
	Shape   []int  `json:"shape"`
	Offsets [2]int `json:"data_offsets"`
}

// WriteSafetensors writes float32 tensors: a header of JSON behind its length,
// then the data, little-endian.
func WriteSafetensors(w io.Writer, all []Tensor) error {
	header := map[string]entry{}
	at := 0
	for _, t := range all {
		if _, twice := header[t.Name]; twice {
			return fmt.Errorf("fit: safetensors: tensor %s comes twice", t.Name)
		}
		end := at + 4*len(t.Data)
		dims := t.Dims
		if dims == nil {
			dims = []int{}
		}
		header[t.Name] = entry{"F32", dims, [2]int{at, end}}
		at = end
	}
	text, err := json.Marshal(header)
	if err != nil {
		return err
	}
	for len(text)%8 != 0 {
		text = append(text, ' ')
	}
	b := binary.LittleEndian.AppendUint64(nil, uint64(len(text)))
	if _, err := w.Write(append(b, text...)); err != nil {
		return err
	}
	for _, t := range all {
		b = b[:0]
		for _, x := range t.Data {
			b = binary.LittleEndian.AppendUint32(b, math.Float32bits(x))
		}
		if _, err := w.Write(b); err != nil {
			return err
		}
	}
	return nil
}

// maxHeader bounds what a damaged file makes us read, as the format's own
// library does.
const maxHeader = 100 << 20

// ReadSafetensors reads the float32 tensors of a file, in the order of their
// data; those of other types, such as counters, are left out.
func ReadSafetensors(r io.Reader) ([]Tensor, error) {
	var size [8]byte
	if _, err := io.ReadFull(r, size[:]); err != nil {
		return nil, fmt.Errorf("fit: safetensors: no header: %w", err)
	}
	n := binary.LittleEndian.Uint64(size[:])
	if n > maxHeader {
		return nil, fmt.Errorf("fit: safetensors: header of %d bytes: want %d at most; is it a safetensors file?", n, maxHeader)
	}
	text, err := io.ReadAll(io.LimitReader(r, int64(n)))
	if err != nil || uint64(len(text)) != n {
		return nil, fmt.Errorf("fit: safetensors: header has %d of %d bytes: the file is cut off", len(text), n)
	}
	raw := map[string]json.RawMessage{}
	if err := json.Unmarshal(text, &raw); err != nil {
		return nil, fmt.Errorf("fit: safetensors: header: %w", err)
	}
	delete(raw, "__metadata__")
	entries := map[string]entry{}
	for name, m := range raw {
		var e entry
		if err := json.Unmarshal(m, &e); err != nil {
			return nil, fmt.Errorf("fit: safetensors: tensor %s: %w", name, err)
		}
		entries[name] = e
	}
	names := slices.SortedFunc(maps.Keys(entries), func(a, b string) int {
		if d := entries[a].Offsets[0] - entries[b].Offsets[0]; d != 0 {
			return d
		}
		return strings.Compare(a, b)
	})
	var all []Tensor
	at := 0
	for _, name := range names {
		e := entries[name]
		if e.Offsets[0] != at || e.Offsets[1] < at {
			return nil, fmt.Errorf("fit: safetensors: tensor %s is at %v: want it to begin at %d", name, e.Offsets, at)
		}
		length := e.Offsets[1] - at
		at = e.Offsets[1]
		if e.DType != "F32" {
			if _, err := io.CopyN(io.Discard, r, int64(length)); err != nil {
				return nil, fmt.Errorf("fit: safetensors: tensor %s: the file is cut off", name)
			}
			continue
		}
		want := 4
		for _, d := range e.Shape {
			if d < 0 || d > 0 && want > math.MaxInt/d {
				return nil, fmt.Errorf("fit: safetensors: tensor %s has shape %v", name, e.Shape)
			}
			want *= d
		}
		if want != length {
			return nil, fmt.Errorf("fit: safetensors: tensor %s has %d bytes, want %d for shape %v", name, length, want, e.Shape)
		}
		b, err := io.ReadAll(io.LimitReader(r, int64(length))) // grows as the data come: a false length costs nothing
		if err != nil || len(b) != length {
			return nil, fmt.Errorf("fit: safetensors: tensor %s has %d of %d bytes: the file is cut off", name, len(b), length)
		}
		t := Tensor{Name: name, Dims: e.Shape, Data: make([]float32, length/4)}
		for i := range t.Data {
			t.Data[i] = math.Float32frombits(binary.LittleEndian.Uint32(b[4*i:]))
		}
		all = append(all, t)
	}
	return all, nil
}
