package xla

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"testing"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/gobackend"
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/model"

	"gaiden/lib/gradient"
	"gaiden/lib/lower"
	"gaiden/lib/models"
)

// attending is a case of attention, with numbers in place of nodes.
type attending struct {
	Queries, Keys, Heads, Groups int
	Size                         int // default: 3
	N                            int // default: 2
	Scale, SoftCap               float64
	Causal, ALiBi                bool
	Window                       int
	Offset, Lengths              []int32
	QuerySegments, KeySegments   [][]int32
	Y                            []float64
	Gradients                    [3][]float64
	dropout                      float64
	dtype                        dtypes.DType // default: float32
	valuesAreOneHot              bool
	kept                         []float64 // [n heads queries keys]: factors of the weights; nil: 1
}

func (c attending) String() string {
	c.Y, c.Gradients, c.kept = nil, [3][]float64{}, nil
	text, _ := json.Marshal(c)
	return string(text)
}

func (c *attending) defaults() {
	if c.Size == 0 {
		c.Size = 3
	}
	if c.N == 0 {
		c.N = 2
	}
	if c.dtype == dtypes.InvalidDType {
		c.dtype = dtypes.Float32
	}
}

// inputs are q, k, v and the gradient of the result.
func (c *attending) inputs() (l [4][]float64) {
	for i, step := range []float64{0.7, 0.3, 0.11, 0.9} {
		length, heads := c.Keys, c.Groups
		if i == 0 || i == 3 {
			length, heads = c.Queries, c.Heads
		}
		for k := range c.N * length * heads * c.Size {
			x := math.Sin(float64(k+1) * step)
			if i == 2 && c.valuesAreOneHot {
				x = 0
				if k%c.Size == k/c.Size/heads%length {
					x = 1
				}
			}
			l[i] = append(l[i], c.rounded(x))
		}
	}
	return l
}

func (c *attending) rounded(x float64) float64 {
	y := math.Float32bits(float32(x))
	if c.dtype == dtypes.BFloat16 {
		y = (y + 0x7fff + y>>16&1) &^ 0xffff
	}
	return float64(math.Float32frombits(y))
}

// want computes the result and the gradients in float64, one query after another.
func (c *attending) want() (y []float64, gradients [3][]float64) {
	in := c.inputs()
	q, k, v, u := in[0], in[1], in[2], in[3]
	y = make([]float64, len(q))
	for i := range gradients {
		gradients[i] = make([]float64, len(in[i]))
	}
	scale := c.Scale
	if scale == 0 {
		scale = 1 / math.Sqrt(float64(c.Size))
	}
	scores, slopes, weights := make([]float64, c.Keys), make([]float64, c.Keys), make([]float64, c.Keys)
	for n := range c.N {
		for h := range c.Heads {
			alibi := math.Exp2(-8 * float64(h+1) / float64(c.Heads)) // of a power of two
			for i := range c.Queries {
				row := func(x []float64) []float64 { return x[((n*c.Queries+i)*c.Heads+h)*c.Size:][:c.Size] }
				key := func(x []float64, j int) []float64 {
					return x[((n*c.Keys+j)*c.Groups+h/(c.Heads/c.Groups))*c.Size:][:c.Size]
				}
				position := i
				if c.Offset != nil {
					position += int(c.Offset[n%len(c.Offset)])
				}
				most, sum := math.Inf(-1), 0.0
				for j := range c.Keys {
					scores[j], slopes[j] = math.Inf(-1), scale
					far := max(position-j, j-position)
					if c.Causal && j > position || c.Window > 0 && far >= c.Window || c.Lengths != nil && j >= int(c.Lengths[n]) || c.QuerySegments != nil && c.QuerySegments[n][i] != c.KeySegments[n][j] {
						continue
					}
					s := scale * dot(row(q), key(k, j))
					if c.SoftCap > 0 {
						t := math.Tanh(s / c.SoftCap)
						s, slopes[j] = c.SoftCap*t, scale*(1-t*t)
					}
					if c.ALiBi {
						s -= alibi * float64(far)
					}
					scores[j] = s
					most = max(most, s)
				}
				for j, s := range scores {
					if weights[j] = 0; s > math.Inf(-1) {
						weights[j] = math.Exp(s - most)
						sum += weights[j]
					}
				}
				if sum == 0 {
					continue
				}
				kept := func(j int) float64 {
					if c.kept == nil {
						return 1
					}
					return c.kept[((n*c.Heads+h)*c.Queries+i)*c.Keys+j]
				}
				mean := 0.0
				for j := range weights {
					weights[j] /= sum
					add(row(y), weights[j]*kept(j), key(v, j))
					mean += weights[j] * kept(j) * dot(row(u), key(v, j))
				}
				for j, w := range weights {
					if w == 0 {
						continue
					}
					slope := slopes[j] * w * (kept(j)*dot(row(u), key(v, j)) - mean)
					add(row(gradients[0]), slope, key(k, j))
					add(key(gradients[1], j), slope, row(q))
					add(key(gradients[2], j), w*kept(j), row(u))
				}
			}
		}
	}
	return y, gradients
}

