package safetensors

import (
	"bytes"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"syscall"
	"testing"
)

var update = flag.Bool("update", false, "rewrite testdata/go.safetensors; then run testdata/make.py, which checks it")

// sample writes one file of several types.
func sample(t testing.TB, path string) {
	t.Helper()
	data := map[string][]byte{
		"w": {0, 0, 128, 63, 0, 0, 0, 64, 0, 0, 64, 64, 0, 0, 128, 64, 0, 0, 160, 64, 0, 0, 192, 64}, "b": {9, 8, 7}, "ü\n<&>": {}, "i": {0xfb, 0xff}}
	f, err := Create(path, &Header{Metadata: map[string]string{"epoch": "7", "a": "\"header\":\"\\"}, Tensors: []Tensor{
		{Name: "b", DType: "U8", Shape: []int{3}}, {Name: "i", DType: "I16"}, {Name: "ü\n<&>", DType: "F64", Shape: []int{0, 3}}, {Name: "w", DType: "F32", Shape: []int{2, 3}}}})
	if err != nil {
		t.Fatal(err)
	}
	for i, x := range f.Tensors {
		if err := f.Write(i, data[x.Name]); err != nil {
			t.Fatal(err)
		}
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestWrite(t *testing.T) {
	path := filepath.Join(t.TempDir(), "go.safetensors")
	sample(t, path)
	got, _ := os.ReadFile(path)
	golden := filepath.Join("testdata", "go.safetensors")
	if *update {
		if err := os.WriteFile(golden, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil || !bytes.Equal(got, want) {
		t.Errorf("got %q, want the file that Python has read: %q (%v)", got, want, err)
	}
	f, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if f.Metadata["epoch"] != "7" || len(f.Metadata) != 2 {
		t.Errorf("got metadata %v", f.Metadata)
	}
	var names []string
	for _, x := range f.Tensors {
		names = append(names, x.Name)
	}
	if want := []string{"ü\n<&>", "w", "i", "b"}; !reflect.DeepEqual(names, want) {
		t.Errorf("got order %q, want %q: wide types first", names, want)
	}
}

func TestReadPython(t *testing.T) {
	f, err := Open(filepath.Join("testdata", "python.safetensors"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	want := map[string]struct {
		dtype string
		shape []int
		data  []byte
	}{
		"conv/weights":   {"F32", []int{2, 3}, []byte{0, 0, 0, 0, 0, 0, 128, 63, 0, 0, 0, 64, 0, 0, 64, 64, 0, 0, 128, 64, 0, 0, 160, 64}},
		"labels":         {"U8", []int{3}, []byte{0, 255, 7}},
		"seed":           {"U64", []int{2}, []byte{0, 0, 0, 0, 0, 0, 0, 128, 5, 0, 0, 0, 0, 0, 0, 0}},
		"step":           {"I32", []int{}, []byte{41, 0, 0, 0}},
		"mask":           {"BOOL", []int{2}, []byte{1, 0}},
		"none":           {"F64", []int{0, 4}, []byte{}},
		"half":           {"F16", []int{2}, []byte{0, 0x3e, 0, 0xc0}},
		"größe/日本 \"x\"": {"I64", []int{1}, []byte{3, 0, 0, 0, 0, 0, 0, 0}},
	}
	if len(f.Tensors) != len(want) || f.Metadata["made by"] != "Python" {
		t.Errorf("got %d arrays and metadata %v", len(f.Tensors), f.Metadata)
	}
	for i, x := range f.Tensors {
		w := want[x.Name]
		b := make([]byte, x.Size())
		if err := f.Read(i, b); err != nil {
			t.Error(err)
		}
		if x.DType != w.dtype || !reflect.DeepEqual(x.Shape, w.shape) || !bytes.Equal(b, w.data) {
			t.Errorf("%s: got %s%v %v, want %s%v %v", x.Name, x.DType, x.Shape, b, w.dtype, w.shape, w.data)
		}
	}
}

// TestDamage flips a bit of every byte and makes every cut: each of them is an
// error, at Open or at Read.
func TestDamage(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x")
	sample(t, path)
	good, _ := os.ReadFile(path)
	try := func(b []byte) error {
		if err := os.WriteFile(path, b, 0o600); err != nil {
			t.Fatal(err)
		}
		f, err := Open(path)
		if err != nil {
			return err
		}
		defer f.Close()
		for i, x := range f.Tensors {
			err = errors.Join(err, f.Read(i, make([]byte, x.Size())))
		}
		return err
	}
	if err := try(good); err != nil {
		t.Fatal(err)
	}
	for n := range good {
		if err := try(good[:n]); !errors.Is(err, ErrDamaged) {
			t.Errorf("%d of %d bytes: got %v", n, len(good), err)
		}
		b := bytes.Clone(good)
		b[n] ^= 1 << (n % 8)
		if err := try(b); err == nil {
			t.Errorf("bit %d of byte %d flipped: got no error", n%8, n)
		}
	}
	if err := try(append(bytes.Clone(good), 0)); !errors.Is(err, ErrDamaged) {
		t.Errorf("a byte too many: got %v", err)
	}
}

// bad are headers that Python refuses too.
var bad = []struct{ name, header, want string }{
	{"gap", `{"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"b":{"dtype":"U8","shape":[1],"data_offsets":[2,3]}}`, "no gap"},
	{"overlap", `{"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},"b":{"dtype":"U8","shape":[2],"data_offsets":[1,3]}}`, "no overlap"},
	{"twice", `{"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"a":{"dtype":"U8","shape":[2],"data_offsets":[1,3]}}`, "comes twice"},
	{"size", `{"a":{"dtype":"F32","shape":[1],"data_offsets":[0,3]}}`, "takes 4 bytes"},
	{"negative", `{"a":{"dtype":"U8","shape":[-3],"data_offsets":[0,3]}}`, "impossible"},
	{"huge", `{"a":{"dtype":"U8","shape":[4611686018427387904,4],"data_offsets":[0,3]}}`, "impossible"},
	{"negative place", `{"a":{"dtype":"U8","shape":[3],"data_offsets":[-3,0]}}`, "lies at"},
	{"type", `{"a":{"dtype":"F31","shape":[3],"data_offsets":[0,3]}}`, "want one of"},
	{"no shape", `{"a":{"dtype":"U8","data_offsets":[0,3]}}`, "no shape"},
	{"null shape", `{"a":{"dtype":"U8","shape":null,"data_offsets":[0,3]}}`, "bad shape: is null"},
	{"null side", `{"a":{"dtype":"U8","shape":[null,3],"data_offsets":[0,3]}}`, "number 0 is null"},
	{"fraction", `{"a":{"dtype":"U8","shape":[1.5],"data_offsets":[0,3]}}`, "bad shape"},
	{"null type", `{"a":{"dtype":null,"shape":[3],"data_offsets":[0,3]}}`, "bad dtype: is null"},
	{"no place", `{"a":{"dtype":"U8","shape":[0]}}`, "no data_offsets"},
	{"three places", `{"a":{"dtype":"U8","shape":[3],"data_offsets":[0,3,9]}}`, "has 3 numbers, want 2"},
	{"one place", `{"a":{"dtype":"U8","shape":[0],"data_offsets":[0]}}`, "has 1 numbers, want 2"},
	{"field twice", `{"a":{"dtype":"F32","dtype":"U8","shape":[3],"data_offsets":[0,3]}}`, "\"dtype\" twice"},
	{"field in capitals", `{"a":{"DTYPE":"U8","shape":[3],"data_offsets":[0,3]}}`, "no dtype"},
	{"null array", `{"a":null}`, "want an object"},
	{"null", `null    `, "want a JSON object"},
	{"list", `[1]`, "want a JSON object"},
	{"empty", ``, "want a JSON object"},
	{"cut", `{"a":{"dtype":"U8","shape":[3]`, "unexpected EOF"},
	{"rest", `{"a":{"dtype":"U8","shape":[3],"data_offsets":[0,3]}} x`, "after its end"},
	{"metadata", `{"__metadata__":{"a":1},"a":{"dtype":"U8","shape":[3],"data_offsets":[0,3]}}`, "metadata"},
	{"too much data", `{"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]}}`, "3 bytes of data, want 2"},
}

func TestBadHeaders(t *testing.T) {
	for _, tt := range bad {
		if _, err := parseHeader([]byte(tt.header), 3); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: got %v, want %q", tt.name, err, tt.want)
		}
	}
}

func FuzzHeader(f *testing.F) {
	for _, tt := range bad {
		f.Add([]byte(tt.header), int64(3))
	}
	f.Add([]byte(`{"__metadata__":{"a":"b"},"a":{"dtype":"U8","shape":[3],"data_offsets":[0,3]}}  `), int64(3))
	f.Fuzz(func(t *testing.T, b []byte, size int64) {
		h, err := parseHeader(b, size)
		if err != nil {
			return
		}
		for _, x := range h.Tensors {
			if x.begin < 0 || x.Size() < 0 || x.begin+x.Size() > size {
				t.Errorf("array %q goes beyond the file: %d+%d of %d", x.Name, x.begin, x.Size(), size)
			}
		}
	})
}

func TestNothingThere(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "x")
	f, err := Create(path, &Header{Tensors: []Tensor{{Name: "a", DType: "U8", Shape: []int{1}}}})
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err == nil || !strings.Contains(err.Error(), "was not written") {
		t.Errorf("got %v, want an error: its data is missing", err)
	}
	if l, _ := os.ReadDir(dir); len(l) != 0 {
		t.Errorf("%d files are left of one that failed", len(l))
	}
	for _, h := range []*Header{
		{Tensors: []Tensor{{Name: "a", DType: "U8"}, {Name: "a", DType: "U8"}}},
		{Tensors: []Tensor{{Name: "__metadata__", DType: "U8"}}},
		{Tensors: []Tensor{{Name: "a", DType: "complex"}}},
	} {
		if _, err := Create(path, h); err == nil {
			t.Errorf("%+v: got no error", h.Tensors)
		}
	}
}

// TestNoFile: what is not a regular file is neither waited for nor replaced.
func TestNoFile(t *testing.T) {
	dir := t.TempDir()
	pipe, link := filepath.Join(dir, "pipe"), filepath.Join(dir, "link")
	if err := errors.Join(syscall.Mkfifo(pipe, 0o600), os.Symlink(pipe, link)); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{pipe, link, dir, os.DevNull} {
		if _, err := Open(path); !errors.Is(err, ErrDamaged) || !strings.Contains(err.Error(), "not a regular file") {
			t.Errorf("open of %s: got %v, want a refusal", path, err)
		}
		if path == os.DevNull {
			continue // a mistake here would cost the machine its own
		}
		if _, err := Create(path, &Header{}); err == nil || !strings.Contains(err.Error(), "want a regular file") {
			t.Errorf("create of %s: got %v, want a refusal", path, err)
		}
	}
	if l, _ := os.ReadDir(dir); len(l) != 2 {
		t.Errorf("%d files are there, want the pipe and the link", len(l))
	}
}
