package notebook

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gaiden/kernels/internal/jupyter"
	"gaiden/kernels/internal/magic"
)

// TestMagics goes through GoNB's magics and ours that TestCells leaves out.
func TestMagics(t *testing.T) {
	n := newNotebook(t)
	r := &runner{t: t, n: n}
	home := t.TempDir()
	tests := []struct {
		name  string
		code  string
		want  string // part of all output
		fails string // part of the error
	}{
		{"test", "%test\nfunc TestGood(t *testing.T) { t.Log(\"fine\") }", "--- PASS: TestGood", ""},
		{"test that fails", "%test\nfunc TestBad(t *testing.T) { t.Error(\"oh\") }", "--- FAIL: TestBad", "exit status 1"},
		{"only the cell's tests", "%test\nfunc TestAlone(t *testing.T) {}", "--- PASS: TestAlone", ""},
		{"benchmark", "%test\nfunc BenchmarkIt(b *testing.B) {\n\tfor b.Loop() {\n\t}\n}", "ns/op", ""},
		{"test that does not compile", "%test\nfunc TestX(t *testing.T) { t.Nothing() }", "", "t.Nothing undefined"},
		{"cell after tests", "1 + 1", "2", ""},
		{"goflags", "%goflags -tags=special", `%goflags=["-tags=special"]`, ""},
		{"cell with flags", "fmt.Print(\"by go build\")", "by go build", ""},
		{"goflags gone", "%goflags \"\"", "%goflags=[]", ""},
		{"cost", "fmt.Print(3)\n%cost on", "link", ""},
		{"cost off", "%cost off\n%cost", "direct", ""},
		{"cost wrong", "%cost maybe", "", `%cost: got "maybe", want %cost [on|off]`},
		{"no panic yet", "%tb", "no cell has panicked", ""},
		{"panic", "panic(\"now\")", "", "now"},
		{"its traceback", "%tb", "goroutine 1 [running]", ""},
		{"list", "var kept = 1\n%list", "TestGood", ""},
		{"list again", "%who", "kept", ""},
		{"remove unknown", "%rm kep", "did you mean kept?", ""},
		{"capture", "%capture out.txt\nfmt.Print(\"caught\")\ngonbui.DisplayHTML(\"<i>shown</i>\")", "caught", ""},
		{"capture more", "%capture -a out.txt\nfmt.Fprint(os.Stderr, \" again\")", "again", ""},
		{"captured", "!cat out.txt", "caught<i>shown</i> again", ""},
		{"capture nowhere", "%capture nowhere/x\n1", "", "no such file"},
		{"capture to a pipe", "!mkfifo pipe", "", ""},
		{"pipe refused by capture", "%capture pipe\n1", "", "pipe: got a named pipe, want a regular file"},
		{"pipe refused by writefile", "%%writefile pipe\n1", "", "pipe: got a named pipe, want a regular file"},
		{"pipe refused by append", "%%writefile -a pipe\n1", "", "pipe: got a named pipe, want a regular file"},
		{"directory", "!mkdir sub\n%cd sub\n!basename $PWD\ndir, _ := os.Getwd()\nfmt.Print(filepath.Base(dir))", "sub\nsub", ""},
		{"directory up", "%cd ..\n%cd", "Current directory", ""},
		{"directory that is not", "%cd nowhere", "", "nowhere: no such directory"},
		{"help on one", "%help env", "%env [NAME[=value] | NAME value]", ""},
		{"help on a cell magic", "%help %%bash", "runs the cell with bash", ""},
		{"help on nothing", "%help captrue", "", "%captrue: no such magic; did you mean %capture?"},
		{"no such variable", "%env NOSUCHVARIABLE", "", "%env: NOSUCHVARIABLE is not set"},
		{"home", "%env HOME=" + home + "\n%cd ~\n%cd", fmt.Sprintf("Current directory: %q", home), ""},
		{"version", "%version", "gaiden test", ""},
		{"help", "%help", "%require", ""},
		{"wasm", "%wasm\nx := 1", "", "this kernel does not compile for the browser"},
		{"reset go.mod", "!*echo '// mine' >> go.mod\n%reset go.mod\n!*grep -c mine go.mod", "0", ""},
		{"list kept by that", "%list", "kept", ""},
		{"reset", "%reset\n%list", "nothing is remembered", ""},
		{"require nothing", "%require", "", "want %require path[@version]"},
		{"flags without a program", "%args -x", "", ""},
		{"exec with arguments", "func hi() { fmt.Print(flag.Args()) }\n%exec hi a b", "[a b]", ""},
		{"flag of an older cell", "var loud = flag.Bool(\"loud\", false, \"\")", "", ""},
		{"flag used", "%% -loud\nfmt.Print(*loud)", "true", ""},
		{"a program's cell", "%%python\nprint(1)", "", "%%script python gives the cell to the program python"},
		{"there and back", "!mkdir -p there\n%cd there\n%cd -\n!basename $PWD | grep -c there", "0\n", ""},
		{"IPython's file", "%%file alias.txt\nx", "", ""},
		{"IPython's magic", "%pip install x", "", "%pip: no such magic"},
		{"a variable that is assigned", "fresh = 5", "", "fresh := … defines it"},
		{"a declaration with a variable of its cell's statements", "early := 5\nvar late = early + 1", "", "early := … is a statement of this cell"},
		{"a variable above its definition", "fmt.Print(soon)\nsoon := 5", "", "define soon in an earlier cell"},
		{"a value whose error is left", "size := os.Hostname()", "", "write must(os.Hostname(…)): it is the first value"},
		{"two values whose error is left", "head, tail := net.SplitHostPort(\"a:1\")", "", "write must2(net.SplitHostPort(…)): it is the first two values"},
		{"two values of a chain whose error is left", "head, tail := bytes.NewBufferString(\"a\").ReadRune()", "", "write must2(…ReadRune(…))"},
		{"a struct by a call", "tag := image.Point(3)", "", "name the fields, image.Point{X: …, Y: …}; it has X, Y"},
		{"a struct without names", "at := image.Point{3}", "", "name the fields, image.Point{X: …, Y: …}"},
		{"a function as a type", "at := image.Pt{3, 4}", "", "image.Pt is a function: write image.Pt(…)"},
		{"a variable like a package", "ftm.Println(1); fms.Nothing()", "", "did you mean fmt?"},
		{"a value and an error in place of one", "fmt.Sprint(1, os.Getwd())", "", "write must(os.Getwd(…)): it is the first value"},
		{"a function of Python's", "help()", "", "%help lists the magics"},
		{"a command of the shell", "ls", "", "!ls"},
		{"the last result", "_", "", "needs one: x := …"},
		{"flags that the cell parses itself", "%args -n 5 a\nn := flag.Int(\"n\", 0, \"\")\nflag.Parse()\nfmt.Print(*n, flag.Args())", "5 [a]", ""},
		{"a magic in Go", "x := %timeit -o f()", "", "a magic or a shell command is a line of its own"},
		{"a command in Go", "files := !ls *.go", "", "exec.Command runs as ! does"},
		{"Python", "import numpy as np\nx = np.zeros(3)", "", "this line is Python's"},
		{"Python's function", "def f(x):\n    return x", "", "this line is Python's"},
		{"Python's loop on a line", "for i in range(10): print(i)", "", "this line is Python's"},
		{"a list of Python's", "x = [1, 2, 3]", "", "x := []int{1, 2, 3}"},
		{"a dictionary of Python's", "d = {'a': 1}", "", "x := map[string]int"},
		{"an installer", "pip install numpy", "", "!ls -l"},
		{"a program with a dash", "nvidia-smi", "", "!nvidia-smi"},
		{"the go command", "go get example.org/x@latest", "", "!ls -l"},
		{"a go statement that is broken", "go f(", "", "found the end of the cell\n"},
		{"a slice's type", "x := [3]int{1, 2, 3\nx", "", "[3]int{1, 2, 3\n"},
		{"a method that is not there", "var in strings.Reader\nin.Size2()", "", "did you mean Size? strings.Reader has Len, Read, ReadAt, "},
		{"a field that is not there", "type pair struct{ Left, right int }\npair{}.middle", "", "    pair has Left, right"},
		{"a field that is not there, in a literal", "type pair struct{ Left, right int }\npair{middle: 1}", "", "    pair has Left, right"},
		{"such a field that is near", "&http.Client{Timout: 1}", "", "did you mean Timeout? http.Client has Transport, CheckRedirect, "},
		{"a field that a package keeps, in a literal", "[]*http.Request{{ctx: nil}}", "", "    http.Request has Method, URL, "},
		{"a method that a package keeps", "var in time.Time\nin.sec()", "", "    time.Time has Add, AddDate, "},
		{"a method of another case", "var big strings.Reader\nbig.size()", "", "but does have method Size)\n"},
		{"a method of a pointer", "t := time.NewTimer(0)\nt.Halt()", "", "*time.Timer has C, Reset, Stop"},
		{"a method of an interface", "var e error\ne.Message()", "", "error has Error"},
		{"a type without members", "n := 5\nn.Up()", "", "has no field or method Up)\n"},
		{"a package of a variable's name", "net.Train(1)", "", "net is the package net here: no cell that was run has a variable of this name"},
		{"a name that the library has not", "greeting.Zebra()", "", "greeting has Guest, Hello"},
		{"a name of such a package", "net.Diall(1)", "", "did you mean net.Dial?"},
		{"a package that was requested", "import \"net\"\nnet.Train(1)", "", "undefined: net.Train\n"},
		{"nothing to check", "must(1)", "", "must: got int and no error"},
		{"C", "#include <stdio.h>\nint main() { puts(\"hi\"); }", "", "this line is C's, and the kernel runs Go"},
		{"# in the middle", "x := 1 # one", "", "Go's comments begin with //"},
		{"a comment of Python's", "# one\nfmt.Print(1)", "", "Go's comments begin with //"},
		{"Go that is broken", "for i := range 3 {\nprint(i):\n}", "", "print(i):\n      |"},
		{"exclamation marks in a literal", "v := []bool{\n!true,\n!false,\n}\nfmt.Println(v)", "[false true]\n", ""},
		{"one behind an operator", "ok := 1 == 2 ||\n!false\nfmt.Println(ok)", "true\n", ""},
		{"one in a header", "if 1 == 1 &&\n!false { fmt.Println(\"yes\") }", "yes\n", ""},
		{"an operator that begins a line", "n := 7\n% 3", "", "%3: no such magic\n    Go ends a statement with its line"},
		{"another", "n := 7\n!= 3", "", "Go ends a statement with its line"},
		{"one in brackets", "n := (7\n% 3)", "", "syntax error"},
		{"flag only parsed", "%% -loud\nfmt.Print(\"quiet\")", "quiet", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r.t = t
			out, err := r.run(tt.code)
			switch {
			case tt.fails == "" && err != nil:
				t.Fatalf("got error %s: %s", err.Name, strings.Join(err.Traceback, "\n"))
			case tt.fails != "" && (err == nil || !strings.Contains(strings.Join(err.Traceback, "\n"), tt.fails)):
				t.Fatalf("got error %v, want %q", err, tt.fails)
			}
			var all strings.Builder
			all.WriteString(out.stream("stdout") + out.stream("stderr") + out.result())
			for _, d := range out.shown {
				fmt.Fprint(&all, d.Data["text/plain"])
			}
			if !strings.Contains(all.String(), tt.want) {
				t.Errorf("got output %q, want %q in it", all.String(), tt.want)
			}
			if tt.name == "only the cell's tests" && strings.Contains(all.String(), "TestGood") {
				t.Errorf("got output %q, want no older test", all.String())
			}
		})
	}
}

