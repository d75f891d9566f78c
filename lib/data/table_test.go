package data

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
)

// kinds are the columns of a table with their kinds and values.
func kinds(t *Table) string {
	s := ""
	for i := range t.Columns {
		c := &t.Columns[i]
		var l []string
		for k := range c.len() {
			l = append(l, c.value(k))
		}
		s += c.Name + " " + c.Kind() + " " + strings.Join(l, "|") + "; "
	}
	return strings.TrimSuffix(s, "; ")
}

func TestCSVForms(t *testing.T) {
	var z bytes.Buffer
	w := gzip.NewWriter(&z)
	w.Write([]byte("a,b\n1,2\n"))
	w.Close()
	for _, tt := range []struct {
		name string
		csv  CSV
		text string
		want string
	}{
		{"codes with underscores", CSV{}, "a\n1_000\n2\n", "a text 1_000|2"},
		{"decimal points after all", CSV{Decimal: ','}, "a;b\n1.5;1.234.567,5\n2.25;€ 1.000\n", "a text 1.5|2.25; b text 1.234.567,5|€ 1.000"},
		{"points between thousands", CSV{Decimal: ',', Strip: "€ "}, "a;b\n-1.000;1.234.567,5\n2,25;€ 1.000\n", "a numbers -1000|2.25; b numbers 1234567.5|1000"},
		{"Excel's semicolons, byte order mark and CRLF", CSV{Decimal: ','}, "\ufeffa;b\r\n1,5;x\r\n1.234,25;\"y;\r\nz\"\r\n", "a numbers 1.5|1234.25; b text x|y;\nz"},
		{"tabs, with empty values", CSV{}, "a\tb\tc\n1\t\t3\n", "a numbers 1; b text ; c numbers 3"},
		{"bars", CSV{}, "a|b|c, d\n1|2|3\n", "a numbers 1; b numbers 2; c, d numbers 3"},
		{"the separator of the first line outside quotes", CSV{}, "\"a;b;c\",d\n1,2\n", "a;b;c numbers 1; d numbers 2"},
		{"the index of pandas", CSV{}, ",a\n0,x\n1,y\n", "a text x|y"},
		{"commas at the ends of lines", CSV{}, "a,b,\n1,2,\n3,4,\n", "a numbers 1|3; b numbers 2|4"},
		{"names with commas and quotes", CSV{}, "Name,Age\n\"Braund, Mr. Owen \"\"Ow\"\"\",22\n", `Name text Braund, Mr. Owen "Ow"; Age numbers 22`},
		{"missing values", CSV{}, "a,b\nNaN,x\n-,N/A\n,null\n1e3,NA\n", "a numbers |||1000; b text x|||"},
		{"missing values of your own", CSV{Missing: []string{"none"}}, "a\nnone\nNA\n", "a text |NA"},
		{"bools", CSV{}, "a\ntrue\nfalse\n", "a text true|false"},
		{"long integers", CSV{}, "id\n9007199254740993\n9007199254740992\n", "id text 9007199254740993|9007199254740992"},
		{"long integers that a float64 has", CSV{}, "id\n9007199254740992\n18014398509481984\n", "id numbers 9.007199254740992e+15|1.8014398509481984e+16"},
		{"codes", CSV{Text: []string{"zip"}}, "zip\n00501\n90210\n", "zip text 00501|90210"},
		{"currencies", CSV{Strip: "$,%"}, "a,b\n\"$1,200.50\",12%\n$3,5 %\n", "a numbers 1200.5|3; b numbers 12|5"},
		{"days", CSV{}, "d\n2024-02-29\nNA\n", "d times 2024-02-29|"},
		{"times", CSV{}, "d\n2024-02-29T01:02:03Z\n", "d times 2024-02-29 01:02:03"},
		{"times with fractions", CSV{}, "d\n2024-02-29 01:02:03.25\n", "d times 2024-02-29 01:02:03.25"},
		{"German days", CSV{}, "d\n31.12.2024\n", "d times 2024-12-31"},
		{"days with the month first", CSV{Time: "01/02/2006"}, "d\n12/31/2024\n", "d times 2024-12-31"},
		{"no such day", CSV{}, "d\n2024-02-30\n", "d text 2024-02-30"},
		{"gzip", CSV{}, z.String(), "a numbers 1; b numbers 2"},
		{"no line at the end, and empty ones", CSV{}, "a\n\n1\n\n2", "a numbers 1|2"},
		{"numbers without a header", CSV{NoHeader: true}, "1,x\n2,y\n", "c1 numbers 1|2; c2 text x|y"},
	} {
		got, err := tt.csv.Read(write(t, "f.csv", tt.text))
		if err != nil {
			t.Errorf("%s: %v", tt.name, err)
		} else if kinds(got) != tt.want {
			t.Errorf("%s: got %q, want %q", tt.name, kinds(got), tt.want)
		}
	}
}

