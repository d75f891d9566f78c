package faults

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// run runs a shell command under the tracer and returns its exit status, its
// standard error and the calls that counted.
func run(t *testing.T, p Plan, script string) (int, string, []Call) {
	t.Helper()
	cmd, log, err := Command(p, "sh", "-c", script)
	if err != nil {
		t.Fatal(err)
	}
	defer os.Remove(log)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	cmd.Run()
	calls, err := Read(log)
	if err != nil {
		t.Fatalf("%v; the command said %q", err, &out)
	}
	return cmd.ProcessState.ExitCode(), out.String(), calls
}

// TestEffects hits each kind of call of a copy, and looks at the copy.
func TestEffects(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "from"), []byte("0123456789"), 0o666); err != nil {
		t.Fatal(err)
	}
	const script = `cd "$0" 2>/dev/null; cd DIR && cat from > to; s=$?; mv to moved || exit 3; exit $s`
	command := strings.ReplaceAll(script, "DIR", dir)
	status, out, calls := run(t, Plan{Under: []string{dir}}, command)
	if status != 0 || out != "" {
		t.Fatalf("untouched: status %d, %q", status, out)
	}
	number := func(name, program string) int {
		i := slices.IndexFunc(calls, func(c Call) bool { return strings.HasPrefix(c.Name, name) && c.Program == program })
		if i < 0 {
			t.Fatalf("no %s of %s among %v", name, program, calls)
		}
		return calls[i].Number
	}
	cat := calls[number("openat", "cat")-1].Program
	for _, tt := range []struct {
		name   string
		plan   Plan
		status int
		says   string
		moved  string // "-" where there is no file
	}{
		{"a failed open", Plan{Hit: number("openat", cat), Error: unix.EMFILE}, 1, "Too many open files", ""},
		{"a failed rename", Plan{Hit: number("rename", "mv"), Error: unix.EIO}, 3, "Input/output error", "-"},
		{"a killed rename", Plan{Hit: number("rename", "mv"), Effect: Kill}, 3, "Killed", "-"},
		{"a power cut", Plan{Hit: number("rename", "mv"), Effect: Halt}, 137, "", "-"},
		{"no hit", Plan{}, 0, "", "0123456789"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			os.Remove(filepath.Join(dir, "moved"))
			tt.plan.Under = []string{dir}
			status, out, calls := run(t, tt.plan, command)
			if status != tt.status || !strings.Contains(out, tt.says) {
				t.Errorf("status %d, %q; want %d, %q", status, out, tt.status, tt.says)
			}
			got := "-"
			if b, err := os.ReadFile(filepath.Join(dir, "moved")); err == nil {
				got = string(b)
			}
			if got != tt.moved {
				t.Errorf("the copy is %q, want %q", got, tt.moved)
			}
			if hit := slices.ContainsFunc(calls, func(c Call) bool { return c.Hit }); hit != (tt.plan.Hit > 0) {
				t.Errorf("hit is %v, want %v: %v", hit, tt.plan.Hit > 0, calls)
			}
		})
	}
}