// TestRows: every magic has a name, help that fits a line, and something to do.
func TestRows(t *testing.T) {
	seen := map[string]bool{}
	for _, row := range Magics(&Notebook{}) {
		for _, name := range row.Names() {
			if !strings.HasPrefix(name, "%") || seen[name] {
				t.Errorf("%s: got a name without %% or twice", name)
			}
			seen[name] = true
		}
		if row.Help == "" || strings.Contains(row.Help, "\n") || len(row.Help) > 100 {
			t.Errorf("%s: got help %q, want one line of up to 100 bytes", row.Name, row.Help)
		}
		if (row.Run == nil) != (row.Role == magic.Main || row.Role == magic.Exec || row.Role == magic.Arguments || row.Role == magic.Test || row.Role == magic.Format) {
			t.Errorf("%s: got Run set %t, want it where the role does not say all", row.Name, row.Run != nil)
		}
	}
}

// TestOwnRow: a program adds magics of its own, which can show things and run Go.
func TestOwnRow(t *testing.T) {
	n := newNotebook(t)
	n.Magics = append(Magics(n), magic.Row{Name: "%twice", Args: "expression", Help: "doubles", Run: func(ctx context.Context, host magic.Host, c magic.Command) error {
		host.Show(map[string]any{"text/plain": "twice " + c.Text})
		host.Next("// again")
		return host.Go(ctx, "2 * ("+c.Text+")")
	}})
	r := &runner{t: t, n: n}
	r.must("var x = 20")
	out := &recorder{}
	result := n.Execute(t.Context(), request("%twice x + 1", 2), out)
	if result.Err != nil || out.result() != "42" || len(out.shown) != 1 {
		t.Errorf("got error %v, value %q, %d displays; want 42 and 1", result.Err, out.result(), len(out.shown))
	}
	if len(result.Payload) != 1 || result.Payload[0]["source"] != "set_next_input" {
		t.Errorf("got payload %v, want set_next_input", result.Payload)
	}
	out = &recorder{}
	result = n.Execute(t.Context(), request("%twice y", 3), out)
	if result.Err == nil || result.Err.Name != nameBuild {
		t.Errorf("got error %v, want %s", result.Err, nameBuild)
	}
}