// TestDoubts holds that columns that are perhaps no text are refused when a net is to be
// trained on them, with line, column and what to do.
func TestDoubts(t *testing.T) {
	many := "id,y\n"
	for i := range 21 {
		many += strings.Repeat("x", i+1) + ",1\n"
	}
	for _, tt := range []struct{ name, text, want string }{
		{"a word among numbers", "a,y\n1,0\n2,0\ntwo,1\n3,1\n", `f.csv:4: a is "two": 3 of the column's 4 values are numbers: want all: correct it, add it to CSV.Missing`},
		{"decimal commas", "a;y\n1,5;0\n12,25;1\n", `f.csv:2: a is "1,5": want numbers with decimal points: set CSV.Decimal to ','`},
		{"thousands or decimals", "a;y\n1,500;0\n", `f.csv:2: a is "1,500": want numbers: set CSV.Strip to ","`},
		{"currencies", "a,y\n$3,0\n\"$1,200.50\",0\n", `f.csv:3: a is "$1,200.50": want numbers: set CSV.Strip to "$,"`},
		{"percent", "a,y\n3 %,0\n4 %,1\n", `f.csv:2: a is "3 %": want numbers: set CSV.Strip to " %"`},
		{"days in doubt", "a,y\n03/04/2024,0\n05/06/2024,1\n", `f.csv:2: a is "03/04/2024": want a time without doubt: set CSV.Time`},
		{"a day that is none", "a,y\n2024-01-01,0\n2024-02-30,1\n2024-03-01,1\n", `f.csv:3: a is "2024-02-30": 2 of the column's 3 values are times of the form "2006-01-02": want all`},
		{"times in two forms", "a,y\n2024-01-01,0\n2024-01-02 10:00,1\n,0\n2024-03-01,1\n", `f.csv:3: a is "2024-01-02 10:00": 2 of the column's 3 values are times of the form "2006-01-02": want all`},
		{"names", many, "column id is text, and no value of its 21 occurs twice: want categories: leave it out with Without"},
		{"one class", "a,y\n1,x\n2,x\n", `target y has the values ["x"]: want two or more`},
		{"inputs that are the same", "a b,a_b,y\nu,v,1\nw,x,2\n", `columns a b and a_b are both the input "a_b"`},
	} {
		got, err := CSV{}.Read(write(t, "f.csv", tt.text))
		if err != nil {
			t.Errorf("%s: %v", tt.name, err)
			continue
		}
		_, err = got.Encoder("y")
		wants(t, tt.name, err, tt.want)
		if d := got.Columns[0].doubt; d != "" && (!strings.Contains(got.String(), d) || !strings.Contains(got.HTML(), "f.csv:")) {
			t.Errorf("%s: got %s, want the doubt below the table", tt.name, got)
		}
	}
	for _, tt := range []struct{ name, text, want string }{
		{"Latin-1", "a,b\n1,\"x\ny \xe4\"\n", `f.csv:2:3: column b: byte 0xe4 after "x\ny " is not UTF-8: want UTF-8: the text may be Latin-1: run iconv`},
		{"UTF-16", "\xff\xfea\x00", "f.csv: text in UTF-16: want UTF-8: save it as CSV UTF-8"},
		{"a workbook", "PK\x03\x04", "a zip archive or an Excel workbook: want text"},
		{"Parquet", "PAR1....", "a Parquet file: want text: read it with parquet.ReadTable"},
		{"Arrow", "ARROW1..", "an Arrow file: want text: read it with arrow.ReadTable"},
		{"gzip that is cut off", "\x1f\x8b\x08\x00", "gzip: unexpected EOF"},
		{"a comma too many", "a,b\n1,2\n1,2,3\n", `f.csv:3: 3 values, want 2: a, b: a value with ',' in it wants quotes around it`},
		{"a quote that does not end", "a,b\n1,2\n3,\"x\n4,5\n", "f.csv:4:5: extraneous or missing \" in quoted-field: the quoted value begins at line 3"},
		{"a quote in a value", "a,b\n1,x\"y\n", "f.csv:2:4: bare \" in non-quoted-field: a value with quotes in it wants quotes around it"},
		{"an empty file", "", "f.csv: empty"},
		{"carriage returns", "a,b\r1,2\r3,4\r", `f.csv: lines that end with a carriage return alone: want line feeds: run tr '\r' '\n'`},
		{"a header alone", "a,b\n", "f.csv: no rows: want at least one below the header a, b"},
		{"a column without a name", "a,\n1,x\n", "f.csv:1: column 2 has no name"},
	} {
		_, err := CSV{}.Read(write(t, "f.csv", tt.text))
		wants(t, tt.name, err, tt.want)
	}
	_, err := CSV{}.Read(t.TempDir())
	wants(t, "a directory", err, "is a directory")
	_, err = CSV{}.Read("no-such.csv")
	wants(t, "no file", err, "no-such.csv: no such file or directory: looked for it in /")
	dir := filepath.Dir(write(t, "flats.csv", "a\n1\n"))
	_, err = CSV{}.Read(filepath.Join(dir, "flat.csv"))
	wants(t, "no file in a folder", err, "flat.csv: no such file or directory: "+dir+" has flats.csv")
	_, err = CSV{}.Read(filepath.Join(dir, "houses", "old", "flats.csv"))
	wants(t, "no folder", err, "no such file or directory: there is "+dir+", and no houses in it")
	_, err = Images{Height: 2, Width: 2}.Read(filepath.Join(t.TempDir(), "pict"))
	wants(t, "no folder of images", err, "is empty")
	_, err = CSV{Comma: '"'}.Read(write(t, "f.csv", "a\n1\n"))
	wants(t, "a bad separator", err, "CSV.Comma is '\"': want another character")
	got, err := CSV{Decimal: ','}.Read(write(t, "f.csv", "a;y\n1,5;0\n1.5;1\n"))
	if err == nil {
		_, err = got.Encoder("y")
	}
	if err == nil || !strings.Contains(err.Error(), `f.csv:3: a is "1.5": want the decimal commas that CSV.Decimal says`) {
		t.Errorf("a decimal point among decimal commas: got %v", err)
	}
}

