package notebook

import (
	"strconv"
	"strings"
	"testing"

	"gaiden/kernels/internal/cell"
)

// An errorTest is a cell and what it shows: "cell %" is that cell, "cell #" the one
// before it.
type errorTest struct {
	name   string
	code   string
	stdout string
	result string
	fails  string // its traceback, below the kind of the error; empty = none
	said   string // a part of what it says on standard error; empty = it says nothing
}

func (tt errorTest) run(t *testing.T, r *runner) {
	r.t = t
	out, err := r.run(tt.code)
	got := ""
	if err != nil {
		got = strings.Replace(strings.Join(err.Traceback, "\n"), paint(err.Name)+": ", err.Name+": ", 1)
	}
	want := strings.NewReplacer("cell %", "cell "+strconv.Itoa(r.count), "cell #", "cell "+strconv.Itoa(r.count-1)).Replace(tt.fails)
	if got != want {
		t.Errorf("got error\n%s\nwant\n%s", got, want)
	}
	if got := out.stream("stdout"); got != tt.stdout {
		t.Errorf("got output %q, want %q", got, tt.stdout)
	}
	if got := out.stream("stderr"); !strings.Contains(got, tt.said) || tt.said == "" && got != "" {
		t.Errorf("got %q on standard error, want %q", got, tt.said)
	}
	if got := out.result(); got != tt.result {
		t.Errorf("got value %q, want %q", got, tt.result)
	}
}

// lostCell declares an error with a hint, and calls that return it.
const lostCell = `type lost struct{ what string }
func (l *lost) Error() string { return l.what + ": not there" }
func (l *lost) Hint() string { return "look for the " + l.what }
func one(what string) error { if what == "" { return nil }; return &lost{what} }
func two(what string) (string, error) { return what, one(what) }
func three(n int, what string) (int, string, error) { return n, what, one(what) }
type door struct{}
func (door) Close() error { return one("key") }
func (door) Self() door { return door{} }`

