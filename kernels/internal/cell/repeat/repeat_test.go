package repeat

import (
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"maps"
	"slices"
	"strings"
	"testing"
)

// TestRepeatable: which initializers may be evaluated again, and what they use.
func TestRepeatable(t *testing.T) {
	const head = `package main

import (
	"bytes"
	"container/heap"
	"encoding/binary"
	"encoding/csv"
	"encoding/hex"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"go/ast"
	"html/template"
	"image"
	"iter"
	"log/slog"
	"maps"
	"math/rand"
	"os"
	"slices"
	"sort"
	"strings"
	"sync"
	"text/tabwriter"
	"time"
)

var (
	_ = heap.Init
	_ = binary.Write
	_ = csv.NewWriter
	_ = hex.Encode
	_ = json.Marshal
	_ = xml.Marshal
	_ = ast.Print
	_ = template.New
	_ = image.Decode
	_ = slog.Info
	_ = maps.Copy[map[int]int, map[int]int]
	_ = tabwriter.NewWriter
	_ = bytes.NewReader
	_ = errors.New
	_ = fmt.Sprint
	_ iter.Seq[int]
	_ = rand.New
	_ = os.Open
	_ = slices.Sorted[int]
	_ = sort.Ints
	_ = strings.ToUpper
	_ sync.Mutex
	_ = time.Now
)

type T struct {
	n int
	f func() int
}

func (t T) get() int   { return t.n }
func (t *T) set(n int) { t.n = n }

const size = 3

var (
	calm    = 1
	changed = 1
	global  = map[string]int{}
	make1   = func() int { return 1 }
	numbers = []int{2, 1}
	ages    = map[int]int{}
	buffer  = new(bytes.Buffer)
	output  any = buffer
	small   heap.Interface
)

func kept() *bytes.Buffer      { return buffer }
func first3(i image.Image, _ string, _ error) image.Image { return i }
func builder() *bytes.Buffer   { return new(bytes.Buffer) }
func sorted(list ...int) []int { own := slices.Clone(list); slices.Sort(own); return own }
func given(list []int) []int   { slices.Sort(list); return list }
func decoded() (n int)         { var own int; json.Unmarshal([]byte("1"), &own); return own }

func plain(n int) T         { t := T{n: n}; t.n++; return t }
func adder(n int) func() int { return func() int { return n + size } }
func counter() func() int   { n := 0; return func() int { n++; return n } }
func shared() func() int    { m := map[int]int{}; return func() int { return len(m) } }
func random() func() int    { r := rand.New(rand.NewSource(1)); return func() int { return r.Int() } }
func writes() T             { os.WriteFile("x", nil, 0); return T{} }
func registers() T          { global["a"] = 1; return T{} }
func starts() T             { go func() {}(); return T{} }
func calls(f func() int) T  { return T{n: f()} }
func must[V any](v V, err error) V {
	if err != nil {
		panic(err)
	}
	return v
}
func recursive(n int) T {
	if n == 0 {
		return T{}
	}
	return recursive(n - 1)
}
func change() { changed = 2 }
func opens(yield func(*os.File) bool) { f, _ := os.Create("x"); yield(f) }
func counts(yield func(int) bool) { yield(1) }
`
	tests := []struct{ expr, want string }{ // want: what it uses, or - if it may not be repeated
		{`1 + 2*size`, "size"},
		{`func() int { os.Remove("x"); return changed }`, ""},
		{`T{calm, func() int { return 1 }}`, "calm"},
		{`&T{n: calm}`, "calm"},
		{`[]any{T{}, map[string]func(){"a": nil}, make(chan int, size), new(int), len("x")}`, "size"},
		{`T{n: changed}`, "-"},
		{`plain(calm)`, "calm plain"},
		{`adder(2)`, "adder"},
		{`recursive(3)`, "recursive"},
		{`must(plain(1), nil)`, "must plain"},
		{`must(os.Open("x"))`, "-"},
		{`plain(1).get`, "plain"},
		{`plain(1).get()`, "plain"},
		{`counter()`, "-"},
		{`shared()`, "-"},
		{`random()`, "-"},
		{`writes()`, "-"},
		{`registers()`, "-"},
		{`starts()`, "-"},
		{`calls(make1)`, "-"},
		{`make1()`, "make1"},
		{`func() func() int { n := 0; return func() int { n++; return n } }()`, "-"},
		{`errors.New("x")`, ""},
		{`fmt.Errorf("x: %w", errors.New(strings.ToUpper("a")))`, ""},
		{`rand.New(rand.NewSource(1))`, ""},
		{`rand.Intn(3)`, "-"},
		{`time.Now()`, "-"},
		{`time.NewTimer(1)`, "-"},
		{`time.Duration(3) * time.Second`, ""},
		{`os.Stdout`, ""},
		{`os.Create("x")`, "-"},
		{`sync.OnceValue(func() int { return 1 })`, "-"},
		{`bytes.NewReader(nil).Len()`, ""},
		{`<-make(chan int)`, "-"},
		{`slices.Collect(opens)`, "-"},
		{`slices.Collect(counts)`, "-"}, // it calls what it is given
		{`slices.Collect(func(yield func(*os.File) bool) { f, _ := os.Create("x"); yield(f) })`, "-"},
		{`sort.Search(3, func(i int) bool { return i > 1 })`, ""},
		{`slog.New(slog.NewTextHandler(os.Stderr, nil)).With(slog.Int("n", 1), slog.String("s", ""), slog.Any("a", slog.IntValue(1)))`, ""},
		{`slog.Default().Enabled(nil, slog.LevelInfo)`, "-"},
		{`json.NewEncoder(os.Stdout)`, ""},
		{`json.NewEncoder(os.Stdout).Encode(1)`, "-"},
		{`json.NewDecoder(os.Stdin).Decode(new(int))`, "-"},
		{`xml.NewEncoder(os.Stdout).Encode(1)`, "-"},
		{`csv.NewWriter(os.Stdout).Write(nil)`, "-"},
		{`csv.NewReader(os.Stdin).FieldPos(0)`, "-"},
		{`binary.Write(os.Stdout, binary.LittleEndian, 1)`, "-"},
		{`ast.Print(nil, 1)`, "-"},
		{`heap.Pop(small)`, "-"},
		{`fmt.Scan()`, "-"},
		{`fmt.Sprintf("%d", 1)`, ""},
		{`bytes.NewBufferString("a").WriteTo(os.Stdout)`, "-"},
		{`bytes.NewBuffer(nil).ReadFrom(os.Stdin)`, "-"},
		{`strings.NewReplacer("a", "b").WriteString(os.Stdout, "a")`, "-"},
		{`strings.NewReplacer("a", "b").Replace("a")`, ""},
		{`tabwriter.NewWriter(os.Stdout, 0, 0, 0, ' ', 0).Flush()`, "-"},
		{`first3(image.Decode(os.Stdin))`, "-"},
		{`hex.Encode(make([]byte, 2), buffer.Bytes())`, "-"},
		{`kept().Len()`, "-"},
		{`builder().Len()`, "builder"},
		{`output.(*bytes.Buffer).WriteString("a")`, "-"},
		{`sorted(1, 2)`, "sorted"},
		{`sorted(numbers...)`, "numbers sorted"},
		{`given(numbers)`, "-"},
		{`func() int { slices.Reverse(numbers); return 1 }()`, "-"},
		{`func() int { maps.Copy(ages, ages); return 1 }()`, "-"},
		{`func() int { slog.Info("opened"); return 1 }()`, "-"},
		{`func() int { template.HTMLEscape(os.Stdout, nil); return 1 }()`, "-"},
		{`decoded()`, "decoded"},
		{`sort.Search(3, func(i int) bool { calm = i; return true })`, "-"},
	}
	fset := token.NewFileSet()
	std := importer.ForCompiler(fset, "source", nil)
	for _, tt := range tests {
		call := tt.expr
		names := "v"
		switch call {
		case `os.Create("x")`, `bytes.NewBufferString("a").WriteTo(os.Stdout)`, `bytes.NewBuffer(nil).ReadFrom(os.Stdin)`,
			`strings.NewReplacer("a", "b").WriteString(os.Stdout, "a")`, `fmt.Scan()`, `csv.NewReader(os.Stdin).FieldPos(0)`, `output.(*bytes.Buffer).WriteString("a")`:
			names = "v, err"
		}
		file, err := parser.ParseFile(fset, "cell.go", head+"\nvar "+names+" = "+call+"\n", 0)
		if err != nil {
			t.Fatal(err)
		}
		r := Checked{Fset: fset, File: file, Info: &types.Info{Types: map[ast.Expr]types.TypeAndValue{}, Defs: map[*ast.Ident]types.Object{}, Uses: map[*ast.Ident]types.Object{}}}
		conf := types.Config{Importer: std, Error: func(err error) {
			if !strings.Contains(err.Error(), "used as value") {
				t.Errorf("%s: %v", tt.expr, err)
			}
		}}
		r.Pkg, _ = conf.Check("main", fset, []*ast.File{file}, r.Info)
		p := newRepeater(r, "")
		last := file.Decls[len(file.Decls)-1].(*ast.GenDecl).Specs[0].(*ast.ValueSpec)
		uses, ok := p.repeatable(last.Values, 0)
		got := "-"
		if ok {
			var list []string
			for name := range uses {
				list = append(list, name)
			}
			slices.Sort(list)
			got = strings.Join(list, " ")
		}
		if got != tt.want {
			t.Errorf("%s: got %q, want %q", tt.expr, got, tt.want)
		}
	}
}

