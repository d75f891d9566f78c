// Package gomlxdefault makes the session GoMLX's default backend, where a program
// asks for it as GoMLX's own examples do:
//
//	import _ "github.com/gomlx/gomlx/backends/default"
//
//	backend := compute.MustNew() // the session
//
// The kernel adds it to a cell that imports that package, itself or through others:
// there XLA lives in the session, not in the cell's own process. The session is
// registered under the name "xla", which is GoMLX's default, so GOMLX_BACKEND=xla,
// xla:cpu or xla:cuda mean it too; which devices it has was decided when it was
// started. GOMLX_BACKEND=go is GoMLX's backend in pure Go, as always.
//
// Package gomlxdefault refuses: options of the plugin. They are the session's.
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