// TestMust: must is in every cell, and its failure is the error at the user's line.
func TestMust(t *testing.T) {
	r := &runner{t: t, n: newNotebook(t)}
	r.must(lostCell)
	tests := []errorTest{
		{name: "value", code: "must(strconv.Atoi(\"42\")) + 1", result: "43"},
		{name: "error alone", code: "must(one(\"\"))"},
		{name: "value and nil", code: "must(7, one(\"\"))", result: "7"},
		{name: "two values", code: "n, s := must2(three(3, \"\"))\nfmt.Print(n, s)", stdout: "3"},
		{name: "package level", code: "var seven = must(strconv.Atoi(\"7\"))\nseven", result: "7"},
		{name: "kept", code: "x := must(strconv.Atoi(\"8\"))", result: ""},
		{name: "kept, later", code: "x", result: "8"},
		{name: "value that is an error", code: "must(errors.New(\"a\"), nil)"},

		{name: "fails", code: "fmt.Print(1)\n\tx := must(two(\"hat\"))\nfmt.Print(x)", stdout: "1",
			fails: "Error: hat: not there\ncell %, line 2, in main\n    2 | \tx := must(two(\"hat\"))\n      | \t     ^\n    look for the hat"},
		{name: "fails, error alone", code: "must(one(\"hat\"))",
			fails: "Error: hat: not there\ncell %, line 1, in main\n    1 | must(one(\"hat\"))\n      | ^\n    look for the hat"},
		{name: "fails, two values", code: "_, s := must2(three(1, \"hat\"))\ns",
			fails: "Error: hat: not there\ncell %, line 1, in main\n    1 | _, s := must2(three(1, \"hat\"))\n      |         ^\n    look for the hat"},
		{name: "first of a line", code: "fmt.Print(must(two(\"cap\")), must(two(\"hat\")), must(two(\"\")))",
			fails: "Error: cap: not there\ncell %, line 1, in main\n    1 | fmt.Print(must(two(\"cap\")), must(two(\"hat\")), must(two(\"\")))\n      |           ^\n    look for the cap"},
		{name: "second of a line", code: "fmt.Print(must(two(\"\")), must(two(\"hat\")), must(two(\"\")))",
			fails: "Error: hat: not there\ncell %, line 1, in main\n    1 | fmt.Print(must(two(\"\")), must(two(\"hat\")), must(two(\"\")))\n      |                          ^\n    look for the hat"},
		{name: "the inner one", code: "must(strconv.Atoi(must(two(\"hat\"))))",
			fails: "Error: hat: not there\ncell %, line 1, in main\n    1 | must(strconv.Atoi(must(two(\"hat\"))))\n      |                   ^\n    look for the hat"},
		{name: "several lines", code: "x := must(\n\ttwo(\n\t\t\"hat\"))\nx",
			fails: "Error: hat: not there\ncell %, line 1, in main\n    1 | x := must(\n      |      ^\n    look for the hat"},
		{name: "function", code: "func find(what string) string {\n\treturn must(two(what)) + must(two(what))\n}\nfind(\"hat\")",
			fails: "Error: hat: not there\ncell %, line 2, in find\n    2 | \treturn must(two(what)) + must(two(what))\n      | \t       ^\ncell %, line 4, in main\n    4 | find(\"hat\")\n    look for the hat"},
		{name: "function of an earlier cell", code: "find(\"cap\")",
			fails: "Error: cap: not there\ncell #, line 2, in find\n    2 | \treturn must(two(what)) + must(two(what))\n      | \t       ^\ncell %, line 1, in main\n    1 | find(\"cap\")\n    look for the cap"},
		{name: "func main", code: "func main() {\n\tfmt.Print(must(two(\"\")), must(two(\"hat\")))\n}",
			fails: "Error: hat: not there\ncell %, line 2, in main\n    2 | \tfmt.Print(must(two(\"\")), must(two(\"hat\")))\n      | \t                         ^\n    look for the hat"},
		{name: "GoNB main", code: "%%\nmust(one(\"hat\"))",
			fails: "Error: hat: not there\ncell %, line 2, in main\n    2 | must(one(\"hat\"))\n      | ^\n    look for the hat"},
		{name: "goroutine", code: "var wg sync.WaitGroup\nwg.Go(func() {\n\tmust(one(\"hat\"))\n})\nwg.Wait()",
			fails: "Error: hat: not there\ncell %, line 3, in main.func1\n    3 | \tmust(one(\"hat\"))\n      | \t^\n    look for the hat", said: "the cell ended before its variables were kept"},
		{name: "before main", code: "var found = must(two(\"hat\"))\nfound",
			fails: "Error: hat: not there\ncell %, line 1, in init\n    1 | var found = must(two(\"hat\"))\n      |             ^\n    look for the hat", said: "the cell ended before its variables were kept"},
		{name: "recovered in a goroutine", code: "var got error\nvar all sync.WaitGroup\nall.Go(func() {\n\tdefer func() { got = recover().(error) }()\n\tmust(one(\"hat\"))\n})\nall.Wait()\nvar l2 *lost\nfmt.Print(errors.As(got, &l2), l2.what)", stdout: "truehat"},
		{name: "deferred", code: "defer fmt.Print(\"last\")\ndefer func() { must(one(\"hat\")) }()\nfmt.Print(\"first \")", stdout: "first last",
			fails: "Error: hat: not there\ncell %, line 2, in main.func1\n    2 | defer func() { must(one(\"hat\")) }()\n      |                ^\n    look for the hat"},
		{name: "recover gives the error", code: "func try() (err error) {\n\tdefer func() { err = recover().(error) }()\n\tmust(one(\"hat\"))\n\treturn nil\n}\nvar l *lost\nerrors.As(try(), &l)", result: "true"},
		{name: "wrapped", code: "must(fmt.Errorf(\"cannot go out: %w\", one(\"hat\")))",
			fails: "Error: cannot go out: hat: not there\ncell %, line 1, in main\n    1 | must(fmt.Errorf(\"cannot go out: %w\", one(\"hat\")))\n      | ^\n    look for the hat"},
		{name: "of several lines", code: "must(errors.New(\"one\\ntwo\"))",
			fails: "Error: one\ntwo\ncell %, line 1, in main\n    1 | must(errors.New(\"one\\ntwo\"))\n      | ^"},
		{name: "test", code: "%test\nfunc TestHat(t *testing.T) {\n\tmust(one(\"\"))\n}", stdout: "=== RUN   TestHat\n--- PASS: TestHat (0.00s)\nPASS\n"},

		{name: "test that fails", code: "%test\nfunc TestNoHat(t *testing.T) {\n\tmust(one(\"hat\"))\n}", stdout: "=== RUN   TestNoHat\n--- FAIL: TestNoHat (0.00s)\n",
			fails: "Error: hat: not there\ncell %, line 3, in TestNoHat\n    3 | \tmust(one(\"hat\"))\n      | \t^\n    look for the hat"},
		{name: "three values", code: "must(three(1, \"\"))",
			fails: "BuildError: cell %, line 1: cannot use three(1, \"\") (value of type string) as error value in argument to must: string does not implement error (missing method Error)\n    1 | must(three(1, \"\"))\n      |      ^\n    must takes an error, or a value and an error; must2 takes two values and an error"},

		{name: "nothing to check", code: "must(strings.ToUpper(\"a\"))",
			fails: "BuildError: cell %, line 1: must: got string and no error, want an error, or a value and an error\n    1 | must(strings.ToUpper(\"a\"))\n      |      ^"},

		{name: "local variable", code: "func shout() string {\n\tmust := func(s string) string { return s + \"!\" }\n\treturn must(\"a\")\n}\nshout()", result: "a!"},
		{name: "defined in the cell", code: "must2 := func(i int) int { return 2 * i }\nmust2(4)", result: "8"},
		{name: "defined in an earlier cell", code: "must2(5)", result: "10"},
		{name: "import of that name", code: "import must \"strings\"\nmust.ToUpper(\"a\")", result: "A"},
		{name: "forgotten", code: "%rm must"},
		{name: "package of that name", code: "must.M1(strconv.Atoi(\"3\"))", result: "3"},
		{name: "the notebook's own", code: "func must(s string) string { return \"own \" + s }\nmust(\"a\")", result: "own a"},
		{name: "the notebook's own, later", code: "must(\"b\")", result: "own b"},
		{name: "in a function of before", code: "func twice(s string) string { return must(s) + must(s) }\ntwice(\"c\")", result: "own cown c"},
		{name: "removed", code: "%rm must"},
		{name: "the kernel's again", code: "must(strconv.Atoi(\"9\"))", result: "9"},
		{name: "own variable", code: "var must = 3\nmust", result: "3"},
		{name: "own variable, later", code: "must + 1", result: "4"},
	}
	for _, tt := range tests {
		if strings.HasPrefix(tt.code, "%rm") {
			r.must(tt.code)
			continue
		}
		t.Run(tt.name, func(t *testing.T) { tt.run(t, r) })
	}
}

