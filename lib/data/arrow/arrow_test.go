package arrow

import (
	"bytes"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"gaiden/lib/data/datatest"
)

func TestReadTable(t *testing.T) {
	for name, b := range datatest.Files(t) {
		if !strings.HasPrefix(name, "arrow") {
			continue
		}
		got, err := read(b)
		switch wrong, is := map[string]string{
			"arrow list": "column l: list<item: int64, nullable>: want numbers", "arrow empty": "no rows", "arrow version 1": "Feather of version 1",
		}[name]; {
		case is:
			if err == nil || !strings.Contains(err.Error(), wrong) {
				t.Errorf("%s: got %v, want %q", name, err, wrong)
			}
		case err != nil:
			t.Errorf("%s: %v", name, err)
		case !datatest.Same(got.Columns, datatest.Want):
			t.Errorf("%s: got %+v", name, got.Columns)
		}
	}
	path := filepath.Join(t.TempDir(), "x.feather")
	os.WriteFile(path, []byte("a,b\n1,2\n"), 0o600)
	if _, err := ReadTable(path); err == nil || !strings.Contains(err.Error(), "x.feather: neither a file of Arrow") {
		t.Errorf("got %v", err)
	}
	if _, err := ReadTable("/no/such/file"); err == nil || !strings.Contains(err.Error(), "no such file") {
		t.Errorf("got %v", err)
	}
}

// TestBounded holds that a buffer that says it is large takes no memory.
func TestBounded(t *testing.T) {
	for name, sign := range map[string]string{"arrow lz4": "\x04\x22\x4d\x18", "arrow zstd": "\x28\xb5\x2f\xfd"} {
		b := slices.Clone(datatest.Files(t)[name])
		at := bytes.Index(b, []byte(sign)) - 8 // the uncompressed size of the first buffer
		if at < 0 {
			t.Fatalf("%s: no frame", name)
		}
		b[at+4] = 1 // 4 GiB
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := read(b)
		runtime.ReadMemStats(&after)
		if used := after.TotalAlloc - before.TotalAlloc; err == nil || used > 1<<24 {
			t.Errorf("%s: got %v, and %d bytes are allocated", name, err, used)
		}
	}
}

// FuzzReadTable holds that damaged files are errors, and take memory for what they hold.
func FuzzReadTable(f *testing.F) {
	for name, b := range datatest.Files(f) {
		if strings.HasPrefix(name, "arrow") {
			f.Add(b)
		}
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		table, err := read(b)
		runtime.ReadMemStats(&after)
		if used := after.TotalAlloc - before.TotalAlloc; used > 1<<30 {
			t.Errorf("%d bytes are allocated for a file of %d", used, len(b))
		}
		if err == nil && table.Len() == 0 {
			t.Error("got no rows and no error")
		}
	})
}
