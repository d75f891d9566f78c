// Package gomlxdefault makes the session GoMLX's default backend, for programs that
// request it as GoMLX's own examples do:
//
//	import _ "github.com/gomlx/gomlx/backends/default"
//
//	backend := compute.MustNew() // the session
//
// The kernel adds this package to a cell that imports that one, directly or through
// others: XLA then runs in the session, not in the cell's process. The session is
// registered under the name "xla", which is GoMLX's default, so GOMLX_BACKEND=xla,
// xla:cpu or xla:cuda select it too; its devices were chosen when it was started.
// GOMLX_BACKEND=go still selects GoMLX's backend in pure Go.
//
// It refuses options of the plugin: they are set for the session. It does nothing in
// a program that links XLA itself.
package gomlxdefault

import (
	"slices"

	"github.com/gomlx/compute"

	"gaiden/lib/session"
)

func init() {
	if slices.Contains(compute.List(), "xla") {
		return // the program has XLA in its own process, and wants it
	}
	compute.Register("xla", func(string) (compute.Backend, error) {
		s, err := session.Config{}.Open()
		if err != nil {
			return nil, err
		}
		return s.Backend(), nil
	})
}