// TestDroppedErrors: a statement whose call returns an error fails the cell with it, and
// so does the cell's last line.
func TestDroppedErrors(t *testing.T) {
	r := &runner{t: t, n: newNotebook(t)}
	r.must(lostCell)
	const hat = "Error: hat: not there\ncell %, line "
	tests := []errorTest{
		{name: "nil errors", code: "one(\"\")\ntwo(\"\")\nthree(1, \"\")\nfmt.Print(\"end\")", stdout: "end"},
		{name: "error", code: "fmt.Print(1)\none(\"hat\")\nfmt.Print(2)", stdout: "1", fails: hat + "2, in main\n    2 | one(\"hat\")\n      | ^\n    look for the hat"},
		{name: "value and error", code: "two(\"hat\")\nfmt.Print(2)", fails: hat + "1, in main\n    1 | two(\"hat\")\n      | ^\n    look for the hat"},
		{name: "two values and error", code: "three(1, \"hat\")\nfmt.Print(2)", fails: hat + "1, in main\n    1 | three(1, \"hat\")\n      | ^\n    look for the hat"},
		{name: "method", code: "\tdoor{}.Close() // shut\nfmt.Print(2)", fails: "Error: key: not there\ncell %, line 1, in main\n    1 | \tdoor{}.Close() // shut\n      | \t^\n    look for the key"},
		{name: "chain of several lines", code: "door{}.\n\tSelf().\n\tClose()\nfmt.Print(2)", fails: "Error: key: not there\ncell %, line 1, in main\n    1 | door{}.\n      | ^\n    look for the key"},
		{name: "second of a line", code: "one(\"\"); one(\"hat\"); one(\"cap\")", fails: hat + "1, in main\n    1 | one(\"\"); one(\"hat\"); one(\"cap\")\n      |          ^\n    look for the hat"},
		{name: "with a semicolon", code: "two(\"hat\");", fails: hat + "1, in main\n    1 | two(\"hat\");\n      | ^\n    look for the hat"},
		{name: "in a loop", code: "for i, what := range []string{\"\", \"hat\"} {\n\tfmt.Print(i)\n\tone(what)\n}", stdout: "01", fails: hat + "3, in main\n    3 | \tone(what)\n      | \t^\n    look for the hat"},
		{name: "in branches", code: "if one(\"\"); true {\n\tswitch {\n\tdefault:\n\t\tone(\"hat\")\n\t}\n}", fails: hat + "4, in main\n    4 | \t\tone(\"hat\")\n      | \t\t^\n    look for the hat"},
		{name: "function variable", code: "f := one\nf(\"hat\")\nfmt.Print(2)", fails: hat + "2, in main\n    2 | f(\"hat\")\n      | ^\n    look for the hat"},
		{name: "receive", code: "c := make(chan error, 1)\nc <- one(\"hat\")\n<-c\nfmt.Print(2)", fails: hat + "3, in main\n    3 | <-c\n      | ^\n    look for the hat"},
		{name: "select", code: "c := make(chan error, 1)\nc <- nil\nselect {\ncase <-c:\n\tone(\"hat\")\n}", fails: hat + "5, in main\n    5 | \tone(\"hat\")\n      | \t^\n    look for the hat"},
		{name: "values are kept", code: "kept := 5\none(\"hat\")\nkept = 6", fails: hat + "2, in main\n    2 | one(\"hat\")\n      | ^\n    look for the hat"},
		{name: "values are kept, later", code: "kept", result: "5"},
		{name: "recovered", code: "func() {\n\tdefer func() { fmt.Print(recover()) }()\n\tmust(one(\"hat\"))\n}()", stdout: "hat: not there"},

		{name: "last line, values", code: "three(1, \"\")", result: "1 "},
		{name: "last line, nil error", code: "one(\"\")"},
		{name: "last line, error", code: "\tone(\"hat\") // a hat", fails: hat + "1, in main\n    1 | \tone(\"hat\") // a hat\n      | \t^\n    look for the hat"},
		{name: "last line, value and error", code: "fmt.Print(1)\nstrconv.ParseInt(\"300\", 10, 8)", stdout: "1",
			fails: "Error: strconv.ParseInt: parsing \"300\": value out of range\ncell %, line 2, in main\n    2 | strconv.ParseInt(\"300\", 10, 8)\n      | ^"},
		{name: "last line, error that is made", code: "fmt.Errorf(\"no %s\", \"hat\")", result: "no hat"},
		{name: "last line, error that is a variable", code: "err := one(\"hat\")\nerr", result: "hat: not there\n    look for the hat"},
		{name: "last line, count of a reader", code: "fmt.Sscan(\"x\", new(int))", fails: "Error: expected integer\ncell %, line 1, in main\n    1 | fmt.Sscan(\"x\", new(int))\n      | ^"},

		{name: "ignored by name", code: "_ = one(\"hat\")\n_, _ = two(\"hat\")\nfmt.Print(2)", stdout: "2"},
		{name: "printing", code: "os.Stdout.Close()\nfmt.Println(1)\nfmt.Fprintln(os.Stdout, 2)\nlen(\"ab\")", result: "2"},
		{name: "what never fails", code: "var b strings.Builder\nb.WriteString(\"a\")\nh := fnv.New32()\nh.Write([]byte(\"a\"))\nb.WriteByte('b')\nb.Len()", result: "2"},
		{name: "in a function", code: "func drops() { one(\"hat\") }\ndrops()\nfunc() { one(\"hat\") }()\nfor range 1 {\n\tdefer one(\"hat\")\n}\nfmt.Print(2)", stdout: "2"},
		{name: "GoNB's main", code: "%%\none(\"hat\")\nfmt.Print(2)", stdout: "2"},
		{name: "func main", code: "func main() {\n\tone(\"hat\")\n\tfmt.Print(2)\n}", stdout: "2"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) { tt.run(t, r) })
	}
}