func TestChunks(t *testing.T) {
	path := write(t, "f.csv", ",n,c,d\n0,1,7x,2024-01-01\n1,2,y,2024-01-02\n2,3,5,2024-01-03\n3,,6,\n4,9,x,2024-01-05\n")
	var e *Encoder
	sizes, ids := []int{}, []int32{}
	for x, err := range (CSV{}).Chunks(path, 3) {
		if err != nil {
			t.Fatal(err)
		}
		if sizes = append(sizes, x.Len()); e == nil {
			if e, err = x.Encoder("n"); err != nil {
				t.Fatal(err)
			}
		}
		if x.Column("c").Kind() != "text" || x.Column("d").Kind() != "times" {
			t.Errorf("got %v, want the kinds of the first rows", x)
		}
	}
	if !slices.Equal(sizes, []int{3, 2}) {
		t.Errorf("got tables of %v rows", sizes)
	}
	var last error
	for x, err := range e.Stream((CSV{}).Chunks(path, 3)) {
		if last = err; err == nil {
			ids = append(ids, x.X.(Inputs)["c"].([]int32)...)
		}
	}
	wants(t, "a target that is missing", last, "f.csv:5: n is missing")
	if !slices.Equal(ids, []int32{2, 3, 1}) {
		t.Errorf("got %v, want the categories of the rows before the error", ids)
	}
	for _, err := range (CSV{}).Chunks(write(t, "f.csv", "n\n1\n2\nx\n"), 2) {
		last = err
	}
	wants(t, "a word in a later part", last, `f.csv:4: n is "x": want numbers, as in the first rows`)
}

