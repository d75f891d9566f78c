package trial

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// line is one of what sanitize.py has recorded.
type line struct {
	Sum      string  `json:"sum"`
	Tool     string  `json:"tool"`
	Result   string  `json:"result"`
	Seconds  float64 `json:"seconds"`
	Integers bool    `json:"integers,omitempty"`
}

// sanitize runs sanitize.py, and returns what it says and its status.
func sanitize(t *testing.T, args ...string) (string, int) {
	t.Helper()
	out, err := exec.Command("python3", append([]string{"sanitize.py"}, args...)...).CombinedOutput()
	if exit, is := err.(*exec.ExitError); is {
		return string(out), exit.ExitCode()
	}
	if err != nil {
		t.Fatal(err)
	}
	return string(out), 0
}

// needPython skips a test where there is none.
func needPython(t *testing.T) {
	t.Helper()
	if _, err := exec.LookPath("python3"); err != nil {
		t.Skip("needs python3: apt-get install python3")
	}
}

// textsOf makes the texts of some cases.
func textsOf(t *testing.T, only string) (dir string) {
	t.Helper()
	needPython(t)
	dir = t.TempDir()
	if err := texts(settings{only: regexp.MustCompile(only), texts: dir}); err != nil {
		t.Fatal(err)
	}
	return dir
}

// wanted is a kernel that --list would run, with the tools and its whole numbers.
type wanted struct{ sum, name, tools, numbers string }

func wantedOf(list string) (l []wanted) {
	for _, line := range strings.Split(list, "\n") {
		if f := strings.Split(line, "\t"); len(f) > 2 {
			l = append(l, wanted{f[0], f[1], f[2], strings.Join(f[3:], " ")})
		}
	}
	return l
}

func names(l []wanted) (names []string) {
	for _, k := range l {
		names = append(names, k.name)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// TestCut holds that --blocks leaves a grid's first blocks, and small grids whole.
func TestCut(t *testing.T) {
	needPython(t)
	out, err := exec.Command("python3", "-c", "from sanitize import *; print(*(cut(g, 64.0) for g in ([1000, 1, 1], [100, 100, 1], [1, 65, 1], [4, 16, 1])), cut([1000, 1, 1], math.inf))").CombinedOutput()
	if got, want := strings.TrimSpace(string(out)), "[64, 1, 1] [1, 64, 1] [1, 64, 1] [4, 16, 1] [1000, 1, 1]"; err != nil || got != want {
		t.Errorf("got %s, %v, want %s", got, err, want)
	}
}

// TestIntegers holds that sanitize.py knows what every whole number is that a kernel of
// the cases takes, and what that is.
func TestIntegers(t *testing.T) {
	dir := textsOf(t, "")
	list, status := sanitize(t, dir, "--list")
	if status != 0 {
		t.Fatalf("got status %d, want that it knows all:\n%s", status, regexp.MustCompile(".*:None.*").FindString(list))
	}
	got := wantedOf(list)
	for name, want := range map[string]string{
		"linear_relu": "", "head": "2:below 10", "softmax": "1:below 1000", "conv_gradient": "2:below 4", "group_adadelta": "26:is 2", "end_sigmoid": "2:below 10",
	} {
		if !slices.ContainsFunc(got, func(k wanted) bool { return k.name == name && k.numbers == want }) {
			t.Errorf("%s: got none with whole numbers %q", name, want)
		}
	}
}

// TestKnown holds what earlier files save: a kernel's clean lines, but of one that takes
// whole numbers only those that had some.
func TestKnown(t *testing.T) {
	dir := textsOf(t, "^(linear 1×33→17|head 100×1000→10) .*f32$")
	list, _ := sanitize(t, dir, "--list")
	all := wantedOf(list)
	if want := []string{"head", "linear_sigmoid"}; !slices.Equal(names(all), want) {
		t.Fatalf("got %q, want %q", list, want)
	}
	results := t.TempDir()
	write := func(change func(name string, l line) line) {
		var lines []line
		for _, k := range all {
			for _, tool := range []string{"none", "memcheck", "initcheck", "racecheck"} {
				lines = append(lines, change(k.name, line{Sum: k.sum, Tool: tool, Result: "clean", Seconds: 1}))
			}
		}
		b, err := json.Marshal(map[string]any{"triton": "3.6.0", "lines": lines})
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(results, "a-sanitizer-b.json"), b, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for _, tt := range []struct {
		name   string
		change func(name string, l line) line
		want   []string // kernels still to be run
	}{
		{"zeros only", func(_ string, l line) line { return l }, []string{"head"}},
		{"whole numbers", func(_ string, l line) line { l.Integers = true; return l }, nil},
		{"not clean", func(_ string, l line) line { l.Integers, l.Result = true, "time-out after 40 s"; return l }, []string{"head", "linear_sigmoid"}},
		{"one tool is missing", func(name string, l line) line {
			l.Integers = true
			if name != "head" && l.Tool == "racecheck" {
				l.Tool = "none"
			}
			return l
		}, []string{"linear_sigmoid"}},
	} {
		write(tt.change)
		list, _ := sanitize(t, dir, "--list", "--known", results)
		if got := names(wantedOf(list)); !slices.Equal(got, tt.want) {
			t.Errorf("%s: got %q to be run, want %q", tt.name, got, tt.want)
		}
	}
}

// TestLimit holds that what there was no time for is in the file.
func TestLimit(t *testing.T) {
	dir := textsOf(t, "^head 100×1000→10 f32$")
	file := filepath.Join(t.TempDir(), "late.json")
	out, status := sanitize(t, dir, "--limit", "0", "--json", file)
	b, err := os.ReadFile(file)
	var got struct{ Lines []line }
	if err != nil || json.Unmarshal(b, &got) != nil || status != 2 || len(got.Lines) != 1 || got.Lines[0].Result != "not run: the time is up" {
		t.Errorf("got status %d, %v and %s, want 2 and a line that was not run:\n%s", status, err, b, out)
	}
}