// TestContext: ctx is the cell's own context, which ends with it; a notebook's own ctx
// stays its own.
func TestContext(t *testing.T) {
	r := &runner{t: t, n: newNotebook(t)}
	tests := []errorTest{
		{name: "not ended", code: "ctx.Err()"},
		{name: "the library's", code: "ctx == interrupt.Context()", result: "true"},
		{name: "in a function", code: "func ended() bool { return ctx.Err() != nil }\nended()", result: "false"},
		{name: "package level", code: "var derived, giveUp = context.WithCancel(ctx)\ngiveUp()\nderived.Err() != nil", result: "true"},
		{name: "end of the cell", code: "go func() { <-ctx.Done() }()"},
		{name: "parameter", code: "func with(ctx context.Context) any { return ctx.Value(\"k\") }\nwith(context.WithValue(ctx, \"k\", 3))", result: "3"},
		{name: "local variable", code: "for ctx := range 2 {\n\tfmt.Print(ctx)\n}", stdout: "01"},
		{name: "derived under its own name", code: "ctx, cancel := context.WithTimeout(ctx, time.Hour)\ncancel()\nctx.Err() != nil", result: "true"},
		{name: "which later cells do not replace silently", code: "ctx.Err()",
			fails: "BuildError: cell %, line 1: the value of ctx could not be kept after cell #: it holds a *context.timerCtx in an interface, which only its own package can make\n    1 | ctx.Err()\n      | ^\n    define ctx in the cell that uses it (what is open, running or random starts there), or in a function that such cells call: func newCtx() context.Context { … }; %del ctx brings back the ctx that every cell has"},
		{name: "removed", code: "%del ctx"},
		{name: "again", code: "ctx.Err()"},
		{name: "test", code: "%test\nfunc TestCtx(t *testing.T) {\n\tctx := ctx\n\tif ctx.Err() != nil {\n\t\tt.Error(ctx.Err())\n\t}\n}", stdout: "=== RUN   TestCtx\n--- PASS: TestCtx (0.00s)\nPASS\n"},
		{name: "func main", code: "func main() {\n\tfmt.Print(ctx.Err())\n}", stdout: "<nil>"},
		{name: "the notebook's own", code: "var ctx = context.Background()\nctx", result: "context.Background"},
		{name: "the notebook's own, later", code: "ctx", result: "context.Background"},
		{name: "a number", code: "ctx := 3"},
		{name: "a number, later", code: "ctx + 1", result: "4"},
	}
	for _, tt := range tests {
		if strings.HasPrefix(tt.code, "%del") {
			r.must(tt.code)
			continue
		}
		t.Run(tt.name, func(t *testing.T) { tt.run(t, r) })
	}
}

