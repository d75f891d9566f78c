package fit

import (
	"slices"
	"testing"

	"github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/ml/model"

	"gaiden/lib/lower/plan"
	"gaiden/lib/models"
)

// TestBuckets holds how layers are divided where devices share batches: into parts
// of about a quarter of the matrices and a small first one, every trained variable in
// one of them; not at all where there is little, or nobody can tell.
func TestBuckets(t *testing.T) {
	t.Parallel()
	s := open(t)
	resnet := models.ResNet("ResNet14", 1, 1, 1, 1)
	strange := models.Net{Name: "mine", Input: []int{4, 4, 1}, Function: func(scope *model.Scope, in models.Inputs) *graph.Node {
		return models.MLP(9).Apply(scope, in["x"])
	}}
	for _, tt := range []struct {
		name  string
		net   models.Net
		force bool
		c     plan.Part
		want  []string // the last layer of each
	}{
		{"little", resnet, false, plan.Part{Split: true}, []string{"fc6"}},
		{"one device", resnet, true, plan.Part{}, []string{"fc6"}},
		{"two devices", resnet, true, plan.Part{Split: true}, []string{"res3_1", "res4_1", "fc6"}},
		{"a user's function", strange, true, plan.Part{Split: true}, []string{"mine"}},
	} {
		n := attach(t, s, tt.net.Name, tt.net, Config{})
		n.testBuckets = tt.force
		all := n.buckets(tt.c)
		var got []string
		var trained []int
		for i, x := range all {
			got = append(got, n.model.Names()[x.last])
			trained = append(trained, x.trained...)
			if (i > 0) != (len(x.matrices) > 0) && len(all) > 1 {
				t.Errorf("%s: bucket %d has %d matrices", tt.name, i, len(x.matrices))
			}
		}
		if !slices.Equal(got, tt.want) {
			t.Errorf("%s: got buckets that end with %q, want %q", tt.name, got, tt.want)
		}
		slices.Sort(trained)
		if len(trained) != len(n.layout.trained) || trained[len(trained)-1] != len(trained)-1 {
			t.Errorf("%s: got the variables %v, want all %d", tt.name, trained, len(n.layout.trained))
		}
	}
}