func dot(a, b []float64) (sum float64) {
	for i, x := range a {
		sum += x * b[i]
	}
	return sum
}

func add(to []float64, factor float64, x []float64) {
	for i := range to {
		to[i] += factor * x[i]
	}
}

// run computes the result and the gradients on a backend.
func (c *attending) run(t *testing.T, backend compute.Backend) (y []float64, gradients [3][]float64) {
	t.Helper()
	in := c.inputs()
	store := model.NewStore()
	if err := store.SetRNGStateFromSeed(3); err != nil {
		t.Fatal(err)
	}
	exec, err := model.NewExec(backend, store, func(scope *model.Scope, g *Graph) []*Node {
		store.SetTraining(g, true)
		array := func(i, length, heads int) *Node {
			flat := make([]float32, len(in[i]))
			for k, x := range in[i] {
				flat[k] = float32(x)
			}
			return ConvertDType(ConstTensor(g, tensors.FromFlatDataAndDimensions(flat, c.N, length, heads, c.Size)), c.dtype)
		}
		numbers := func(l []int32, scalar bool) *Node {
			switch {
			case l == nil:
				return nil
			case len(l) == 1 && scalar:
				return Const(g, l[0])
			}
			return Const(g, l)
		}
		a := models.Attending{Scale: c.Scale, SoftCap: c.SoftCap, Causal: c.Causal, ALiBi: c.ALiBi, Window: c.Window, Offset: numbers(c.Offset, true), Lengths: numbers(c.Lengths, false), Dropout: c.dropout, Scope: scope}
		if c.QuerySegments != nil {
			a.QuerySegments, a.KeySegments = Const(g, c.QuerySegments), Const(g, c.KeySegments)
		}
		q, k, v := array(0, c.Queries, c.Heads), array(1, c.Keys, c.Groups), array(2, c.Keys, c.Groups)
		var y *Node
		if l, is := g.Backend().(interface{ Lowering() models.Lowering }); is {
			y = l.Lowering().Attend(q, k, v, a)
		} else {
			y = models.Attend(q, k, v, a)
		}
		out := append([]*Node{y}, gradient.Final(ReduceAllSum(Mul(y, array(3, c.Queries, c.Heads))), q, k, v)...)
		for i, x := range out {
			out[i] = ConvertDType(x, dtypes.Float32)
		}
		return out
	})
	if err != nil {
		t.Fatal(err)
	}
	out, err := exec.Call()
	if err != nil {
		t.Fatalf("%s: %v", c, err)
	}
	for i, x := range out {
		var l []float64
		x.ConstFlatData(func(flat any) {
			for _, v := range flat.([]float32) {
				l = append(l, float64(v))
			}
		})
		if i == 0 {
			y = l
		} else {
			gradients[i-1] = l
		}
	}
	return y, gradients
}

// near holds numbers to others, within a share of the largest.
func near(t *testing.T, what string, got, want []float64, share float64) {
	t.Helper()
	largest, off := 0.0, 0.0
	for i := range min(len(got), len(want)) {
		largest = max(largest, math.Abs(want[i]))
		if d := math.Abs(got[i] - want[i]); !(d <= off) && off == off { // a NaN stays
			off = d
		}
	}
	if len(got) != len(want) || !(off <= share*max(1, largest)) {
		t.Errorf("%s has %d numbers, off by %g: want %d, of at most %g", what, len(got), off, len(want), largest)
	}
}

