package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"
)

// A finding is the outcome of one check.
type finding struct {
	Check string `json:"check"`
	State string `json:"state"` // ok, warn (something is less good than it could be), fail (cells cannot run)
	Found string `json:"found"`
	Do    string `json:"do,omitempty"` // what to do about it
}

func good(format string, args ...any) finding {
	return finding{State: "ok", Found: fmt.Sprintf(format, args...)}
}

func worse(do, format string, args ...any) finding {
	return finding{State: "warn", Found: fmt.Sprintf(format, args...), Do: do}
}

func bad(do, format string, args ...any) finding {
	return finding{State: "fail", Found: fmt.Sprintf(format, args...), Do: do}
}

// checks are the doctor's questions, in the order in which their answers depend
// on one another.
var checks = []struct {
	name string
	run  func(context.Context) []finding
}{
	{"system", checkSystem},
	{"home", checkHome},
	{"directories", checkDirectories},
	{"disk", checkDisk},
	{"limits", checkLimits},
	{"go", checkGo},
	{"library", checkLibrary},
	{"gopls", checkGopls},
	{"plugin", checkPlugin},
	{"gpu", checkGPU},
	{"cuda", checkCUDA},
	{"session", checkSession},
	{"python", checkPython},
	{"jupyter", checkJupyter},
	{"kernelspec", checkKernelspecs},
	{"ports", checkPorts},
}

// checkTime is how long one check may take.
const checkTime = 20 * time.Second

// doctorMain asks everything and says what to do. It fails when cells cannot run.
func doctorMain(args []string, stdout, stderr io.Writer) error {
	f := newFlags("doctor", "[-json]", stderr)
	asJSON := f.Bool("json", false, "print JSON")
	if err := parseAll(f, args); err != nil {
		return err
	}
	var all []finding
	failed := 0
	for _, c := range checks {
		for _, x := range checked(c.run) {
			x.Check = c.name
			all = append(all, x)
			if x.State == "fail" {
				failed++
			}
			if !*asJSON {
				printFinding(stdout, x)
			}
		}
	}
	if *asJSON {
		e := json.NewEncoder(stdout)
		e.SetIndent("", "  ")
		if err := e.Encode(all); err != nil {
			return err
		}
	}
	if failed > 0 {
		return fmt.Errorf("doctor: checks that failed: %d of %d", failed, len(all))
	}
	return nil
}

// checked runs a check. One that panics has found something, too.
func checked(run func(context.Context) []finding) (out []finding) {
	defer func() {
		if r := recover(); r != nil {
			out = append(out, worse("please report this", "the check itself failed: %v", r))
		}
	}()
	ctx, cancel := context.WithTimeout(context.Background(), checkTime)
	defer cancel()
	return run(ctx)
}

func printFinding(w io.Writer, x finding) {
	text := strings.ReplaceAll(strings.TrimSpace(x.Found), "\n", "\n                  ")
	fmt.Fprintf(w, "%-4s  %-11s %s\n", x.State, x.Check, text)
	if x.Do != "" {
		fmt.Fprintf(w, "      %-11s → %s\n", "", x.Do)
	}
}