// library are packages like those that cells import.
type library map[string]string

func (l library) Import(path string) (*types.Package, error) {
	fset := token.NewFileSet()
	f, err := parser.ParseFile(fset, "x.go", l[path], 0)
	if err != nil {
		return nil, err
	}
	return (&types.Config{}).Check(path, fset, []*ast.File{f}, nil)
}

// TestLibraryMethods: a net may be defined again that reads a value which a cell has kept.
func TestLibraryMethods(t *testing.T) {
	packages := library{
		"gaiden/lib/data":  "package data\ntype Corpus struct{}\nfunc (Corpus) Vocab() int { return 1 }\nfunc (*Corpus) Len() int { return 1 }\nfunc (*Corpus) Write() int { return 1 }",
		"gaiden/lib/optim": "package optim\ntype Plateau struct{}\nfunc (*Plateau) Next() int { return 1 }",
		"gaiden/lib/hub":   "package hub\ntype Model struct{ End []int }\nfunc Open(string) (*Model, error) { return nil, nil }\nfunc (*Model) Net() int { return 1 }\nfunc (*Model) SaveAdapter() int { return 1 }",
		"gaiden/lib/fit":   "package fit\ntype Net struct{}\nfunc New(n int, f func() int) *Net { return nil }\nfunc (*Net) Name() string { return `` }\nfunc (*Net) Fit() int { return 1 }",
	}
	const head = "package main\nimport (\n\"gaiden/lib/data\"\n\"gaiden/lib/fit\"\n\"gaiden/lib/hub\"\n\"gaiden/lib/optim\"\n)\nvar m *hub.Model\nvar book, changed data.Corpus\nvar plateau *optim.Plateau\nvar net *fit.Net\nfunc change() { changed = book }\nvar v = "
	tests := []struct{ expr, want string }{
		{`fit.New(book.Vocab(), func() int { return book.Vocab() })`, "book"},
		{`fit.New((&book).Len(), nil)`, "-"}, // its address may be kept, and written to
		{`fit.New(book.Write(), nil)`, "-"},
		{`fit.New(changed.Vocab(), nil)`, "-"},
		{`fit.New(m.Net(), nil)`, "m"},
		{`fit.New(m.SaveAdapter(), nil)`, "-"},
		{`plateau.Next()`, "-"},
		{`net.Fit()`, "-"},
		{`net.Name()`, "net"},
	}
	for _, tt := range tests {
		fset := token.NewFileSet()
		file, err := parser.ParseFile(fset, "cell.go", head+tt.expr, 0)
		if err != nil {
			t.Fatal(err)
		}
		r := Checked{Fset: fset, File: file, Info: &types.Info{Types: map[ast.Expr]types.TypeAndValue{}, Defs: map[*ast.Ident]types.Object{}, Uses: map[*ast.Ident]types.Object{}}}
		if r.Pkg, err = (&types.Config{Importer: packages}).Check("main", fset, []*ast.File{file}, r.Info); err != nil {
			t.Fatal(err)
		}
		got := "-"
		if uses, ok := Repeatable(r, "gaiden")["v"]; ok {
			got = strings.Join(slices.Sorted(maps.Keys(uses)), " ")
		}
		if got != tt.want {
			t.Errorf("%s: got %q, want %q", tt.expr, got, tt.want)
		}
	}
}

