package safetensors

import (
	"encoding/binary"
	"errors"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// put writes a file of one array each, of one float32.
func put(t *testing.T, path string, values map[string]float32) {
	t.Helper()
	h := &Header{}
	for name := range values {
		h.Tensors = append(h.Tensors, Tensor{Name: name, DType: "F32", Shape: []int{1}})
	}
	w, err := Create(path, h)
	if err != nil {
		t.Fatal(err)
	}
	for i, x := range w.Tensors {
		if err := w.Write(i, binary.LittleEndian.AppendUint32(nil, math.Float32bits(values[x.Name]))); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestCheckpoint holds that one file, several with their index, and their directories
// open, and what is wrong with those that do not.
func TestCheckpoint(t *testing.T) {
	const index = "model.safetensors.index.json"
	first, second := "model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"
	shards := map[string]map[string]float32{first: {"a": 1, "b": 2}, second: {"c": 3}}
	text := func(pairs ...string) string {
		return `{"metadata":{"total_size":12},"weight_map":{` + strings.Join(pairs, ",") + `}}`
	}
	good := text(`"a":"`+first+`"`, `"b":"`+first+`"`, `"c":"`+second+`"`)
	for _, tt := range []struct {
		name  string
		files map[string]map[string]float32
		index string
		open  string // in the directory
		want  string // what the error says; "": a, b and c are read
	}{
		{"index", shards, good, index, ""},
		{"directory of an index", shards, good, "", ""},
		{"file", map[string]map[string]float32{"w": {"a": 1, "b": 2, "c": 3}}, "", "w", ""},
		{"directory of a file", map[string]map[string]float32{"w.safetensors": {"a": 1, "b": 2, "c": 3}}, "", "", ""},
		{"directory of model.safetensors and another", map[string]map[string]float32{"model.safetensors": {"a": 1, "b": 2, "c": 3}, "w.safetensors": {"x": 1}}, "", "", ""},
		{"empty directory", nil, "", "", "neither model.safetensors nor"},
		{"two files", map[string]map[string]float32{"v.safetensors": {"a": 1}, "w.safetensors": {"a": 1}}, "", "", "has 2 files, v.safetensors, w.safetensors: name one"},
		{"one shard", shards, good, second, "one file of 2: give the index, model.safetensors.index.json"},
		{"a shard is missing", map[string]map[string]float32{first: {"a": 1, "b": 2}}, good, index, "1 of its 2 files are missing, the first is " + second},
		{"array not in its shard", shards, text(`"a":"`+first+`"`, `"b":"`+first+`"`, `"c":"`+second+`"`, `"d":"`+second+`"`), "", `has no array "d"`},
		{"array not in the index", shards, text(`"a":"`+first+`"`, `"c":"`+second+`"`), "", `has array "b"`},
		{"array in another shard", shards, text(`"a":"`+first+`"`, `"b":"`+second+`"`, `"c":"`+second+`"`), "", `has array "b"`},
		{"array twice", shards, text(`"a":"`+first+`"`, `"a":"`+second+`"`), "", `"a" comes twice`},
		{"elsewhere", shards, text(`"a":"../x"`), "", "want one of its own directory"},
		{"absolute", shards, text(`"a":"/etc/passwd"`), "", "want one of its own directory"},
		{"no map", shards, `{"metadata":{}}`, "", "no weight_map"},
		{"null map", shards, `{"weight_map":null}`, "", "no weight_map"},
		{"empty map", shards, `{"weight_map":{}}`, "", "no weight_map"},
		{"list", shards, `{"weight_map":[]}`, "", "want an object"},
		{"null file", shards, text(`"a":null`), "", "want one of its own directory"},
		{"cut", shards, good[:30], "", "unexpected end"},
		{"nothing", nil, "", "none", "no such file"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			for name, values := range tt.files {
				put(t, filepath.Join(dir, name), values)
			}
			if tt.index != "" {
				if err := os.WriteFile(filepath.Join(dir, index), []byte(tt.index), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			c, err := OpenCheckpoint(filepath.Join(dir, tt.open))
			if tt.want != "" {
				if err == nil || !strings.Contains(err.Error(), tt.want) {
					t.Errorf("got %v, want %q", err, tt.want)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			got := map[string]float32{}
			for i, x := range c.Tensors {
				l, err := c.Floats(i)
				if err != nil || len(l) != 1 {
					t.Fatalf("%s: got %v, %v", x.Name, l, err)
				}
				got[x.Name] = l[0]
			}
			if len(got) != 3 || got["a"] != 1 || got["b"] != 2 || got["c"] != 3 {
				t.Errorf("got %v, want a 1, b 2, c 3", got)
			}
		})
	}
}

// TestForeign holds that files of other formats are called by their names.
func TestForeign(t *testing.T) {
	for _, tt := range []struct{ name, file, want string }{
		{"empty", "", "the file is empty"},
		{"short", "abc", "has 3 bytes, want 8"},
		{"git-lfs", "version https://git-lfs.github.com/spec/v1\noid sha256:0000\nsize 12345\n", "git lfs pull"},
		{"torch.save", "PK\x03\x04" + strings.Repeat("\x00", 200), "torch.save"},
		{"old torch.save", "\x80\x02\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19.", "Python pickle"},
		{"HDF5", "\x89HDF\r\n\x1a\n" + strings.Repeat("\x00", 40), "Keras"},
		{"numpy", "\x93NUMPY\x01\x00v\x00{'descr'", "numpy"},
		{"page", "<!DOCTYPE html><html>", "HTML"},
		{"text", "epoch,loss\n1,0.5\n2,0.25\n", "header of"},
	} {
		path := filepath.Join(t.TempDir(), "x.safetensors")
		if err := os.WriteFile(path, []byte(tt.file), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := Open(path); !errors.Is(err, ErrDamaged) || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: got %v, want %q", tt.name, err, tt.want)
		}
	}
	if what := foreign(append(binary.LittleEndian.AppendUint64(nil, 640), '{')); what != "" { // its first bytes are 80 02
		t.Errorf("a header of 640 bytes passes for %s", what)
	}
}

// TestFloats holds what the bits of each type are: by hand, and as PyTorch has them.
func TestFloats(t *testing.T) {
	inf, nan := float32(math.Inf(1)), float32(math.NaN())
	u16 := func(l ...uint16) (b []byte) {
		for _, x := range l {
			b = binary.LittleEndian.AppendUint16(b, x)
		}
		return b
	}
	f64 := func(l ...float64) (b []byte) {
		for _, x := range l {
			b = binary.LittleEndian.AppendUint64(b, math.Float64bits(x))
		}
		return b
	}
	for _, tt := range []struct {
		dtype string
		data  []byte
		want  []float32 // nil: an error
	}{
		{"F16", u16(0x3c00, 0xc000, 0x7bff, 0x0001, 0x03ff, 0x0400, 0x8000, 0x7c00, 0xfc00, 0x7e00), []float32{1, -2, 65504, 0x1p-24, 1023 * 0x1p-24, 0x1p-14, 0, inf, -inf, nan}},
		{"BF16", u16(0x3f80, 0xc000, 0x0001, 0x7f80, 0x7fc0), []float32{1, -2, 0x1p-133, inf, nan}},
		{"F64", f64(0.1, -2, 1e-60, math.Inf(-1), math.NaN()), []float32{0.1, -2, 0, -inf, nan}},
		{"F64", f64(1, 1e39), nil},
		{"F64", f64(-math.MaxFloat64), nil},
		{"F8_E4M3", []byte{0x38, 0xc0, 0x7e, 0x01, 0x08, 0x7f, 0x78}, []float32{1, -2, 448, 0x1p-9, 0x1p-6, nan, 256}},
		{"F8_E5M2", []byte{0x3c, 0xc0, 0x7b, 0x01, 0x7c, 0xfc, 0x7f}, []float32{1, -2, 57344, 0x1p-16, inf, -inf, nan}},
		{"I64", make([]byte, 16), nil},
		{"BOOL", []byte{1}, nil},
	} {
		path := filepath.Join(t.TempDir(), "x")
		w, err := Create(path, &Header{Tensors: []Tensor{{Name: "w", DType: tt.dtype, Shape: []int{len(tt.data) / int(sizes[tt.dtype])}}}})
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(w.Write(0, tt.data), w.Close()); err != nil {
			t.Fatal(err)
		}
		f, err := Open(path)
		if err != nil {
			t.Fatal(err)
		}
		got, err := f.Floats(0)
		f.Close()
		if (err == nil) != (tt.want != nil) || err == nil && !slices.EqualFunc(got, tt.want, func(a, b float32) bool { return a == b || a != a && b != b }) {
			t.Errorf("%s: got %v, %v, want %v", tt.dtype, got, err, tt.want)
		}
	}
}