func TestJSONLines(t *testing.T) {
	for _, tt := range []struct{ name, text, want string }{
		{"lines", `{"a": 1, "b": "x"}` + "\n" + `{"b": null, "a": 2.5, "c": true}`, "a numbers 1|2.5; b text x|; c text |true"},
		{"an array", `[{"a": 1},` + "\n\n" + `{"a": 2}]`, "a numbers 1|2"},
		{"objects in objects", `{"a": {"x": 1, "y": {"z": "u"}}}`, "a.x numbers 1; a.y.z text u"},
		{"times", `{"a": "2024-01-02"}{"a": null}`, "a times 2024-01-02|"},
		{"strings of digits", `{"a": "0012"}`, "a text 0012"},
		{"long integers", `{"a": 1}{"a": 9007199254740993}`, "a text 1|9007199254740993"},
	} {
		got, err := JSONLines{}.Read(write(t, "f.jsonl", tt.text))
		if err != nil {
			t.Errorf("%s: %v", tt.name, err)
		} else if kinds(got) != tt.want {
			t.Errorf("%s: got %q, want %q", tt.name, kinds(got), tt.want)
		}
	}
	got, err := JSONLines{Text: []string{"a"}}.Read(write(t, "f.jsonl", `{"a": 1}{"a": "x"}`))
	if err != nil || kinds(got) != "a text 1|x" {
		t.Errorf("got %v, %v, want text", got, err)
	}
	for _, tt := range []struct{ name, text, want string }{
		{"two kinds", "{\"a\": 1}\n{\"a\": \"x\"}", "f.jsonl:2: a is a string, and a number at line 1: want one kind of values, or the column in JSONLines.Text"},
		{"an array of numbers", "{\"a\": [1]}", "f.jsonl:1: a is an array: want a number"},
		{"no object", "{\"a\": 1}\n[1]", "f.jsonl:2: got \"[\", want an object for each row"},
		{"bad syntax", "{\"a\": 1}\n{\"a\": 1,}\n", "f.jsonl:2: invalid character '}'"},
		{"a file that is cut off", "{\"a\": 1}\n{\"a\": ", "f.jsonl:2: the file ends within a value"},
		{"an array that is cut off", "[{\"a\": 1}\n", "f.jsonl:2: the file ends within a value"},
		{"a key that occurs twice", "{\"a\": 1, \"a\": 2}", `"a" occurs twice`},
		{"Latin-1", "{\"a\": 1}\n{\"b\": \"\xe4\"}", "f.jsonl:2: byte 0xe4 after"},
		{"nothing", "", "no rows"},
		{"too deep", strings.Repeat(`{"a":`, 30), "more than 20 deep"},
		{"a number beyond float64", `{"a": 1e999}`, "f.jsonl:1: a is 1e999: want a number that a float64 can be"},
	} {
		_, err := JSONLines{}.Read(write(t, "f.jsonl", tt.text))
		wants(t, tt.name, err, tt.want)
	}
}

