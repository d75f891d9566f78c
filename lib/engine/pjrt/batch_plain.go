//go:build !amd64 || pjrtplain

package pjrt

import "github.com/ebitengine/purego"

// walk makes the calls of l with one transition for each: the form for
// processors without assembly here. The build tag pjrtplain selects it on amd64
// too, so that it can be tested there.
func walk(l *list) {
	for l.n > 0 && l.err == 0 {
		e := at[entry](l.entries)
		if e.src != 0 {
			*at[uintptr](e.dst) = *at[uintptr](e.src)
		}
		l.err, _, _ = purego.SyscallN(e.fn, e.arg)
		l.entries += entrySize
		l.n--
	}
}
