package notebook

import (
	"strconv"
	"strings"
	"testing"
)

// TestCells runs cells one after the other in one notebook.
func TestCells(t *testing.T) {
	r := &runner{t: t, n: newNotebook(t)}
	tests := []struct {
		name   string
		code   string
		stdout string // all of it
		result string // text of the cell's value
		fails  string // name of the error and a part of its traceback; empty = none
	}{
		{name: "statement", code: `fmt.Println("hi")`, stdout: "hi\n"},
		{name: "GoNB main", code: "%%\nfmt.Println(\"hi\")", stdout: "hi\n"},
		{name: "GoNB main with arguments", code: "%% a -b\nfmt.Println(flag.Args())", stdout: "[a -b]\n"},
		{name: "arguments", code: "%args a b\n%%\nfmt.Println(flag.Args())", stdout: "[a b]\n"},
		{name: "func main", code: "func main() { fmt.Println(\"mine\") }", stdout: "mine\n"},
		{name: "package clause", code: "package foo\nfmt.Println(1)", stdout: "1\n"},
		{name: "empty", code: ""},
		{name: "only a comment", code: "// nothing\n/* at all */"},
		{name: "value", code: "1 + 2", result: "3"},
		{name: "value in brackets", code: "(1 + 2)", result: "3"},
		{name: "value below GoNB main", code: "%%\nx := 20\nx + 1", result: "21"},
		{name: "no value", code: "1 + 2;"},
		{name: "string", code: `"a\nb"`, result: "a\nb"},
		{name: "struct", code: `struct{ A int; B string }{1, "x"}`, result: "{A:1 B:x}"},
		{name: "no number and an error", code: "strconv.Atoi(\"x\")", fails: "Error strconv.Atoi: parsing \"x\": invalid syntax"},
		{name: "number and error", code: "io.ReadFull(strings.NewReader(\"ab\"), make([]byte, 4))", fails: "Error unexpected EOF"},
		{name: "lines and an error", code: "func() (string, error) { return \"a\\nb\", io.EOF }()", fails: "Error EOF"},
		{name: "no file and an error", code: "os.Open(\"/nothing/there\")", fails: "Error open /nothing/there: no such file or directory"},
		{name: "bytes written", code: "fmt.Fprint(os.Stdout, \"w\")", stdout: "w"},
		{name: "more items than are shown", code: "x := make([]int, 5000)\nstrings.Count(fmt.Sprint(x), \"0\")", result: "5000"},
		{name: "items that are shown", code: "x", result: "[" + strings.Repeat("0 ", 999) + "0 … 5000 in all]"},
		{name: "items that hold many", code: "rows := make([][]int, 100)\nfor i := range rows {\n\trows[i] = make([]int, 999)\n}\nrows", result: "[" + strings.Repeat("["+strings.Repeat("0 ", 998)+"0] ", 5) + "[" + strings.Repeat("0 ", 998) + "0] … 100 in all]"},
		{name: "one item that holds many", code: "[][]int{make([]int, 20000)}", result: "[[" + strings.Repeat("0 ", 9999) + " … (40003 bytes)"},
		{name: "struct that holds many", code: "struct{ A []int }{make([]int, 20000)}", result: "{A:[" + strings.Repeat("0 ", 9998) + " … (40005 bytes)"},
		{name: "long text", code: "strings.Repeat(\"ab\", 50000)", result: strings.Repeat("ab", 50000)},
		{name: "nil error", code: "os.Chdir(\".\")"},
		{name: "error", code: `errors.New("oh")`, result: "oh"},
		{name: "error with a hint", code: "type lost string\nfunc (l lost) Error() string { return string(l) }\nfunc (*lost) Hint() string { return \"look for it\" }\n" +
			"gone := lost(\"my keys\")\nfmt.Errorf(\"%w\", &gone)", result: "my keys\n    look for it"},
		{name: "nil error with a hint", code: "(*lost)(nil)", result: "<nil>"},
		{name: "two values", code: "strings.Cut(\"a=b\", \"=\")", result: "a b true"},
		{name: "value and nil error", code: `strconv.Atoi("42")`, result: "42"},
		{name: "bytes that are text", code: "json.Marshal([]string{\"é\", \"b\"})", result: `["é","b"]`},
		{name: "bytes that are not", code: "[]byte{0, 255}", result: "[0 255]"},
		{name: "bytes with a form of their own", code: "net.IP{127, 0, 0, 1}", result: "127.0.0.1"},
		{name: "function", code: "strings.ToUpper", result: "func(string) string"},
		{name: "nil channel", code: "(chan int)(nil)", result: "<nil>"},
		{name: "several values", code: "1, 2", fails: "BuildError fmt.Println(a, b) prints several"},
		{name: "value, and comment behind", code: "40 + 2 // the answer\n\n", result: "42"},
		{name: "declare", code: "type P struct{ X, Y int }\nfunc (p P) Sum() int { return p.X + p.Y }\nvar origin = P{1, 2}"},
		{name: "use", code: "origin.Sum()", result: "3"},
		{name: "use below GoNB main", code: "%%\nfmt.Println(P{3, 4}.Sum())", stdout: "7\n"},
		{name: "new method", code: "func (p *P) Scale(k int) { p.X *= k; p.Y *= k }"},
		{name: "both methods", code: "p := P{1, 1}\np.Scale(5)\np.Sum()", result: "10"},
		{name: "type of another kind", code: "type P struct{ X string }", fails: "BuildError this cell changes P: repeat in it the methods that have to change, or remove them first, by %del P"},
		{name: "method again", code: "func (p P) Sum() int { return -p.X - p.Y }\norigin.Sum()", result: "-3"},
		{name: "func becomes var", code: "func thing() int { return 1 }"},
		{name: "func becomes var, then", code: "var thing = 7\nthing", result: "7"},
		{name: "used", code: "func used() int { return 1 }"},
		{name: "using", code: "func using() int { return used() }"},
		{name: "used, changed", code: "func used() string { return \"\" }"},
		{name: "using what was changed", code: "using()", fails: "BuildError has changed used since: change cell"},
		{name: "a change that its user must follow", code: "var kept = using() + 1\nfunc used() bool { return true }", fails: "BuildError this cell changes used: repeat using in it as it has to be, or remove it first, by %del using"},
		{name: "iota", code: "const (\n\tA = iota * 10\n\tB\n\tC\n)"},
		{name: "iota, used", code: "A + B + C", result: "30"},
		{name: "iota, one replaced", code: "const B = 1000\nA + B + C", result: "1020"},
		{name: "iota, after that", code: "B", result: "1000"},
		{name: "tuple", code: "var q, rest = divide(17, 5)\nfunc divide(a, b int) (int, int) { return a / b, a % b }"},
		{name: "tuple, one replaced", code: "var rest = 99\nq*100 + rest", result: "399"},
		{name: "generic", code: "func Map[T, U any](s []T, f func(T) U) (out []U) {\n\tfor _, v := range s {\n\t\tout = append(out, f(v))\n\t}\n\treturn\n}\nMap([]int{1, 2}, func(i int) string { return fmt.Sprint(i * i) })", result: "[1 4]"},
		{name: "generic method", code: "type Stack[T any] []T\nfunc (s *Stack[T]) Push(v T) { *s = append(*s, v) }\nvar s Stack[int]\ns.Push(3)\ns", result: "[3]"},
		{name: "init function", code: "func init_greet() { fmt.Println(\"init\") }", stdout: "init\n"},
		{name: "init function, later", code: "fmt.Println(\"main\")", stdout: "init\nmain\n"},
		{name: "init function, gone", code: "%rm init_greet\nfmt.Println(\"main\")", stdout: "removed func init_greet\nmain\n"},
		{name: "import by name", code: "x := rand.IntN(1)\nx", result: "0"},
		{name: "import with alias", code: "import str \"strings\"\nstr.ToUpper(\"a\")", result: "A"},
		{name: "alias remembered", code: "str.Repeat(\"b\", 3)", result: "bbb"},
		{name: "unused import", code: "import (\n\t\"fmt\"\n\t\"net/http\"\n)\nfmt.Println(1)", stdout: "1\n"},
		{name: "dot import", code: "import . \"math\"\nSqrt(16)", result: "4"},
		{name: "dot import, and by name", code: "import \"math\"\nmath.Sqrt(9)", result: "3"},
		{name: "dot import, and both", code: "math.Sqrt(Sqrt(16))", result: "2"},
		{name: "dot import, and found by name", code: "math.Sqrt(25)", result: "5"},
		{name: "library", code: "greeting.Hello(\"you\")", result: "hello you"},
		{name: "build information", code: "info, ok := debug.ReadBuildInfo()\nn := 0\nfor _, d := range info.Deps {\n\tif d.Path == \"gaiden\" && d.Replace != nil {\n\t\tn++\n\t}\n}\nfmt.Print(ok, n)", stdout: "true 1"},
		{name: "shadowed package", code: "strings := []int{1}\nlen(strings)", result: "1"},
		{name: "shadowed package, later", code: "strings.ToUpper(\"a\")", fails: "BuildError %del strings brings the package back"},
		{name: "shadowed package, back", code: "%del strings\nstrings.ToUpper(\"a\")", stdout: "removed var strings\n", result: "A"},
		{name: "import hidden by a function", code: "func hides() {}"},
		{name: "import hidden by a function, then", code: "import hides \"fmt\"\nhides.Println(1)", fails: "BuildError hides is a function since cell"},
		{name: "shadowed function of Go", code: "len := 3\nlen", result: "3"},
		{name: "shadowed function of Go, later", code: "len(\"abc\")", fails: "BuildError %del len brings Go's own back"},
		{name: "shadowed type of Go", code: "%del len\nstring := 3\nstring", stdout: "removed var len\n", result: "3"},
		{name: "shadowed type of Go, later", code: "map[string]int{}", fails: "BuildError %del string brings Go's own back"},
		{name: "shadowed type of Go, back", code: "%del string\nlen(string([]byte{1}))", stdout: "removed var string\n", result: "1"},
		{name: "defined, not used", code: "unused := 1"},
		{name: "for with three parts", code: "for i := 0; i < 2; i++ {\n\tfmt.Print(i)\n}", stdout: "01"},
		{name: "if with statement", code: "if x := 3; x > 2 {\n\tfmt.Print(x)\n} else if y := x; y > 0 {\n}", stdout: "3"},
		{name: "label", code: "outer:\nfor {\n\tfor {\n\t\tbreak outer\n\t}\n}\nfmt.Print(\"out\")", stdout: "out"},
		{name: "closure", code: "func() { fmt.Print(\"in\") }()", stdout: "in"},
		{name: "goroutine and defer", code: "var wg sync.WaitGroup\ndefer fmt.Print(\"last\")\nwg.Add(1)\ngo func() { defer wg.Done(); fmt.Print(\"first \") }()\nwg.Wait()", stdout: "first last"},
		{name: "switch", code: "switch x := any(3).(type) {\ncase int:\n\tfmt.Print(\"int \", x)\n}", stdout: "int 3"},
		{name: "raw string with magics in it", code: "fmt.Print(`\n%nothing\n!ls\n`)", stdout: "\n%nothing\n!ls\n"},
		{name: "not ASCII", code: "größe := \"世界\"\ngröße", result: "世界"},
		{name: "CRLF", code: "fmt.Print(1)\r\nfmt.Print(2)\r\n", stdout: "12"},
		{name: "invalid UTF-8", code: "fmt.Print(\"a\xffb\")", stdout: "a\uFFFDb"},

		{name: "undefined", code: "x := 1\ny := x + nowhere", fails: "BuildError cell %, line 2: undefined: nowhere\n    2 | y := x + nowhere\n      |          ^"},
		{name: "did you mean", code: "origi.Sum()", fails: "BuildError did you mean origin?"},
		{name: "did you mean, of a package", code: "fmt.Printn(1)", fails: "BuildError did you mean fmt.Println?"},
		{name: "graph function of a kind that there is not", code: "graph.NewExec(nil, func(g *graph.Graph, a *graph.Node) *graph.Node { return a })", fails: "BuildError a graph function takes"},
		{name: "unknown package", code: "strngs.ToUpper(\"\")", fails: "BuildError did you mean strings?"},
		{name: "kept variable", code: "unused + 1", result: "2"},
		{name: "wrong type", code: "var n int = \"a\"", fails: "BuildError line 1: cannot use \"a\""},
		{name: "unclosed", code: "for {\n\tfmt.Print(1)", fails: "BuildError line 2: syntax error: expected '}', found the end of the cell"},
		{name: "closed too often", code: "fmt.Print(1)\n}\nfmt.Print(2)", fails: "BuildError line 2"},
		{name: "not used below GoNB main", code: "%%\nx := 1", fails: "BuildError line 2: declared and not used: x"},
		{name: "missing return", code: "func broken() int {\n}", fails: "BuildError line 2: missing return"},
		{name: "broken is not remembered", code: "broken()", fails: "BuildError undefined: broken"},
		{name: "twice in one cell", code: "func twice() {}\nfunc twice() {}", fails: "BuildError line 2: twice redeclared in this block"},
		{name: "twice, := and var", code: "x1 := 1\nvar x1 string", fails: "BuildError line 1: x1 redeclared in this cell\n    1 | x1 := 1\n      | ^\n    the other one is the var of line 2: give one of them another name"},
		{name: "twice, var and :=", code: "var x1 = 2\nx1 := 1", fails: "BuildError line 2: no new variables on left side of :=\n    2 | x1 := 1\n      | ^\n    x1 is the var of line 1: write x1 = …"},
		{name: "twice, func and :=", code: "func x1() {}\n_, x1 := 2, 1", fails: "BuildError line 2: x1 redeclared in this cell\n    2 | _, x1 := 2, 1\n      |    ^\n    the other one is the func of line 1"},
		{name: "a var and something new", code: "var x1 error\nx2, x1 := strconv.Atoi(\"7\")\nx2", result: "7"},
		{name: "no such import", code: "import \"nosuch/pkg\"", fails: "BuildError line 1: import \"nosuch/pkg\""},
		{name: "foreign import", code: "%noautoget\nimport \"example.com/no/such\"\nsuch.F()", fails: "BuildError %require example.com/no/such@VERSION"},
		{name: "two mistakes", code: "a1\nb1", fails: "BuildError line 2: undefined: b1"},
		{name: "statements next to main", code: "func main() {}\nfmt.Print(1)", fails: "BuildError line 2: statements next to the cell"},
		{name: "statements in a test", code: "%test\nfunc TestStatements(t *testing.T) {}\n\nfmt.Print(1)", fails: "BuildError line 4: statements in a cell with %test"},
		{name: "column behind a tab", code: "if true {\n\tfmt.Prin(1)\n}", fails: "BuildError       | \t    ^"},

		{name: "panic", code: "func deep(i int) int {\n\tvar a []int\n\treturn a[i]\n}\n\ndeep(5)", fails: "Panic runtime error: index out of range [5] with length 0\ncell %, line 3, in deep\n    3 | \treturn a[i]\ncell %, line 6, in main\n    6 | deep(5)"},
		{name: "panic in an older cell", code: "fmt.Print(\"a\")\ndeep(6)", stdout: "a", fails: "Panic line 3, in deep"},
		{name: "panic with a value", code: "panic(fmt.Sprintf(\"%d!\", 42))", fails: "Panic 42!"},
		{name: "nil map", code: "var m map[string]int\nm[\"a\"] = 1", fails: "Panic assignment to entry in nil map"},
		{name: "deadlock", code: "select {}", fails: "Panic all goroutines are asleep"},
		{name: "deadlock after a timer", code: "var twice sync.Mutex\ntwice.Lock()\n<-time.After(time.Millisecond)\ntwice.Lock()", fails: "Panic all goroutines are asleep"},
		{name: "exit", code: "fmt.Print(\"before\")\nos.Exit(3)", stdout: "before", fails: "ExitStatus exit status 3"},
		{name: "killed by itself", code: "syscall.Kill(os.Getpid(), syscall.SIGKILL)", fails: "ExitStatus signal: killed\n    it was killed from outside"},
		{name: "out of memory", code: "x := make([]byte, 1<<46)\nx[0] = 1", // in one of two ways of the runtime's: TestFatalErrors of cell has both
			fails: "Panic cell %, line 1, in main\n    1 | x := make([]byte, 1<<46)\n    the machine has not that much memory"},
		{name: "recursion without an end", code: "func endless(n int) int { return endless(n+1) + 1 }\nfmt.Print(endless(0))", fails: "Panic exceeds 67108864-byte limit\ncell %, line 1, in endless, again and again\n"},
		{name: "recursion before main", code: "var bottom = endless(0)", fails: "Panic exceeds 67108864-byte limit\n"},
		{name: "a deeper stack", code: "func deep(n int) int {\n\tif n == 0 {\n\t\treturn 0\n\t}\n\treturn deep(n-1) + 1\n}\ndebug.SetMaxStack(1 << 30)\ndeep(5_000_000)", result: "5000000"},
		{name: "first to be killed when memory runs out", stdout: "500\n", // soon, if not in its first line
			code: "for range 500 {\n b, _ := os.ReadFile(\"/proc/self/oom_score_adj\")\n if string(b) != \"0\\n\" {\n  fmt.Print(string(b))\n  break\n }\n time.Sleep(10 * time.Millisecond)\n}"},
		{name: "goexit", code: "runtime.Goexit()", fails: "Panic no goroutines"},

		{name: "shell", code: "!echo shell; echo $GONB_DIR | wc -l", stdout: "shell\n1\n"},
		{name: "shell, then Go", code: "fmt.Println(\"go\")\n!echo sh\\\n  ell", stdout: "sh ell\ngo\n"},
		{name: "shell that fails", code: "!exit 3\nfmt.Print(1)", stdout: "1"},
		{name: "module shell", code: "!*head -1 go.mod", stdout: "module cell\n"},
		{name: "environment", code: "%env COLOUR deep blue", fails: "MagicError"},
		{name: "environment set", code: "%env COLOUR=blue\nfmt.Print(os.Getenv(\"COLOUR\"))", stdout: "Set: COLOUR=\"blue\"\nblue"},
		{name: "environment in a shell", code: "!echo $COLOUR", stdout: "blue\n"},
		{name: "unknown magic", code: "%hlep", fails: "MagicError %hlep: no such magic; did you mean %help?"},
		{name: "bash", code: "%%bash\nfor i in 1 2; do\n echo $i; done", stdout: "1\n2\n"},
		{name: "bash that fails", code: "%%bash\nexit 4", fails: "ExitStatus exit status 4"},
		{name: "script", code: "%%script cat -\n%x\n!y", stdout: "%x\n!y\n"},
		{name: "write a file", code: "%%writefile note.txt\nhello"},
		{name: "append to it", code: "%%writefile -a note.txt\nagain"},
		{name: "read it", code: "data, _ := os.ReadFile(\"note.txt\")\nstring(data)", result: "hello\nagain\n"},
		{name: "embed it", code: "//go:embed note.txt\nvar note string\nlen(note)", result: "12"},
		{name: "embed nothing", code: "//go:embed nothing.txt\nvar none string\nnone", fails: "BuildError pattern nothing.txt: no file"},
		{name: "exec", code: "func hello() { fmt.Print(\"exec\") }\n%exec hello", stdout: "exec"},
		{name: "forget", code: "%rm origin thing"},
		{name: "forgotten", code: "thing", fails: "BuildError undefined: thing"},
		{name: "reset", code: "%reset"},
		{name: "after reset", code: "P{}", fails: "BuildError no cell has defined P since the kernel was started: run the one that does; nets and arrays are still in the session"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r.t = t
			out, err := r.run(tt.code)
			if tt.fails == "" && err != nil {
				t.Fatalf("got error %s\n%s", err.Name, strings.Join(err.Traceback, "\n"))
			}
			if tt.fails != "" {
				name, part, _ := strings.Cut(tt.fails, " ")
				if err == nil {
					t.Fatalf("got no error, want %s", tt.fails)
				}
				got := strings.Join(err.Traceback, "\n")
				part = strings.ReplaceAll(part, "cell %", "cell "+strconv.Itoa(r.count))
				if err.Name != name || !strings.Contains(got, part) {
					t.Errorf("got error %s\n%s\nwant %s with\n%s", err.Name, got, name, part)
				}
			}
			checkOutput := tt.stdout != "" || !strings.HasPrefix(tt.code, "%")
			if got := out.stream("stdout"); checkOutput && got != tt.stdout {
				t.Errorf("got output %q, want %q", got, tt.stdout)
			}
			if got := out.result(); got != tt.result {
				t.Errorf("got value %q, want %q", got, tt.result)
			}
		})
	}
}

