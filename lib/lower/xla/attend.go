package xla

import (
	. "github.com/gomlx/gomlx/core/graph"

	"gaiden/lib/models"
)

// Attend is attention.
func (l Lowering) Attend(q, k, v *Node, a models.Attending) *Node { return models.Attend(q, k, v, a) }
