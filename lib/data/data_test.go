package data

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
)

func write(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// panics is what f panics with.
func panics(f func()) (text string) {
	defer func() {
		if r := recover(); r != nil {
			text = fmt.Sprint(r)
		}
	}()
	f()
	return ""
}

func wants(t *testing.T, what string, err error, want string) {
	t.Helper()
	if err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("%s: got %v, want %q", what, err, want)
	}
}

func TestExamples(t *testing.T) {
	e := Examples{X: Inputs{"ids": Array{[]int{4, 2}, []int32{0, 1, 2, 3, 4, 5, 6, 7}}, "numbers": []float32{0, 1, 2, 3}}, Y: []int32{0, 1, 2, 3}, V: []float32{0, 1, 2, 3}, N: 4}
	first, others := e.Split(0.75)
	want := Examples{X: Inputs{"ids": Array{[]int{3, 2}, []int32{0, 1, 2, 3, 4, 5}}, "numbers": []float32{0, 1, 2}}, Y: []int32{0, 1, 2}, V: []float32{0, 1, 2}, N: 3}
	if !reflect.DeepEqual(first, want) || !reflect.DeepEqual(first, e.First(3)) || others.Len() != 1 || !reflect.DeepEqual(others.Y, []int32{3}) {
		t.Errorf("got %v and %v, want %v and the last one", first, others, want)
	}
	s := e.Shuffle(7)
	ids, numbers := s.X.(Inputs)["ids"].(Array).Flat.([]int32), s.X.(Inputs)["numbers"].([]float32)
	for i, y := range s.Y.([]int32) {
		if ids[2*i] != 2*y || ids[2*i+1] != 2*y+1 || numbers[i] != float32(y) || s.V[i] != float32(y) {
			t.Errorf("example %d of %v: want the parts of one", i, s)
		}
	}
	if !reflect.DeepEqual(s, e.Shuffle(7)) || reflect.DeepEqual(s, e.Shuffle(8)) || reflect.DeepEqual(s, e) {
		t.Error("want an order that the seed decides")
	}
	rows := Examples{X: [][]float32{{1, 2}, {3, 4}}, Y: SameX}
	if a, b := rows.Split(0.5); a.Len() != 1 || b.Y != SameX || !reflect.DeepEqual(b.X, [][]float32{{3, 4}}) {
		t.Errorf("got %v and %v", a, b)
	}
	for want, f := range map[string]func(){
		"N is 0 and X a []float32: want N":             func() { Examples{X: make([]float32, 4)}.Len() },
		"Split(1): want a part of the examples":        func() { e.Split(1) },
		"First(-1)":                                    func() { e.First(-1) },
		"Split(NaN)":                                   func() { e.Split(math.NaN()) },
		"Split(0.01) of 4 examples: one side has none": func() { e.Split(0.01) },
		"Y is a []int32, of 3 examples":                func() { Examples{X: make([]float32, 6), Y: make([]int32, 4), N: 3}.Shuffle(1) },
	} {
		if got := panics(f); !strings.Contains(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

func TestText(t *testing.T) {
	c, err := Text(write(t, "t.txt", "so sagt ß es"))
	if err != nil {
		t.Fatal(err)
	}
	if got := c.Decode(c.Tokens); got != "so sagt ß es" || c.Vocab() != 8 {
		t.Errorf("got %q of %d characters, want the text of 8", got, c.Vocab())
	}
	if l, err := c.Encode("ßes"); err != nil || c.Decode(l) != "ßes" || c.Decode([]int32{99}) != "\ufffd" {
		t.Errorf("got %v, %v", l, err)
	}
	_, err = c.Encode("so x")
	wants(t, "Encode", err, `Encode("so x"): the vocabulary has no 'x': want characters of ' ', 'a', 'e', 'g', 'o', 's', 't', 'ß'`)
	_, err = TextOf("\n 019abcdefghijklmnopqrstuvwxyz").Encode("Zebras and Yaks, 2 of each; more")
	wants(t, "Encode", err, `Encode("Zebras and Yaks, 2 o…"): the vocabulary has no ',', '2', ';', 'Y', 'Z': want characters of '\n', ' ', '0', '1', '9', 'a' to 'z'`)
	_, err = TextOf("acegikmoqsuwyACEGIKMOQSUWY0246789").Encode("b")
	wants(t, "Encode", err, `'k', 'm' … and 6 more`)
	for text, want := range map[string]string{
		"abba\n":                   `5 characters, 3 different ones: "abba\n"`,
		strings.Repeat("0123", 20): `80 characters, 4 different ones: "` + strings.Repeat("0123", 15) + `…"`,
	} {
		if got := TextOf(text).String(); got != want {
			t.Errorf("String: got %s, want %s", got, want)
		}
	}
	e := TextOf("0123456789").WindowsEvery(4, 3)
	if want := (Examples{X: Array{[]int{2, 4}, []int32{0, 1, 2, 3, 3, 4, 5, 6}}, Y: []int32{1, 2, 3, 4, 4, 5, 6, 7}, N: 2}); !reflect.DeepEqual(e, want) {
		t.Errorf("got %v, want %v", e, want)
	}
	if e := TextOf("0123456789").Windows(3); e.N != 3 {
		t.Errorf("got %v, want 3 windows", e)
	}
	if got := panics(func() { TextOf("abc").Windows(3) }); !strings.Contains(got, "windows of length 3, 3 apart, of 3 tokens") {
		t.Errorf("got %q", got)
	}
	_, err = Text(write(t, "bad.txt", "eins\nzw\xffei"))
	wants(t, "Text", err, "bad.txt:2: not UTF-8")
	_, err = Text(write(t, "empty.txt", ""))
	wants(t, "Text", err, "no text")
	_, err = Text("/no/such/file")
	wants(t, "Text", err, "no such file")
	b, err := Bytes(write(t, "b", "a\xff"))
	if err != nil || b.Vocab() != 256 || !slices.Equal(b.Tokens, []int32{'a', 255}) || b.Decode(b.Tokens) != "a\xff" {
		t.Errorf("got %v, %v", b, err)
	}
}

const houses = `size,city,rooms,price
10, Rome ,1,100
20,Oslo,,200
30,,3,300
40,"Rome",5,400
`

func TestTable(t *testing.T) {
	all, err := CSV{}.Read(write(t, "houses.csv", houses))
	if err != nil {
		t.Fatal(err)
	}
	if got, want := all.String(), `4 rows, 4 columns
column  kind     missing              values
size    numbers  0        █  █  █  █  10 … 40, mean 25
city    text     1                    Rome 2×, Oslo 1×
rooms   numbers  1        █    █   █  1 … 5, mean 3
price   numbers  0        █  █  █  █  100 … 400, mean 250`; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	train, test := all.Split(0.75)
	e, err := train.Encoder("price")
	if err != nil {
		t.Fatal(err)
	}
	d := math.Sqrt(200. / 3)
	want := &Encoder{Target: "price", Scale: Normal{Name: "price", Mean: 200, Deviation: 10 * d}, Numbers: []Normal{{Name: "size", Mean: 20, Deviation: d}, {Name: "rooms", Mean: 2, Deviation: 1}},
		Categories: []Category{{Name: "city", Values: []string{"Oslo", "Rome"}}}}
	if !reflect.DeepEqual(e, want) || e.Categories[0].Vocab() != 3 {
		t.Errorf("got %+v, want %+v", e, want)
	}
	x, err := e.Encode(train)
	one := float32(10 / d)
	if want := (Examples{X: Inputs{"numbers": Array{[]int{3, 2}, []float32{-one, -1, 0, 0, one, 1}}, "city": []int32{2, 1, 0}}, Y: []float32{-one, 0, one}, N: 3, Encoder: e}); err != nil || !reflect.DeepEqual(x, want) {
		t.Errorf("got %v, %v, want %v", x, err, want)
	}
	if x, err := e.Encode(test); err != nil || !reflect.DeepEqual(x.X.(Inputs)["city"], []int32{2}) {
		t.Errorf("got %v, %v: want the encoding of the training part", x, err)
	}
	numbers, _ := all.Without("city", "rooms")
	if e, err := numbers.Encoder(""); err != nil {
		t.Error(err)
	} else if x, err := e.Encode(numbers.First(1)); err != nil || x.Y != nil || !reflect.DeepEqual(x.X.(Array).Dims, []int{1, 2}) {
		t.Errorf("got %v, %v, want numbers without targets", x, err)
	}
	e, err = train.Encoder("city")
	if err != nil {
		t.Fatal(err)
	}
	_, err = e.Encode(train)
	wants(t, "a missing class", err, `houses.csv:4: city is "": want one of the classes ["Oslo" "Rome"]; for predictions, a table without the column city`)
	if x, err := e.Encode(train.First(2)); err != nil || !reflect.DeepEqual(x.Y, []int32{1, 0}) {
		t.Errorf("got %v, %v, want labels", x, err)
	}
	if s := all.Shuffle(3); s.Len() != 4 || !slices.Equal(s.Column("price").Numbers, all.Shuffle(3).Column("price").Numbers) {
		t.Errorf("got %v", s)
	}
}

func TestBadTables(t *testing.T) {
	for _, tt := range []struct {
		name string
		csv  CSV
		text string
		want string
	}{
		{"short line", CSV{}, "a,b\n1,2\n3\n", "f.csv:3: 1 values, want 2: a, b: missing values stay empty"},
		{"quotes", CSV{}, "a,b\n1,\"2\n", "f.csv:"},
		{"two columns of a name", CSV{}, "a,a\n1,2\n", `f.csv:1:3: columns 1 and 2 are both called "a"`},
		{"no name", CSV{}, "a,\n1,2\n", `f.csv:1: column 2 has no name: want one, or NoHeader`},
		{"no rows", CSV{}, "a,b\n", "no rows"},
		{"nothing", CSV{}, "", "no rows"},
		{"no column", CSV{Text: []string{"c"}}, "a,b\n1,2\n", `no column "c": want one of a, b`},
	} {
		_, err := tt.csv.Read(write(t, "f.csv", tt.text))
		wants(t, tt.name, err, tt.want)
	}
	x, err := CSV{NoHeader: true, Comma: ';', Missing: []string{"-"}, Text: []string{"c2"}}.Read(write(t, "f.csv", "1;2\n-;3\n"))
	if err != nil || x.Len() != 2 || x.Column("c1").Kind() != "numbers" || x.Column("c2").Kind() != "text" || x.Column("c1").Numbers[1] == x.Column("c1").Numbers[1] {
		t.Errorf("got %v, %v", x, err)
	}
	all, _ := CSV{}.Read(write(t, "houses.csv", houses))
	e, _ := all.Encoder("price")
	other, _ := CSV{}.Read(write(t, "other.csv", "size,city,rooms,price\n1,Rome,two,3\n"))
	_, err = e.Encode(other)
	wants(t, "text for a number", err, `other.csv:2: rooms is "two": want a number`)
	other, _ = CSV{}.Read(write(t, "other.csv", "size,city,rooms,price\n1,7,2,3\n"))
	_, err = e.Encode(other)
	wants(t, "a number for text", err, "other.csv:2: city is 7: want text")
	other, _ = CSV{}.Read(write(t, "other.csv", "size,city,rooms,price\n1,Rome,2,\n"))
	_, err = e.Encode(other)
	wants(t, "no target", err, "other.csv:2: price is missing: want a number")
	other, _ = all.Without("city")
	_, err = e.Encode(other)
	wants(t, "no column", err, `no column "city", which the table of the encoder has: got size, rooms, price`)
	_, err = all.Encoder("cost")
	wants(t, "no target", err, `no column "cost"`)
}

func TestNumPy(t *testing.T) {
	text, err := os.ReadFile("testdata/npy.json")
	if err != nil {
		t.Fatal(err)
	}
	var cases map[string]string
	if err := json.Unmarshal(text, &cases); err != nil {
		t.Fatal(err)
	}
	file := func(name string) string {
		b, err := base64.StdEncoding.DecodeString(cases[name])
		if err != nil {
			t.Fatal(err)
		}
		return write(t, "x.npy", string(b))
	}
	for name, want := range map[string]any{
		"<f4": []float32{0, 1, 2, 3, 4, 5}, ">f4": []float32{0, 1, 2, 3, 4, 5}, "<f8": []float64{0, 1, 2, 3, 4, 5}, "|u1": []uint8{0, 1, 2, 3, 4, 5}, "|i1": []int8{0, 1, 2, 3, 4, 5},
		"<u2": []uint16{0, 1, 2, 3, 4, 5}, "<i2": []int16{0, 1, 2, 3, 4, 5}, ">i4": []int32{0, 1, 2, 3, 4, 5}, "<i8": []int64{0, 1, 2, 3, 4, 5}, "|b1": []bool{false, true, true, true, true, true},
	} {
		if a, err := NPY(file(name)); err != nil || !reflect.DeepEqual(a, Array{[]int{2, 3}, want}) {
			t.Errorf("%s: got %v, %v, want %v", name, a, err, want)
		}
	}
	if a, err := NPY(file("scalar")); err != nil || !reflect.DeepEqual(a.Flat, []float32{3}) {
		t.Errorf("got %v, %v", a, err)
	}
	z, err := NPZ(file("npz"))
	if err != nil || !reflect.DeepEqual(z["x"].Dims, []int{2, 3}) || !reflect.DeepEqual(z["y"].Flat, []int64{1, 0}) {
		t.Errorf("got %v, %v", z, err)
	}
	for name, want := range map[string]string{"complex": "want numbers or bools", "strings": "want numbers or bools", "npz": "no array of NumPy"} {
		_, err := NPY(file(name))
		wants(t, name, err, want)
	}
	b, _ := base64.StdEncoding.DecodeString(cases["<f4"])
	_, err = NPY(write(t, "cut.npy", string(b[:len(b)-1])))
	wants(t, "a file that was cut", err, "cut.npy: it has 23 bytes of data, want 24 for float32 of shape (2, 3)")
	_, err = NPY(write(t, "huge.npy", strings.Replace(string(b), "(2, 3)", "(9999999999, 9999999999)", 1)))
	wants(t, "a shape that overflows", err, "")
	_, err = NPZ(write(t, "x.npz", "PK"))
	wants(t, "no archive", err, "x.npz: zip")
}

func FuzzNPY(f *testing.F) {
	f.Add([]byte("\x93NUMPY\x01\x00\x46\x00{'descr': '<f4', 'fortran_order': False, 'shape': (1,), }              \n1234"))
	f.Fuzz(func(t *testing.T, b []byte) {
		if a, err := readNPY(strings.NewReader(string(b)), int64(len(b))); err == nil && reflect.ValueOf(a.Flat).Len() > len(b) {
			t.Errorf("got %d numbers of %d bytes", reflect.ValueOf(a.Flat).Len(), len(b))
		}
	})
}

func TestImages(t *testing.T) {
	dir := t.TempDir()
	save := func(class, name string, height, width int, at func(y, x int) color.Color) {
		img := image.NewRGBA(image.Rect(3, 5, 3+width, 5+height))
		for y := range height {
			for x := range width {
				img.Set(3+x, 5+y, at(y, x))
			}
		}
		os.MkdirAll(filepath.Join(dir, class), 0o700)
		f, err := os.Create(filepath.Join(dir, class, name))
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		if err := png.Encode(f, img); err != nil {
			t.Fatal(err)
		}
	}
	ramp := func(y, x int) color.Color { return color.RGBA{byte(10 * x), byte(10 * y), 7, 255} }
	save("b", "2.png", 2, 2, ramp)
	save("b", "1.png", 4, 4, func(y, x int) color.Color { return color.RGBA{byte(80 * (x / 2)), 0, 0, 255} })
	save("a", "x.png", 2, 2, ramp)
	os.WriteFile(filepath.Join(dir, "a", ".hidden"), nil, 0o600)
	s, err := Images{}.Read(dir)
	if err != nil {
		t.Fatal(err)
	}
	ramps := []byte{0, 0, 7, 10, 0, 7, 0, 10, 7, 10, 10, 7}
	x := s.X.(Array)
	if pixels := x.Flat.([]byte); !slices.Equal(x.Dims, []int{3, 2, 2, 3}) || !slices.Equal(pixels[:12], ramps) || !slices.Equal(pixels[24:], ramps) {
		t.Errorf("got %v, want an image as it is", x)
	}
	if small := x.Flat.([]byte)[12:24]; small[0] != 11 || small[3] != 68 { // a seventh of the neighbour of 0 and 80, rounded down
		t.Errorf("got %v for the image that was made smaller, want 11 and 68", small)
	}
	if !slices.Equal(s.Classes, []string{"a", "b"}) || !reflect.DeepEqual(s.Y, []int32{0, 1, 1}) || s.Len() != 3 || s.String() != "3 images, 2×2×3, 2 classes" || filepath.Base(s.Files[1]) != "1.png" {
		t.Errorf("got %v, %v, %v", s, s.Y, s.Files)
	}
	g, err := Images{Height: 3, Width: 5, Gray: true}.Read(dir)
	if err != nil || !slices.Equal(g.X.(Array).Dims, []int{3, 3, 5, 1}) {
		t.Errorf("got %v, %v", g, err)
	}
	_, err = Images{Height: 3}.Read(dir)
	wants(t, "one side", err, "Images of 3×0")
	os.WriteFile(filepath.Join(dir, "a", "notes.txt"), []byte("notes"), 0o600)
	_, err = Images{}.Read(dir)
	wants(t, "no image", err, "notes.txt: image: unknown format")
	_, err = Images{}.Read(filepath.Join(dir, "a"))
	wants(t, "no folders", err, "want a folder for each class")
	_, err = Images{}.Read(t.TempDir())
	wants(t, "nothing", err, "no files")
}

func TestBatches(t *testing.T) {
	broken := fmt.Errorf("broken")
	var got []int
	var last error
	for e, err := range Batches(5, func(k int) (Examples, error) {
		if k == 3 {
			return Examples{}, broken
		}
		return Examples{N: k}, nil
	}) {
		got, last = append(got, e.N), err
	}
	if !slices.Equal(got, []int{0, 1, 2, 0}) || last != broken {
		t.Errorf("got %v, %v, want three and the error", got, last)
	}
}
