package hlo

import (
	"fmt"
	"path/filepath"
	"runtime"
	"strings"
)

// Outside is the nearest line of Go that calls from outside of a package, as
// file:line, for errors of packages that write a part of a program; "" where there is
// none.
func Outside(pkg string) string {
	var pcs [32]uintptr
	frames := runtime.CallersFrames(pcs[:runtime.Callers(2, pcs[:])])
	for {
		f, more := frames.Next()
		if !strings.HasPrefix(f.Function, pkg+".") && !strings.HasPrefix(f.Function, "gaiden/lib/engine/hlo.Outside") {
			return fmt.Sprintf("%s:%d", filepath.Base(f.File), f.Line)
		}
		if !more {
			return ""
		}
	}
}
