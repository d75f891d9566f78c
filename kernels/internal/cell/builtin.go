package cell

import (
	"regexp"
	"strings"
)

// A Builtin is a name that every cell has without declaring it. One that a notebook
// declares, or imports a package under, is the notebook's own.
type Builtin struct {
	Name string
	Text string // its declaration, with the comment that front ends show

	// Packages are those that the declaration uses: their names, and what of each.
	Packages map[string]string

	program string // the declaration in a program, if that is another
}

// ContextName is what cells call their context.
const ContextName = "ctx"

// Builtins are the names that every cell has.
var Builtins = []Builtin{
	{Name: "must", Text: `// must returns v. If the error behind it is not nil, the cell fails with that error at
// the line of the call:
//
//	file := must(os.Open("data.csv"))
//
// With an error alone, must only checks it: must(file.Close()). In a function that
// recovers, recover returns the error itself. A notebook that declares its own must
// keeps that.
func must[T any](v T, err ...error) T {
	failed, _ := any(v).(error)
	if len(err) > 0 {
		failed = err[0]
	}
	if failed != nil {
		panic(failed)
	}
	return v
}
`},
	{Name: "must2", Text: `// must2 is must for calls that return two values and an error:
//
//	train, test := must2(load("data.csv"))
func must2[T, U any](v T, u U, err error) (T, U) {
	if err != nil {
		panic(err)
	}
	return v, u
}
`},
	{Name: ContextName, Text: `// ctx is the context of the cell that runs: it ends when Stop is pressed, and when the
// cell ends. A notebook that declares its own ctx keeps that.
var ctx context.Context
`, program: "var ctx = " + InterruptPackage + ".Context()\n"},
	{Name: "print", Packages: map[string]string{"fmt": "Fprint", "os": "Stdout"}, Text: `// print writes its arguments below the cell, one behind the other. Go's own print writes to
// standard error, which front ends show as a warning. A notebook that declares its own
// print keeps that.
func print(args ...any) {
	for _, a := range args {
		fmt.Fprint(os.Stdout, a)
	}
}
`},
	{Name: "println", Packages: map[string]string{"fmt": "Fprintln", "os": "Stdout"}, Text: `// println writes its arguments below the cell, as fmt.Println does. Go's own println writes
// to standard error, which front ends show as a warning. A notebook that declares its
// own println keeps that.
func println(args ...any) { fmt.Fprintln(os.Stdout, args...) }
`},
}

// checks are what the code around a cell's statements calls with the results of a call
// of which the last is an error.
var checks = []Builtin{
	{Name: "gaiden_check", Text: "func gaiden_check(err error) {\n\tif err != nil {\n\t\tpanic(err)\n\t}\n}\n"},
	{Name: "gaiden_check2", Text: "func gaiden_check2[T any](_ T, err error) {\n\tif err != nil {\n\t\tpanic(err)\n\t}\n}\n"},
	{Name: "gaiden_check3", Text: "func gaiden_check3(values ...any) {\n\tif err, _ := values[len(values)-1].(error); err != nil {\n\t\tpanic(err)\n\t}\n}\n"},
}

// Check returns the function that checks so many results. A magic may write calls of the
// first, which takes an error.
func Check(results int) Builtin { return checks[min(results, len(checks))-1] }

// Program returns the declaration as it stands in a program. What it panics with has the
// error's hint (see gaidenstack.Failure).
func (b Builtin) Program() string {
	if b.program != "" {
		return b.program
	}
	return panics.ReplaceAllString(b.Text, "panic("+StackPackage+".Failure($1))")
}

var panics = regexp.MustCompile(`panic\((\w+)\)`)

// Copy returns a function of another name that does the same: a traceback tells calls in
// one line apart by the names of what they call.
func (b Builtin) Copy(name string) Builtin {
	return Builtin{Name: name, Text: strings.Replace("\n"+b.Text, "\nfunc "+b.Name, "\nfunc "+name, 1)}
}