func TestTableOf(t *testing.T) {
	type base struct{ ID uint64 }
	type row struct {
		base
		Size  float32 `data:"size"`
		Rooms *int
		City  string
		Sold  time.Time
		New   bool
		Note  []byte `data:"-"`
		own   int
	}
	three := 3
	_ = row{}.own
	rows := []*row{{base{1 << 53}, 1.5, &three, "Rome", time.Date(2024, 1, 2, 0, 0, 0, 0, time.UTC), true, nil, 0}, nil, {base{1<<53 + 1}, 2, nil, "", time.Time{}, false, nil, 0}}
	got, err := TableOf(rows)
	if want := "ID text 9007199254740992||9007199254740993; size numbers 1.5||2; Rooms numbers 3||; City text Rome||; Sold times 2024-01-02||; New text true||false"; err != nil || kinds(got) != want {
		t.Errorf("got %q, %v, want %q", kinds(got), err, want)
	}
	_, err = TableOf([]struct{ X []int }{{}})
	wants(t, "slices", err, "field X is a []int: want numbers, strings, bools or times; leave it out with the tag")
	_, err = TableOf(3)
	wants(t, "no slice", err, "want a slice of structs")
	_, err = TableOf([]row{})
	wants(t, "no rows", err, "want at least one")
}

func TestExamplesOf(t *testing.T) {
	type digit struct {
		Pixels [2][]byte
		Bright *float32 `data:"bright"`
		Label  int32
		Name   string `data:"-"`
	}
	half := float32(0.5)
	rows := []digit{{[2][]byte{{1, 2, 3}, {4, 5, 6}}, &half, 7, "a"}, {[2][]byte{{7, 8, 9}, {10, 11, 12}}, &half, 3, "b"}}
	want := Examples{X: Inputs{"Pixels": Array{[]int{2, 2, 3}, []byte{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}}, "bright": Array{[]int{2}, []float32{0.5, 0.5}}}, Y: []int32{7, 3}, N: 2}
	if got, err := ExamplesOf(rows, "Label"); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, %v, want %v", got, err, want)
	}
	type point struct{ XY [2]float64 }
	if got, err := ExamplesOf([]point{{[2]float64{1, 2}}}, ""); err != nil || !reflect.DeepEqual(got, Examples{X: Array{[]int{1, 2}, []float64{1, 2}}, N: 1}) {
		t.Errorf("got %v, %v", got, err)
	}
	for want, f := range map[string]func() (Examples, error){
		"field Pixels of row 1 has length 2: want 3 as in the first row": func() (Examples, error) {
			return ExamplesOf([]digit{rows[0], {[2][]byte{{1, 2}, {3, 4}}, &half, 1, ""}}, "Label")
		},
		"field Bright of row 1 is nil":                 func() (Examples, error) { return ExamplesOf([]digit{rows[0], {rows[0].Pixels, nil, 1, ""}}, "Label") },
		`want fields, and one called "label"`:          func() (Examples, error) { return ExamplesOf(rows, "label") },
		"field Text is a string: want numbers, bools":  func() (Examples, error) { return ExamplesOf([]struct{ Text string }{{}}, "") },
		"ExamplesOf a []struct {}: no exported fields": func() (Examples, error) { return ExamplesOf([]struct{}{{}}, "") },
	} {
		_, err := f()
		wants(t, want, err, want)
	}
}

