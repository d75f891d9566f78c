// Package datatest has the files and the table that tests of data's formats share.
package datatest

import (
	"encoding/json"
	"math"
	"os"
	"reflect"
	"slices"
	"testing"
	"time"

	"gaiden/lib/data"
)

// Files are those that testdata/tables.py of package data has written.
func Files(t testing.TB) map[string][]byte {
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

// Want is the table of the script.
var Want = []data.Column{
	{Name: "i8", Numbers: []float64{1, math.NaN(), -3}}, {Name: "u32", Numbers: []float64{1, 2, 4294967295}}, {Name: "i64", Text: []string{"1", "", "9007199254740993"}},
	{Name: "u64", Text: []string{"1", "2", "18446744073709551615"}}, {Name: "f16", Numbers: []float64{0.5, 1, -2}}, {Name: "f32", Numbers: []float64{0.5, math.NaN(), 3}},
	{Name: "f64", Numbers: []float64{0.1, math.NaN(), 1e300}}, {Name: "bool", Text: []string{"true", "", "false"}}, {Name: "text", Text: []string{"ß", "", ""}},
	{Name: "large", Text: []string{"a", "b", "a"}}, {Name: "category", Text: []string{"x", "y", "x"}}, {Name: "date", Times: []time.Time{at("1969-12-31 00:00:00"), {}, at("2024-02-29 00:00:00")}},
	{Name: "ms", Times: []time.Time{at("1969-12-31 23:59:59.999"), at("1970-01-01 00:00:00"), at("1970-01-01 00:00:01.5")}},
	{Name: "ns", Times: []time.Time{at("1970-01-01 00:00:00.000000001"), at("1970-01-01 00:00:00.000000002"), at("2023-11-14 22:13:20")}},
	{Name: "decimal", Numbers: []float64{-1.25, math.NaN(), 3.5}}, {Name: "none", Numbers: []float64{math.NaN(), math.NaN(), math.NaN()}},
}

// Same says whether columns hold the same, NaN included.
func Same(a, b []data.Column) bool {
	return slices.EqualFunc(a, b, func(a, b data.Column) bool {
		numbers := slices.EqualFunc(a.Numbers, b.Numbers, func(x, y float64) bool { return x == y || x != x && y != y })
		return a.Name == b.Name && numbers && reflect.DeepEqual(a.Text, b.Text) && slices.EqualFunc(a.Times, b.Times, time.Time.Equal)
	})
}
