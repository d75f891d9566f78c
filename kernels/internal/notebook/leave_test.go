package notebook

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// TestProcessState: the working directory and the environment with which a cell ends
// are those with which the next one begins; a program of its own leaves none.
func TestProcessState(t *testing.T) {
	r := &runner{t: t, n: newNotebook(t)}
	home, there := r.n.Dir, t.TempDir()
	t.Setenv("GAIDEN_TEST_INHERITED", "from the kernel")
	const where, value = "wd, _ := os.Getwd()\nfmt.Print(wd)", "v, ok := os.LookupEnv(\"GAIDEN_TEST_V\")\nfmt.Print(v, ok)"
	tests := []struct {
		name, code string
		want       string // on standard output
		fails      string // part of the traceback
	}{
		{name: "directory", code: "os.Chdir(" + strconv.Quote(there) + ")"},
		{name: "directory then", code: where, want: there},
		{name: "directory of commands", code: "!pwd; echo $PWD", want: there + "\n" + there + "\n"},
		{name: "back", code: "%cd -\n" + where, want: "Changed directory to " + strconv.Quote(home) + "\n" + home},
		{name: "variable", code: "os.Setenv(\"GAIDEN_TEST_V\", \"a\\t\\\"b\\\"\\nc\")"},
		{name: "variable then", code: value, want: "a\t\"b\"\nctrue"},
		{name: "variable of commands", code: "!echo \"$GAIDEN_TEST_V\"", want: "a\t\"b\"\nc\n"},
		{name: "variable for %env", code: "%env GAIDEN_TEST_V", want: "a\t\"b\"\nc\n"},
		{name: "unset", code: "os.Unsetenv(\"GAIDEN_TEST_V\")\nos.Unsetenv(\"GAIDEN_TEST_INHERITED\")"},
		{name: "unset then", code: value, want: "false"},
		{name: "unset of the kernel", code: "_, ok := os.LookupEnv(\"GAIDEN_TEST_INHERITED\")\nfmt.Print(ok)", want: "false"},
		{name: "unset for %env", code: "%env GAIDEN_TEST_INHERITED", fails: "is not set"},
		{name: "set again by %env", code: "%env GAIDEN_TEST_V=1\n" + value, want: "Set: GAIDEN_TEST_V=\"1\"\n1true"},
		{name: "before a panic", code: "os.Setenv(\"GAIDEN_TEST_V\", \"2\")\npanic(\"oh\")", fails: "oh"},
		{name: "before a panic, then", code: value, want: "2true"},
		{name: "before an exit", code: "func die() { os.Setenv(\"GAIDEN_TEST_V\", \"3\"); os.Exit(1) }\ndie()", fails: "exit status 1"},
		{name: "before an exit, then", code: value, want: "3true"},
		{name: "program of its own", code: "%%\nos.Setenv(\"GAIDEN_TEST_V\", \"4\")\nos.Exit(0)"},
		{name: "program with main", code: "func main() { os.Setenv(\"GAIDEN_TEST_V\", \"4\"); os.Exit(0) }"},
		{name: "test", code: "%test\nfunc TestV(t *testing.T) { os.Setenv(\"GAIDEN_TEST_V\", \"4\") }"},
		{name: "after those", code: value, want: "3true"},
		{name: "everything", code: "kept := 5\nos.Clearenv()"},
		{name: "everything then", code: value, want: "false"},
		{name: "values of that cell", code: "fmt.Print(kept)", want: "5"},
		{name: "directory that goes with its cell", code: "d, _ := os.MkdirTemp(\"/tmp\", \"\")\ndefer os.Remove(d)\nos.Chdir(d)"},
		{name: "directory after that", code: where, want: home},
		{name: "directory that goes later", code: "os.Chdir(" + strconv.Quote(there) + ")\nos.Mkdir(\"gone\", 0o700)\nos.Chdir(\"gone\")"},
		{name: "directory gone", code: "os.Remove(" + strconv.Quote(filepath.Join(there, "gone")) + ")"},
		{name: "program without a directory", code: "fmt.Print(1)", fails: "the working directory: stat " + filepath.Join(there, "gone") + ": no such file or directory\n    %cd DIRECTORY changes to one that is there"},
		{name: "another directory", code: "%cd " + there + "\n" + where, want: "Changed directory to " + strconv.Quote(there) + "\n" + there},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r.t = t
			out, err := r.run(tt.code)
			trace := ""
			if err != nil {
				trace = strings.Join(err.Traceback, "\n")
			}
			if (err != nil) != (tt.fails != "") || !strings.Contains(trace, tt.fails) {
				t.Fatalf("got error %q, want %q", trace, tt.fails)
			}
			if got := out.stream("stdout"); got != tt.want && !strings.HasPrefix(tt.code, "%test") {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
	if left, _ := filepath.Glob(filepath.Join(r.n.temp.Path, "*.left*")); len(left) > 0 {
		t.Errorf("got files %q, want none", left)
	}
}

// TestFollows: the kernel's own process has what cells and %env make of some variables.
func TestFollows(t *testing.T) {
	const name = "GAIDEN_TEST_FOLLOWED"
	t.Setenv(name, "at first")
	r := &runner{t: t, n: newNotebook(t)}
	r.n.Follows = []string{name}
	is := func(want string) {
		t.Helper()
		if got := os.Getenv(name); got != want {
			t.Errorf("the kernel has %q, want %q", got, want)
		}
	}
	before, err := r.n.Checkpoint()
	if err != nil {
		t.Fatal(err)
	}
	r.must("%env " + name + "=magic")
	is("magic")
	r.must("os.Setenv(\"" + name + "\", \"cell\")")
	is("cell")
	r.must("os.Unsetenv(\"" + name + "\")")
	is("")
	before.Restore()
	is("at first")
}