func TestTableParts(t *testing.T) {
	all, err := CSV{}.Read(write(t, "f.csv", "x,y,c\n1,a,$2\n2,b,$3\n3,a,\n4,a,$5\n5,b,$6\n6,a,$7\n"))
	if err != nil {
		t.Fatal(err)
	}
	a, b, err := all.Shuffle(1).SplitStratified("y", 0.5)
	if err != nil || len(values(a.Column("y").Text)) != 2 || a.Len() != 3 || b.Len() != 3 {
		t.Errorf("got %v, %v, %v: want 3 rows each, of both classes", a, b, err)
	}
	_, _, err = all.First(2).SplitStratified("y", 0.5)
	wants(t, "a class that occurs once", err, "occurs once: want two examples or more")
	parsed, err := all.Parse("c", func(s string) (float64, error) { return float64(s[1] - '0'), nil })
	if err != nil || kinds(parsed) != "x numbers 1|2|3|4|5|6; y text a|b|a|a|b|a; c numbers 2|3||5|6|7" {
		t.Errorf("got %v, %v", parsed, err)
	}
	_, err = (&Table{Columns: []Column{{Name: "x", Numbers: []float64{0, 1, 0}}, {Name: "y", Numbers: []float64{1, 2, 3}}}}).Encoder("x")
	wants(t, "two numbers as the target", err, `target x has the numbers 0 and 1 only: want classes, which are text: make it text with Categorical("x")`)
	classes, err := all.Categorical("x")
	if err != nil || kinds(classes.First(2)) != "x text 1|2; y text a|b; c text $2|$3" {
		t.Errorf("got %v, %v", classes, err)
	}
	_, err = all.With(Column{Name: "x", Numbers: []float64{1}})
	wants(t, "other rows", err, "column y has 6 rows, x has 1: want the same in all")
	_, err = all.With(Column{Name: "z"})
	wants(t, "no values", err, "column z has 0 of Numbers, Times and Text")
	own := &Table{Columns: []Column{{Name: "a", Numbers: []float64{1, 2}}, {Name: "b", Text: []string{"x", "y"}}}}
	if e, err := own.Encoder("b"); err != nil || own.Len() != 2 {
		t.Error(err)
	} else if x, err := e.Encode(own); err != nil || !reflect.DeepEqual(x.Y, []int32{0, 1}) {
		t.Errorf("got %v, %v", x, err)
	}
}

func TestEncoderIsShown(t *testing.T) {
	table, err := CSV{}.Read(write(t, "f.csv", "a,petal length,petal width,colour,kind\n1,2,3,red,x\n2,3,4,blue,y\n3,4,6,red,x\n4,5,6,blue,y\n"))
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		without []string
		want    string
	}{
		{[]string{"a"}, "kind: 2 classes: x, y\nnumbers: petal length, petal width\ncategories: colour (2)"},
		{[]string{"a", "colour"}, "kind: 2 classes: x, y\nnumbers: petal length, petal width\ncategories: none"},
	} {
		rest, err := table.Without(tt.without...)
		if err != nil {
			t.Fatal(err)
		}
		e, err := rest.Encoder("kind")
		if err != nil || e.String() != tt.want {
			t.Errorf("without %q: got %v, %v, want %q", tt.without, e, err, tt.want)
			continue
		}
		e.OneHot = true
		if want := fmt.Sprintf("%s\nOneHot: X is [n %d], the numbers, then one for each value of the categories", tt.want, 6-2*len(tt.without)); e.String() != want {
			t.Errorf("OneHot without %q: got %v, want %q", tt.without, e, want)
		}
	}
}

// TestEncoderOfExamples holds that examples keep the encoder that has made them.
func TestEncoderOfExamples(t *testing.T) {
	table, err := (&Table{}).With(Column{Name: "n", Numbers: []float64{1, 3}}, Column{Name: "c", Text: []string{"a", "b"}}, Column{Name: "y", Text: []string{"no", "yes"}})
	if err != nil {
		t.Fatal(err)
	}
	e, err := table.Encoder("y")
	same, err2 := table.Encoder("y")
	examples, err3 := e.Encode(table)
	rows, err4 := e.EncodeRows(Row{"n": 1, "c": "a"})
	if err := errors.Join(err, err2, err3, err4); err != nil {
		t.Fatal(err)
	}
	e.Numbers[0].Mean, e.Categories[0].Values[0], e.Classes[0] = 5, "z", "never"
	if !reflect.DeepEqual(examples.Encoder, same) || !reflect.DeepEqual(rows.Encoder, same) {
		t.Errorf("got %v and %v, want %v", examples.Encoder, rows.Encoder, same)
	}
}

