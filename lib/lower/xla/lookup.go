package xla

import (
	. "github.com/gomlx/gomlx/core/graph"

	"gaiden/lib/gradient"
	"gaiden/lib/lower"
	"gaiden/lib/models"
)

// Lookup has a gradient that is a product where package lower says so.
func (l Lowering) Lookup(table, ids *Node) *Node {
	n, units := table.Shape().Dimensions[0], table.Shape().Dimensions[1]
	if !lower.LookupProduct(l.Target, n, table.DType()) {
		return models.Plain{}.Lookup(table, ids)
	}
	return gradient.Lowered([]*Node{table}, func(in []*Node) *Node {
		return gradient.Define(models.Plain{}.Lookup(StopGradient(in[0]), ids), in, func(v *Node) []*Node {
			rows := ids.Shape().Size()
			return []*Node{DotGeneral(OneHot(Reshape(ids, rows), n, v.DType()), []int{0}, nil, Reshape(v, rows, units), []int{0}, nil)}
		})
	}, func(in []*Node) *Node { return models.Plain{}.Lookup(in[0], ids) })
}