// TestChangedBefore: a definition may be evaluated again if what it uses has changed only
// before it, so that the value at the end of the cell is the one that it used.
func TestChangedBefore(t *testing.T) {
	tests := []struct{ body, want string }{
		{`n.width = 1; v := n.width`, "n"},
		{`n.width++; v := n`, "n"},
		{`for i := range 3 { n.width = i }; v := n.width`, "n"},
		{`x := 1; x = 2; if x > 1 { x = 3 }; v := x`, "x"},
		{`v := n.width; n.width = 1`, "-"},
		{`n.width = 1; v := n.width; n.width = 2`, "-"},
		{`p := &n; v := n.width; p.width = 1`, "-"},
		{`f := func() { n.width = 1 }; v := n.width; f()`, "-"},
		{`defer func() { n.width = 1 }(); v := n.width`, "-"},
		{`v := n.width; set()`, "n"},
		{`f := func(w int) int { return w + n.width }; v := f(2)`, "f n"},
		{`f := func(w int) T { t := T{w}; t.width++; return t }; v := f(2)`, "f"},
		{`var f = func() int { return g() }; v := f()`, "f g"},
		{`f := func() int { return 1 }; f = func() int { return 2 }; v := f()`, "-"},
		{`f := func() int { n.width++; return n.width }; v := f()`, "-"},
		{`c := 0; f := func() int { c++; return c }; v := f()`, "-"},
		{`f := func() func() int { return func() int { return 1 } }; v := f()`, "-"},
		{`var f func(n int) int; f = func(n int) int { return f(n - 1) }; v := f(2)`, "-"},
		{`f := func() int { return <-ch }; v := f()`, "-"},
		{`v := h()`, "h n"},
		{`v := m.width; set()`, "-"},
		{`x := 1; again: x++; v := x; if v < 3 { goto again }`, "-"},
	}
	for _, tt := range tests {
		fset := token.NewFileSet()
		code := "package main\ntype T struct{ width int }\nvar n, m T\nvar ch chan int\nfunc set() { m.width = 1 }\nfunc g() int { return 1 }\nvar h = func() int { return n.width }\nfunc main() {\n" + tt.body + "\n_ = v\n}\n"
		file, err := parser.ParseFile(fset, "cell.go", code, 0)
		if err != nil {
			t.Fatal(err)
		}
		r := Checked{Fset: fset, File: file, Info: &types.Info{Types: map[ast.Expr]types.TypeAndValue{}, Defs: map[*ast.Ident]types.Object{}, Uses: map[*ast.Ident]types.Object{}}}
		conf := types.Config{Error: func(err error) {
			if !strings.Contains(err.Error(), "jumps over") {
				t.Errorf("%s: %v", tt.body, err)
			}
		}}
		r.Pkg, _ = conf.Check("main", fset, []*ast.File{file}, r.Info)
		got := "-"
		if uses, ok := Repeatable(r, "")["v"]; ok {
			got = strings.Join(slices.Sorted(maps.Keys(uses)), " ")
		}
		if got != tt.want {
			t.Errorf("%s: got %q, want %q", tt.body, got, tt.want)
		}
	}
}