func TestEncoderForms(t *testing.T) {
	all, err := CSV{}.Read(write(t, "f.csv", "d,c,y\n2024-01-01,u,10\n2024-01-03,v,30\n,,20\n"))
	if err != nil {
		t.Fatal(err)
	}
	e, err := all.Encoder("y")
	if err != nil {
		t.Fatal(err)
	}
	e.OneHot = true
	path := write(t, "e.json", "")
	if err := e.Save(path); err != nil {
		t.Fatal(err)
	}
	saved, err := ReadEncoder(path)
	if err != nil || !reflect.DeepEqual(saved, e) {
		t.Fatalf("got %+v, %v, want %+v", saved, err, e)
	}
	x, err := saved.Encode(all)
	want := Array{[]int{3, 3}, []float32{-1, 1, 0, 1, 0, 1, 0, 0, 0}}
	if err != nil || !reflect.DeepEqual(x.X, want) || e.Width() != 3 {
		t.Errorf("got %v, %v, want %v", x.X, err, want)
	}
	if got := e.Values(x.Y.([]float32)); math.Abs(got[0]-10)+math.Abs(got[1]-30)+math.Abs(got[2]-20) > 1e-5 {
		t.Errorf("got %v, want the numbers of the table", got)
	}
	w, err := e.Windows(all, 2, 1)
	if a, is := w.X.(Array); err != nil || !is || !slices.Equal(a.Dims, []int{1, 2, 4}) || !reflect.DeepEqual(w.Y, []float32{0}) || a.Flat.([]float32)[3] != x.Y.([]float32)[0] {
		t.Errorf("got %v, %v, want a window of two rows of four numbers, and the third row's target", w, err)
	}
	_, err = e.Windows(all, 3, 1)
	wants(t, "a long window", err, "windows of 3 rows, the target 1 ahead, of 3 rows")
	classes, _ := all.First(2).Encoder("c")
	if got := classes.Names([]int32{1, 0, 7}); !slices.Equal(got, []string{"v", "u", ""}) {
		t.Errorf("got %q", got)
	}
	if got, err := ClassWeights([]int32{0, 1, 1, 1}); err != nil || !slices.Equal(got, []float64{2, 2. / 3}) {
		t.Errorf("got %v, %v", got, err)
	}
	_, err = ClassWeights([]int32{0, 2})
	wants(t, "a class without examples", err, "class 1 of 3 has no examples")
	_, err = ReadEncoder(write(t, "e.json", "{}"))
	wants(t, "another file", err, "want a file of Encoder.Save")
}

func TestShow(t *testing.T) {
	all, err := CSV{}.Read(write(t, "f.csv", "<b>,c\n1,\"x\n<y>\"\n2,\n"))
	if err != nil {
		t.Fatal(err)
	}
	h := all.HTML()
	for _, want := range []string{"&lt;b&gt;", "x &lt;y&gt;", "text, 1 missing", "1 … 2", "█"} {
		if !strings.Contains(h, want) {
			t.Errorf("got %s, want %q", h, want)
		}
	}
	e := Examples{X: Inputs{"ids": []int32{1, 2}, "numbers": Array{[]int{2, 1}, []float32{0, 1}}}, Y: SameX, V: []float32{1, 1}, N: 2}
	want := `2 examples
part       shape  type                 values
X ids      [2]    int32    █        █  1 … 2, mean 1.5
X numbers  [2×1]  float32  █        █  0 … 1, mean 0.5
Y                                      those of X
V          [2]    float32              1`
	if got := e.String(); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	for _, x := range []Examples{{}, {X: [][]float32{{1}, {2}}}, {X: [][]string{}}, {X: 3, N: 1}, {X: []float32{float32(math.NaN())}, N: 1}, {X: []string{"a"}, N: 1}} {
		if x.String() == "" || x.HTML() == "" {
			t.Error("want something")
		}
	}
}
