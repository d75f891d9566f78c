package result

import (
	"fmt"
	"runtime"
	"strings"
)

// Panicked is the error of a panic in a user's function, with the lines of the user's code that
// it came from. The deferred function that recovers calls it; what called the function that
// defers it is left out.
func Panicked(p any) error {
	pcs := make([]uintptr, 64)
	frames := runtime.CallersFrames(pcs[:runtime.Callers(2, pcs)])
	recovers, more := frames.Next()
	caller := recovers.Function
	if i := strings.LastIndex(caller, ".func"); i > 0 {
		caller = caller[:i]
	}
	var lines []string
	for more {
		var f runtime.Frame
		if f, more = frames.Next(); f.Function == caller {
			break
		}
		ours := strings.HasPrefix(f.Function, "runtime.") || strings.HasPrefix(f.Function, "reflect.") || strings.HasPrefix(f.Function, "gaiden/lib/")
		if !ours || strings.HasSuffix(f.File, "_test.go") {
			lines = append(lines, fmt.Sprintf("\n\t%s %s:%d", f.Function, f.File, f.Line))
		}
	}
	err, is := p.(error)
	if !is {
		err = fmt.Errorf("%v", p)
	}
	return fmt.Errorf("panic: %w%s", err, strings.Join(lines, ""))
}