func (c *attending) compare(t *testing.T, name string, y []float64, gradients [3][]float64, wantY []float64, want [3][]float64, share float64) {
	t.Helper()
	near(t, fmt.Sprintf("%s, %s: the result", name, c), y, wantY, share)
	for i, of := range []string{"queries", "keys", "values"} {
		near(t, fmt.Sprintf("%s, %s: the gradient for %s", name, c, of), gradients[i], want[i], share)
	}
}

// inBlocks is a lowering of attention by blocks of so many queries and keys.
func inBlocks(backend compute.Backend, queries, keys int) compute.Backend {
	return lowered{backend, Lowering{Target: lower.Target{Platform: "cpu"}, Options: lower.Options{Attention: lower.AttentionChoice{Form: lower.BlockwiseAttention, Queries: queries, Keys: keys}}}}
}

// TestAttend holds attention, plain and by blocks, and this test's own float64, to PyTorch's.
func TestAttend(t *testing.T) {
	t.Parallel()
	backend := cpu(t)
	interpreter, err := gobackend.New("") // compiles nothing
	if err != nil {
		t.Fatal(err)
	}
	raw, err := os.ReadFile("testdata/attend.json")
	if err != nil {
		t.Fatal(err)
	}
	var cases []attending
	if err := json.Unmarshal(raw, &cases); err != nil {
		t.Fatal(err)
	}
	for i, c := range cases {
		c.defaults()
		if c.Heads != 6 && c.Heads != 3 || !c.ALiBi {
			y, gradients := c.want()
			c.compare(t, "float64", y, gradients, c.Y, c.Gradients, 1e-7)
		}
		y, gradients := c.run(t, interpreter)
		c.compare(t, "plain", y, gradients, c.Y, c.Gradients, 1e-5)
		block := [][2]int{{2, 3}, {3, 2}, {2, 2}, {8, 8}}[i%4]
		y, gradients = c.run(t, inBlocks(backend, block[0], block[1]))
		c.compare(t, fmt.Sprint("blocks of ", block), y, gradients, c.Y, c.Gradients, 1e-5)
	}
}

// TestAttendLengths holds attention by blocks to float64, at odd lengths up to thousands, in
// float32 and bfloat16.
func TestAttendLengths(t *testing.T) {
	t.Parallel()
	backend := cpu(t)
	chosen := lowered{backend, Lowering{Target: lower.Target{Platform: "cpu"}, Options: lower.Options{Attention: lower.AttentionChoice{Form: lower.BlockwiseAttention}}}}
	for _, c := range []attending{
		{Queries: 1, Keys: 1, Heads: 1, Groups: 1, Causal: true},
		{Queries: 63, Keys: 63, Heads: 4, Groups: 2, Causal: true, dtype: dtypes.BFloat16},
		{Queries: 257, Keys: 257, Heads: 2, Groups: 1, Causal: true, Window: 65, Lengths: []int32{257, 99}, ALiBi: true},
		{Queries: 300, Keys: 129, Heads: 2, Groups: 2, Lengths: []int32{129, 0}, dtype: dtypes.BFloat16},
		{Queries: 1, Keys: 1025, Heads: 8, Groups: 2, Size: 16, Causal: true, Offset: []int32{700, 1024}},
		{Queries: 777, Keys: 1023, Heads: 1, Groups: 1, Causal: true, Offset: []int32{246}, SoftCap: 2},
		{N: 1, Queries: 4096, Keys: 4096, Heads: 1, Groups: 1, Causal: true},
		{N: 1, Queries: 4095, Keys: 4095, Heads: 2, Groups: 1, Window: 512, dtype: dtypes.BFloat16},
	} {
		c.defaults()
		want, wantGradients := c.want()
		share := 1e-5
		if c.dtype == dtypes.BFloat16 {
			share = 1.0 / 256 // results are rounded to 8 bits
		}
		y, gradients := c.run(t, chosen)
		c.compare(t, "chosen blocks", y, gradients, want, wantGradients, share)
	}
}

// strict are calls of attention that want a key for each example and no more than there are, as
// cuDNN's do: else their results are NaN.
type strict struct{ Calls }

func (strict) checked(x *Node, keys int, lengths []*Node) *Node {
	wrong := LogicalOr(LessThan(lengths[1], OnesLike(lengths[1])), GreaterThan(lengths[1], AddScalar(ZerosLike(lengths[1]), float64(keys))))
	d := x.Shape().Dimensions
	return Where(BroadcastToDims(Reshape(wrong, d[0], 1, 1, 1), d...), FillScalar(x.Graph(), x.Shape(), math.NaN()), x)
}