// TestPrint: what print and println write is the cell's output, not a warning; one that
// the notebook declares is its own.
func TestPrint(t *testing.T) {
	for _, tt := range []struct{ name, code, stdout, stderr string }{
		{"println", "println(\"a\", 1, 2.5, []int{3})", "a 1 2.5 [3]\n", ""},
		{"print", "x := \"b\"\nprint(x, 1, 2)\nprint(\"\\n\")", "b12\n", ""},
		{"in a function", "func f() { println(\"deep\") }\nf()", "deep\n", ""},
		{"next to fmt", "fmt.Print(\"c\")\nprintln(os.Getpid() > 0)", "ctrue\n", ""},
		{"one of the notebook", "func println(s string) { fmt.Print(\"own \", s) }\nprintln(\"d\")", "own d", ""},
		{"where fmt is a variable", "fmt := \"e\"\nprintln(fmt)", "e\n", ""},
		{"the program's standard error", "os.Stderr.WriteString(\"g\")", "", "g"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			out := &recorder{}
			if res := newNotebook(t).Execute(t.Context(), request(tt.code, 1), out); res.Err != nil {
				t.Fatal(res.Err)
			}
			for name, want := range map[string]string{"stdout": tt.stdout, "stderr": tt.stderr} {
				got := ""
				if b := out.streams[name]; b != nil {
					got = b.String()
				}
				if got != want {
					t.Errorf("%s: got %q, want %q", name, got, want)
				}
			}
		})
	}
}
