package parquet

import (
	"bytes"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"gaiden/lib/data"
	"gaiden/lib/data/datatest"
)

func TestReadTable(t *testing.T) {
	for name, b := range datatest.Files(t) {
		if !strings.HasPrefix(name, "parquet") {
			continue
		}
		got, err := read(bytes.NewReader(b), int64(len(b)))
		switch wrong, is := map[string]string{
			"parquet list": "column l is a list", "parquet bytes": "column b: row 1: bytes that are not UTF-8", "parquet empty": "0 rows of 16 columns",
			"parquet lz4": "column i8 is compressed with LZ4", "parquet runs": "column bool has bools in runs",
		}[name]; {
		case is:
			if err == nil || !strings.Contains(err.Error(), wrong) {
				t.Errorf("%s: got %v, want %q", name, err, wrong)
			}
		case err != nil:
			t.Errorf("%s: %v", name, err)
		case name == "parquet int96":
			if !datatest.Same(got.Columns, datatest.Want[13:14]) {
				t.Errorf("%s: got %+v", name, got.Columns)
			}
		case name == "parquet pandas":
			if !datatest.Same(got.Columns, []data.Column{{Name: "x", Numbers: []float64{3, 1}}}) || len(got.Notes) != 1 {
				t.Errorf("%s: got %+v, %q", name, got.Columns, got.Notes)
			}
		case name == "parquet null":
			if missing := math.NaN(); !datatest.Same(got.Columns, []data.Column{{Name: "n", Numbers: []float64{missing, missing}}, {Name: "x", Numbers: []float64{1, 2}}}) {
				t.Errorf("%s: got %+v", name, got.Columns)
			}
		case name == "parquet struct":
			if !datatest.Same(got.Columns, []data.Column{{Name: "p.x", Numbers: []float64{1, 2}}, {Name: "p.y", Text: []string{"a", ""}}}) {
				t.Errorf("%s: got %+v", name, got.Columns)
			}
		case !datatest.Same(got.Columns, datatest.Want):
			t.Errorf("%s: got %+v", name, got.Columns)
		}
	}
	path := filepath.Join(t.TempDir(), "x.parquet")
	os.WriteFile(path, []byte("a,b\n1,2\n"), 0o600)
	if _, err := ReadTable(path); err == nil || !strings.Contains(err.Error(), "x.parquet: no Parquet: it does not begin with PAR1") {
		t.Errorf("got %v", err)
	}
	if _, err := ReadTable("/no/such/file"); err == nil || !strings.Contains(err.Error(), "no such file") {
		t.Errorf("got %v", err)
	}
}

// TestBounded holds that a page that says it is large takes no memory.
func TestBounded(t *testing.T) {
	for _, name := range []string{"parquet snappy", "parquet gzip", "parquet zstd"} {
		b := datatest.Files(t)[name]
		const at = 7 // the uncompressed size of the first page, one byte
		large := slices.Concat(b[:at], []byte{0xfe, 0xff, 0xff, 0xff, 0x0f}, b[at+1:])
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := read(bytes.NewReader(large), int64(len(large)))
		runtime.ReadMemStats(&after)
		if used := after.TotalAlloc - before.TotalAlloc; err == nil || !strings.Contains(err.Error(), "damaged") || used > 1<<24 {
			t.Errorf("%s: got %v, and %d bytes are allocated", name, err, used)
		}
	}
}

// FuzzReadTable holds that damaged files are errors, and take memory for what they hold.
func FuzzReadTable(f *testing.F) {
	for name, b := range datatest.Files(f) {
		if strings.HasPrefix(name, "parquet") {
			f.Add(b)
		}
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		table, err := read(bytes.NewReader(b), int64(len(b)))
		runtime.ReadMemStats(&after)
		if used := after.TotalAlloc - before.TotalAlloc; used > 1<<30 {
			t.Errorf("%d bytes are allocated for a file of %d", used, len(b))
		}
		if err == nil && table.Len() == 0 {
			t.Error("got no rows and no error")
		}
	})
}