func (c strict) Attention(f Flash, q, k, v *Node, lengths ...*Node) (y, statistics *Node) {
	y = models.Attend(StopGradient(q), StopGradient(k), StopGradient(v), models.Attending{Scale: f.Scale, Causal: f.Causal, Window: f.Window, Lengths: lengths[1]})
	return c.checked(y, k.Shape().Dimensions[1], lengths), nil
}

func (c strict) AttentionGradient(f Flash, q, k, v, _, dy, y *Node, lengths ...*Node) []*Node {
	in := []*Node{Identity(StopGradient(q)), Identity(StopGradient(k)), Identity(StopGradient(v))}
	again := models.Attend(in[0], in[1], in[2], models.Attending{Scale: f.Scale, Causal: f.Causal, Window: f.Window, Lengths: lengths[1]})
	l := gradient.Final(ReduceAllSum(Mul(again, StopGradient(dy))), in...)
	for i, x := range l {
		l[i] = c.checked(x, k.Shape().Dimensions[1], lengths)
	}
	return l
}

// TestAttendNoKeys holds that examples of no keys, or of more than there are, are no lengths
// for cuDNN: the result and the gradients of such an example are zeros, as they are elsewhere.
func TestAttendNoKeys(t *testing.T) {
	t.Parallel()
	backend := cpu(t)
	flash := lowered{backend, Lowering{Target: lower.Target{Platform: "cuda", CuDNN: true}, Calls: strict{}, Options: lower.Options{Attention: lower.AttentionChoice{Form: lower.CuDNNAttention}}}}
	for _, c := range []attending{
		{N: 3, Queries: 4, Keys: 5, Heads: 2, Groups: 1, Size: 8, Lengths: []int32{3, 0, 5}, dtype: dtypes.BFloat16},
		{N: 3, Queries: 4, Keys: 4, Heads: 2, Groups: 2, Size: 8, Causal: true, Lengths: []int32{0, 9, -1}, dtype: dtypes.BFloat16},
	} {
		c.defaults()
		want, wantGradients := c.want()
		y, gradients := c.run(t, flash)
		c.compare(t, "cuDNN's", y, gradients, want, wantGradients, 1.0/128)
		plain, plainGradients := c.run(t, backend)
		c.compare(t, "plain", plain, plainGradients, want, wantGradients, 1.0/128)
		for i, x := range y {
			if row := len(y) / c.N; c.Lengths[i/row] <= 0 && x != 0 {
				t.Fatalf("%s: number %d is %g, want 0", &c, i, x)
			}
		}
	}
}

// TestAttendDropout holds that dropout zeroes as large a share of the weights as it says,
// scales the others, and has the same mask on the backward pass.
func TestAttendDropout(t *testing.T) {
	t.Parallel()
	backend := cpu(t)
	for name, backend := range map[string]compute.Backend{"plain": backend, "in blocks": inBlocks(backend, 16, 24)} {
		c := attending{N: 3, Queries: 50, Keys: 64, Heads: 4, Groups: 2, Size: 64, Causal: true, Offset: []int32{9}}
		c.valuesAreOneHot = true // so the result is the weights
		c.defaults()
		weights, _ := c.want()
		c.dropout = 0.3
		y, gradients := c.run(t, backend)
		c.kept = make([]float64, c.N*c.Heads*c.Queries*c.Keys)
		zeros, all := 0, 0
		for i, w := range weights {
			n, q, h, k := i/(c.Queries*c.Heads*c.Size), i/(c.Heads*c.Size)%c.Queries, i/c.Size%c.Heads, i%c.Size
			if w == 0 {
				continue
			}
			all++
			if y[i] == 0 {
				zeros++
			} else {
				c.kept[((n*c.Heads+h)*c.Queries+q)*c.Keys+k] = 1 / 0.7
			}
		}
		if share := float64(zeros) / float64(all); math.Abs(share-0.3) > 0.02 {
			t.Errorf("%s: %.3f of %d weights are zeros: want 0.3", name, share, all)
		}
		want, wantGradients := c.want()
		c.compare(t, name, y, gradients, want, wantGradients, 1e-5)
	}
}
