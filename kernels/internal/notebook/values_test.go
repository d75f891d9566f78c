package notebook

import (
	"strconv"
	"strings"
	"testing"
)

// A valueTest is two cells.
type valueTest struct {
	name   string
	define string
	use    string
	want   string // the second's value
	said   string // part of what it says, % for the number of the first; empty = it says nothing
}

func (tt valueTest) run(t *testing.T, r *runner) {
	r.t = t
	if out := r.must(tt.define); out.stream("stderr") != "" {
		t.Errorf("the first cell says %q, want nothing", out.stream("stderr"))
	}
	cell := strconv.Itoa(r.count)
	out := r.must(tt.use)
	if got := out.result(); got != tt.want {
		t.Errorf("got %q, want %q", got, tt.want)
	}
	got, want := out.stream("stderr"), strings.ReplaceAll(tt.said, "cell %", "cell "+cell)
	if !strings.Contains(got, want) || want == "" && got != "" {
		t.Errorf("it says %q, want %q", got, want)
	}
}

// TestValues: what a cell defines, what a later one finds, and what is said.
// All rows are cells of one notebook.
func TestValues(t *testing.T) {
	r := &runner{t: t, n: newNotebook(t)}
	tests := []valueTest{
		// Values of all kinds.
		{name: "int", define: "x := 1", use: "x", want: "1"},
		{name: "changed", define: "x += 41", use: "x", want: "42"},
		{name: "another type", define: `x := "text"`, use: "x", want: "text"},
		{name: "from itself", define: `x := len(x)`, use: "x", want: "4"},
		{name: "several", define: "a, b := 1, 2.5", use: "float64(a) + b", want: "3.5"},
		{name: "swapped", define: "c, d := 1, 2\nc, d = d, c", use: "fmt.Sprint(c, d)", want: "2 1"},
		{name: "bool", define: "yes := 1 < 2", use: "yes", want: "true"},
		{name: "rune", define: "r := 'é'", use: "string(r)", want: "é"},
		{name: "complex", define: "z := 1 + 2i", use: "real(z * z)", want: "-3"},
		{name: "untyped constant", define: "shift := 1 << 40", use: "shift", want: "1099511627776"},
		{name: "bytes", define: `raw := []byte("a\x00b")`, use: "len(raw)", want: "3"},
		{name: "slice", define: "s := []int{3, 1, 2}", use: "sort.Ints(s)\ns", want: "[1 2 3]"},
		{name: "slice, sorted since", define: "", use: "s", want: "[1 2 3]"},
		{name: "slice, longer", define: "s = append(s, 4)", use: "s", want: "[1 2 3 4]"},
		{name: "nil slice", define: "var none []string", use: "none == nil", want: "true"},
		{name: "array", define: "grid := [2][3]int{{1, 2, 3}, {4, 5, 6}}", use: "grid[1][2]", want: "6"},
		{name: "map", define: `m := map[string][]int{"a": {1}}`, use: `m["a"][0]`, want: "1"},
		{name: "map, changed", define: `m["b"] = []int{2, 3}`, use: "len(m)", want: "2"},
		{name: "pointer", define: "p := new(int)\n*p = 7", use: "*p", want: "7"},
		{name: "pointer to a variable", define: "n := 5\nq := &n", use: "*q++\nn", want: "6"},
		{name: "that pointer later", define: "*q = 10", use: "n", want: "10"},
		{name: "two views", define: "all := []int{1, 2, 3, 4}\nhalf := all[2:]", use: "half[0] = 30\nall", want: "[1 2 30 4]"},
		{name: "nil pointer", define: "var nothing *int", use: "nothing == nil", want: "true"},
		{name: "anonymous struct", define: "pt := struct{ X, y int }{1, 2}", use: "pt.X + pt.y", want: "3"},
		{name: "slice of structs", define: "rows := []struct {\n\tName string\n\tn    int\n}{{\"a\", 1}}", use: "rows[0].n", want: "1"},
		{name: "any", define: "var v any = 3.5", use: "v.(float64) * 2", want: "7"},
		{name: "decoded JSON", define: "var doc any\njson.Unmarshal([]byte(`{\"a\": [1, \"two\", null]}`), &doc)", use: `doc.(map[string]any)["a"].([]any)[1]`, want: "two"},
		{name: "large", define: "large := make([]float32, 1<<22)\nlarge[1<<21] = 3", use: "large[1<<21]", want: "3"},
		{name: "generic", define: "type Pair[A, B any] struct {\n\tFirst  A\n\tsecond B\n}\npair := Pair[string, int]{\"a\", 4}", use: "pair.second", want: "4"},

		// Types of the cells, and of packages.
		{name: "own type", define: "type P struct{ X, y int }\nfunc (p *P) Sum() int { return p.X + p.y }\npp := P{1, 2}", use: "pp.Sum()", want: "3"},
		{name: "pointer to it", define: "ptr := &P{3, 4}", use: "ptr.Sum()", want: "7"},
		{name: "own type in any", define: "var box any = P{5, 6}", use: "box.(P).y", want: "6"},
		{name: "own interface", define: "type Summer interface{ Sum() int }\nvar sum Summer = &P{7, 8}", use: "sum.Sum()", want: "15"},
		{name: "linked list", define: "type Node struct {\n\tN    int\n\tnext *Node\n}\nring := &Node{N: 1}\nring.next = &Node{2, ring}", use: "ring.next.next == ring", want: "true"},
		{name: "named number", define: "type Celsius float64\nwarm := Celsius(21.5)", use: "warm + 1", want: "22.5"},
		{name: "duration", define: "wait := 90 * time.Second", use: "wait", want: "1m30s"},
		{name: "time", define: "when := time.Date(2026, 11, 21, 0, 0, 0, 0, time.UTC)", use: "when.Year()", want: "2026"},
		{name: "elapsed", define: "began := time.Now()", use: "time.Since(began) > 0", want: "true"},
		{name: "big number", define: "huge := new(big.Int).Lsh(big.NewInt(1), 100)", use: "huge.BitLen()", want: "101"},
		{name: "builder", define: "var text strings.Builder\ntext.WriteString(\"ab\")", use: "text.WriteString(\"c\")\ntext.String()", want: "abc"},
		{name: "buffer", define: "buf := bytes.NewBufferString(\"line\\nrest\")\nbuf.ReadString('\\n')", use: "buf.String()", want: "rest"},
		{name: "URL", define: "link, err := url.Parse(\"http://u:p@host/path\")", use: "link.Host + link.User.String()", want: "hostu:p"},
		{name: "nil error", define: "", use: "err == nil", want: "true"},
		{name: "regular expression", define: "re := regexp.MustCompile(`a+`)", use: "re.FindString(\"baac\")", want: "aa"},
		{name: "random source", define: "src := rand.NewPCG(1, 2)\nfirst := src.Uint64()", use: "src.Uint64() != first", want: "true"},
		{name: "picture", define: "img := image.NewGray(image.Rect(0, 0, 2, 2))\nimg.Set(1, 1, color.White)", use: "img.GrayAt(1, 1).Y", want: "255"},
		{name: "library", define: "hello := greeting.Hello(\"you\")", use: "hello", want: "hello you"},

		// Package-level variables.
		{name: "var", define: "var count = 5", use: "count++\ncount", want: "6"},
		{name: "var goes on", define: "count++", use: "count", want: "7"},
		{name: "var in a program of its own", define: "", use: "%%\nfmt.Print(\"\")\ncount", want: "5"},
		{name: "what that did is not kept", define: "%%\ncount = 100", use: "count", want: "7"},
		{name: "var again", define: "var count = 5", use: "count", want: "5"},
		{name: "var by a function", define: "var calls int\nfunc call() int { calls++; return calls }\ncall()\ncall()", use: "call()", want: "3"},
		{name: "var without running", define: "var later = 8", use: "later", want: "8"},
		{name: "two at once", define: "var q1, r1 = 17 / 5, 17 % 5\nq1 = 30", use: "q1 + r1", want: "32"},
		{name: "defined, in a program of its own", define: "solo := 3", use: "%%\nfmt.Print(\"\")\nsolo", want: "3"},
		{name: "from a kept one", define: "base := 10\nvar above = base2() + 1\nfunc base2() int { return 20 }", use: "base + above", want: "31"},
		{name: "function that uses a kept one", define: "func scale(k int) int { return k * base }", use: "scale(3)", want: "30"},

		// What cannot be kept is defined again where that makes the same value.
		{name: "function", define: "double := func(i int) int { return 2 * i }", use: "double(4)", want: "8"},
		{name: "function, once more", define: "", use: "double(5)", want: "10"},
		{name: "closure over a kept one", define: "step := 3\nadd := func(i int) int { return i + step }", use: "add(1)", want: "4"},
		{name: "channel", define: "ch := make(chan int, 1)", use: "cap(ch)", want: "1"},
		{name: "error of another package", define: "_, bad := strconv.Atoi(\"x\")", use: "errors.Is(bad, strconv.ErrSyntax)", want: "true"},
		{name: "type of another package's own", define: "h := fnv.New32()", use: "h.Size()", want: "4"},
		{name: "type that nobody can name", define: "tk := list.New().PushBack(1)\nrt := reflect.TypeOf(1)", use: "rt.Kind()", want: "int"},
		{name: "var with a function", define: "var twice = func(i int) int { return 2 * i }\ntwice(1)", use: "twice(21)", want: "42"},
		{name: "type of the library", define: "guest := &greeting.Guest{Greet: func() string { return \"hi\" }}", use: "guest.Greet()", want: "hi"},
		{name: "type of the library, and an error", define: "guest2, none := &greeting.Guest{Greet: func() string { return \"hi\" }}, error(nil)", use: "guest2.Greet()", want: "hi"},
		{name: "type of the library, and what it cost", define: "func invite() (*greeting.Guest, int) { return &greeting.Guest{Greet: func() string { return \"hi\" }}, 7 }\nguest3, cost := invite()", use: "guest3.Greet()", want: "hi"},
		{name: "what it cost", define: "", use: "cost", want: "7"},
		{name: "flag", define: "var deep = flag.Int(\"deep\", 3, \"\")\n*deep = 4", use: "*deep", want: "3"},

		// Changed types.
		{name: "changed type", define: "type P struct{ X, y, Z int }\nfunc (p *P) Sum() int { return p.X + p.y + p.Z }", use: "ptr := &P{1, 1, 1}\nptr.Sum()", want: "3"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) { tt.run(t, r) })
	}
}