// TestTrace: an error that remembers where it was made shows that line first, if it is the
// user's.
func TestTrace(t *testing.T) {
	n := newNotebook(t)
	n.Companions = map[string]string{cell.TracedPath: cell.TracePath}
	r := &runner{t: t, n: n}
	r.must("import \"github.com/pkg/errors\"\n\nfunc deep(text string) error {\n\treturn errors.New(text)\n}\n\nfunc around(text string) error { return errors.WithMessage(deep(text), \"around\") }\n" +
		"func caught(text string) (err error) {\n\tdefer func() { err = recover().(error) }()\n\tpanic(deep(text))\n}")
	tests := []errorTest{
		{name: "statement", code: "deep(\"a\")\nfmt.Print(1)", fails: "Error: a\ncell #, line 4, in deep\n    4 | \treturn errors.New(text)\ncell %, line 1, in main\n    1 | deep(\"a\")\n      | ^"},
		{name: "must", code: "must(around(\"a\"))", fails: "Error: around: a\ncell 1, line 4, in deep\n    4 | \treturn errors.New(text)\ncell 1, line 7, in around\n    7 | func around(text string) error { return errors.WithMessage(deep(text), \"around\") }\ncell %, line 1, in main\n    1 | must(around(\"a\"))\n      | ^"},
		{name: "last line, a panic that was caught", code: "caught(\"a\")", fails: "Error: a\ncell 1, line 4, in deep\n    4 | \treturn errors.New(text)\ncell 1, line 10, in caught\n   10 | \tpanic(deep(text))\ncell %, line 1, in main\n    1 | caught(\"a\")\n      | ^"},
		{name: "panic", code: "panic(around(\"a\"))", fails: "Panic: around: a\ncell 1, line 4, in deep\n    4 | \treturn errors.New(text)\ncell 1, line 7, in around\n    7 | func around(text string) error { return errors.WithMessage(deep(text), \"around\") }\ncell %, line 1, in main\n    1 | panic(around(\"a\"))\n%tb shows the full traceback"},
		{name: "no stack", code: "one := func() error { return fmt.Errorf(\"plain\") }\nmust(one())", fails: "Error: plain\ncell %, line 2, in main\n    2 | must(one())\n      | ^"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) { tt.run(t, r) })
	}
}