// TestExpressions: what a front end asks for together with a cell.
func TestExpressions(t *testing.T) {
	n := newNotebook(t)
	req := jupyter.ExecuteRequest{Code: "var x = 6", Count: 1, UserExpressions: map[string]string{"good": "x * 7", "bad": "nowhere"}}
	result := n.Execute(t.Context(), req, &recorder{})
	if result.Err != nil {
		t.Fatal(result.Err)
	}
	good, _ := result.UserExpressions["good"].(map[string]any)
	if data, _ := good["data"].(map[string]any); good["status"] != "ok" || data["text/plain"] != "42" {
		t.Errorf("good: got %v, want 42", good)
	}
	bad, _ := result.UserExpressions["bad"].(map[string]any)
	if bad["status"] != "error" || bad["ename"] != nameBuild {
		t.Errorf("bad: got %v, want a %s", bad, nameBuild)
	}
}

// TestMissingModule: without a proxy the error says how to get a module.
func TestMissingModule(t *testing.T) {
	t.Setenv("GOPROXY", "off")
	r := &runner{t: t, n: newNotebook(t)}
	for _, code := range []string{"import \"example.com/no/such\"\nsuch.F()", "%require example.com/no/such"} {
		_, err := r.run(code)
		if err == nil || !strings.Contains(strings.Join(err.Traceback, "\n"), "example.com/no/such") {
			t.Errorf("%q: got error %v, want one that names the module", code, err)
		}
	}
	// A copy on this machine does without a proxy.
	dir := t.TempDir()
	os.WriteFile(filepath.Join(dir, "go.mod"), []byte("module example.com/local\n\ngo 1.26\n"), 0o600)
	os.WriteFile(filepath.Join(dir, "local.go"), []byte("package local\n\nfunc F() string { return \"local\" }\n"), 0o600)
	out := r.must("!*go mod edit -require example.com/local@v0.0.0 -replace example.com/local=" + dir + "\nlocal.F()")
	if out.result() != "local" {
		t.Errorf("got %q, stderr %q; want local", out.result(), out.stream("stderr"))
	}
}
