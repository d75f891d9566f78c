package xla

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"

	"gaiden/lib/lower"
	"gaiden/lib/models"
)

func TestTmpBench(t *testing.T) {
	backend := cpu(t)
	ints := func(s string) (l []int) {
		for _, x := range strings.Split(s, ",") {
			n, _ := strconv.Atoi(x)
			l = append(l, n)
		}
		return
	}
	for _, cs := range strings.Fields(os.Getenv("CASES")) {
		c := ints(cs) // n length heads groups size window
		type prog struct {
			name string
			exec *Exec
			best time.Duration
		}
		var ps []*prog
		for _, way := range strings.Fields(os.Getenv("WAYS")) {
			o := lower.Options{}
			w := ints(way)
			if w[0] == 0 {
				o.Attention.Form = lower.PlainAttention
			} else {
				o.Attention = lower.AttentionChoice{Form: lower.BlockwiseAttention, Queries: w[0], Keys: w[1]}
			}
			e, err := NewExec(lowered{backend, Lowering{Target: lower.Target{Platform: "cpu"}, Options: o}}, func(g *Graph) []*Node {
				wave := func(step float64, dims ...int) *Node {
					return Sin(MulScalar(AddScalar(IotaFull(g, shapes.Make(dtypes.Float32, dims...)), 1), step))
				}
				q, k, v := wave(0.7, c[0], c[1], c[2], c[4]), wave(0.3, c[0], c[1], c[3], c[4]), wave(0.11, c[0], c[1], c[3], c[4])
				y := loweringOf(g).Attend(q, k, v, models.Attending{Causal: true, Window: c[5]})
				var l []*Node
				for _, x := range Gradient(ReduceAllSum(Mul(Square(y), wave(0.9, y.Shape().Dimensions...))), q, k, v) {
					l = append(l, ReduceAllSum(x))
				}
				return l
			})
			if err != nil {
				t.Fatal(err)
			}
			p := &prog{name: way, exec: e}
			if _, err := e.Call(); err != nil {
				t.Fatal(err)
			}
			ps = append(ps, p)
		}
		for range 5 {
			for _, p := range ps {
				begin := time.Now()
				out, err := p.exec.Call()
				if err != nil {
					t.Fatal(err)
				}
				out[0].ConstFlatData(func(any) {})
				if d := time.Since(begin); p.best == 0 || d < p.best {
					p.best = d
				}
			}
		}
		for _, p := range ps {
			fmt.Printf("%-24s %-10s %8.2f ms\n", cs, p.name, p.best.Seconds()*1e3)
		}
	}
}

func loweringOf(g *Graph) models.Lowering {
	return g.Backend().(interface{ Lowering() models.Lowering }).Lowering()
}
