package notebook

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"gaiden/kernels/internal/cell/build"
)

// BenchmarkCells measures cells that change each time, from Execute's beginning
// to its end. Run it with -benchtime=20x: it reports medians, in ms.
func BenchmarkCells(b *testing.B) {
	cells := []struct{ name, code string }{
		{"print", "fmt.Println(%d)"},
		{"value", "1 + %d"},
		{"display", "gonbui.DisplayHTML(\"%d\")"},
		{"gomlx", "x := graph.NewGraph(nil, \"%d\")\n_ = x\n_ = layers.Dense\n_ = tensors.FromScalar(1)"},
		{"declare", "func f() int { return %d }"},
		{"shell", "!echo %d"},
	}
	for _, c := range cells {
		b.Run(c.name, func(b *testing.B) {
			r := &runner{t: b, n: newNotebook(b)}
			r.run(fmt.Sprintf(c.code, -1)) // packages are found and read once
			var total, compile, link []time.Duration
			var parts []build.Cost
			for i := 0; b.Loop(); i++ {
				start := time.Now()
				r.run(fmt.Sprintf(c.code, i))
				total = append(total, time.Since(start))
				cost := r.n.Cost()
				parts = append(parts, cost)
				compile, link = append(compile, cost.Compile), append(link, cost.Link)
			}
			b.ReportMetric(0, "ns/op")
			for unit, samples := range map[string][]time.Duration{"ms/cell": total, "ms/compile": compile, "ms/link": link} {
				slices.Sort(samples)
				b.ReportMetric(float64(samples[len(samples)/2].Microseconds())/1000, unit)
			}
			b.Log(parts[len(parts)-1])
		})
	}
}
