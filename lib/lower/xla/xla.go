// Package xla writes the operations of nets in XLA's own operations, in the forms that
// package lower chooses: algorithms of convolutions, recurrences as loops, matmuls and sums
// in the layout that the target computes fastest.
package xla

import (
	. "github.com/gomlx/gomlx/core/graph"

	"gaiden/lib/lower"
	"gaiden/lib/models"
)

// Lowering writes for a target.
type Lowering struct {
	Target  lower.Target
	Options lower.Options
	Calls   Calls // of the program; nil: it has none
	// Attends is called with the shape of each attention; nil: it is not.
	Attends func(lower.Attention)
	// Recurs is called for each recurrence, with why there are no kernels for it, or ""; nil: it
	// is not.
	Recurs func(refused string)
	// Multiplies is called with rows, weights, biases (or nil) and result of each dense layer
	// without an activation; nil: it is not.
	Multiplies func(x, w, biases, y *Node)
	// Shared is that of the program; nil: each operation is by itself.
	Shared *Shared
}

var _ models.Lowering = Lowering{}
