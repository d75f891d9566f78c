package parquet

import (
	"bytes"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"gaiden/lib/data"
)

// files are those that testdata/tables.py of package data has written.
func files(t testing.TB) map[string][]byte {
	text, err := os.ReadFile("../testdata/tables.json")
	if err != nil {
		t.Fatal(err)
	}
	l := map[string][]byte{}
	if err := json.Unmarshal(text, &l); err != nil {
		t.Fatal(err)
	}
	return l
}

func at(s string) time.Time {
	x, err := time.Parse("2006-01-02 15:04:05.999999999", s)
	if err != nil {
		panic(err)
	}
	return x
}

// want is the table of the script.
var want = []data.Column{
	{Name: "i8", Numbers: []float64{1, math.NaN(), -3}}, {Name: "u32", Numbers: []float64{1, 2, 4294967295}}, {Name: "i64", Text: []string{"1", "", "9007199254740993"}},
	{Name: "u64", Text: []string{"1", "2", "18446744073709551615"}}, {Name: "f16", Numbers: []float64{0.5, 1, -2}}, {Name: "f32", Numbers: []float64{0.5, math.NaN(), 3}},
	{Name: "f64", Numbers: []float64{0.1, math.NaN(), 1e300}}, {Name: "bool", Text: []string{"true", "", "false"}}, {Name: "text", Text: []string{"ß", "", ""}},
	{Name: "large", Text: []string{"a", "b", "a"}}, {Name: "category", Text: []string{"x", "y", "x"}}, {Name: "date", Times: []time.Time{at("1969-12-31 00:00:00"), {}, at("2024-02-29 00:00:00")}},
	{Name: "ms", Times: []time.Time{at("1969-12-31 23:59:59.999"), at("1970-01-01 00:00:00"), at("1970-01-01 00:00:01.5")}},
	{Name: "ns", Times: []time.Time{at("1970-01-01 00:00:00.000000001"), at("1970-01-01 00:00:00.000000002"), at("2023-11-14 22:13:20")}},
	{Name: "decimal", Numbers: []float64{-1.25, math.NaN(), 3.5}}, {Name: "none", Numbers: []float64{math.NaN(), math.NaN(), math.NaN()}},
}

func same(a, b []data.Column) bool {
	return slices.EqualFunc(a, b, func(a, b data.Column) bool {
		numbers := slices.EqualFunc(a.Numbers, b.Numbers, func(x, y float64) bool { return x == y || x != x && y != y })
		return a.Name == b.Name && numbers && reflect.DeepEqual(a.Text, b.Text) && slices.EqualFunc(a.Times, b.Times, time.Time.Equal)
	})
}

func TestReadTable(t *testing.T) {
	for name, b := range files(t) {
		if !strings.HasPrefix(name, "parquet") {
			continue
		}
		got, err := read(bytes.NewReader(b), int64(len(b)))
		switch wrong, is := map[string]string{
			"parquet list": "column l is a list", "parquet bytes": "column b: row 1: bytes that are not UTF-8", "parquet empty": "0 rows of 16 columns",
		}[name]; {
		case is:
			if err == nil || !strings.Contains(err.Error(), wrong) {
				t.Errorf("%s: got %v, want %q", name, err, wrong)
			}
		case err != nil:
			t.Errorf("%s: %v", name, err)
		case name == "parquet int96":
			if !same(got.Columns, want[13:14]) {
				t.Errorf("%s: got %+v", name, got.Columns)
			}
		case name == "parquet pandas":
			if !same(got.Columns, []data.Column{{Name: "x", Numbers: []float64{3, 1}}}) || len(got.Notes) != 1 {
				t.Errorf("%s: got %+v, %q", name, got.Columns, got.Notes)
			}
		case name == "parquet struct":
			if !same(got.Columns, []data.Column{{Name: "p.x", Numbers: []float64{1, 2}}, {Name: "p.y", Text: []string{"a", ""}}}) {
				t.Errorf("%s: got %+v", name, got.Columns)
			}
		case !same(got.Columns, want):
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
		b := files(t)[name]
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
	for name, b := range files(f) {
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
