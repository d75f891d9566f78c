package fit

import (
	"encoding/json"
	"math"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/gomlx/gomlx/core/graph"

	"gaiden/lib/engine/hlo"
	"gaiden/lib/engine/pjrt"
	"gaiden/lib/fit/step"
	"gaiden/lib/losses"
	"gaiden/lib/lower"
	"gaiden/lib/lower/plan"
	"gaiden/lib/metrics"
	"gaiden/lib/models"
	"gaiden/lib/optim"
)

// words is a small language model with some last layer.
func words(vocab, units, length int, head models.Layer) models.Net {
	return models.Net{Name: "words", Input: []int{length}, Layers: []models.Layer{
		models.Embedding{Name: "tokens", Vocab: vocab, Units: units}, models.Dense{Name: "body", Units: units, Act: graph.Tanh}, head}}
}

// batchOf is the first examples of a set.
func batchOf(set string, n int) step.Batch {
	b := step.Batch{Data: set}
	for i := range n {
		b.Examples = append(b.Examples, int32(i))
	}
	return b
}

// TestHead holds loss and gradients of language models to PyTorch's, with all logits at once
// and in pieces, with weights of their own and those of the table.
func TestHead(t *testing.T) {
	t.Parallel()
	s := open(t)
	raw, err := os.ReadFile("testdata/head.json")
	if err != nil {
		t.Fatal(err)
	}
	var want map[string]struct {
		Loss      float64
		Gradients map[string][]float64
	}
	if err := json.Unmarshal(raw, &want); err != nil {
		t.Fatal(err)
	}
	var x, labels, ignored []int32
	var classes []float64
	for k := range int32(15) {
		x, labels, ignored = append(x, (k*k+k)%11), append(labels, (k*k+2)%11), append(ignored, (k*k+2)%11)
		if k%7 == 0 {
			ignored[k] = -100
		}
	}
	for i := range 11 {
		classes = append(classes, 1+0.1*float64(i))
	}
	for name, loss := range map[string]losses.CrossEntropy{"plain": {}, "tied": {}, "tied, smoothing": {Smoothing: 0.1}, "ignored": {IgnoreNegative: true},
		"tied, ignored, weights": {IgnoreNegative: true, ClassWeights: classes, Smoothing: 0.2}} {
		var head models.Layer = models.Dense{Name: "head", Units: 11}
		if strings.HasPrefix(name, "tied") {
			head = models.Tied{Name: "head", Of: "tokens", Biases: true}
		}
		y := labels
		if loss.IgnoreNegative {
			y = ignored
		}
		for _, bytes := range []int64{0, 4 * 11 * 4} { // 4 rows a piece, of 15
			n := attach(t, s, "head", words(11, 6, 5, head), Config{Loss: loss, FirstLook: true})
			n.options.LogitsBytes = bytes
			var weights []Tensor
			var names []string
			for _, i := range n.layout.trained {
				names = append(names, n.layout.variables[i].name)
			}
			slices.Sort(names)
			for i, name := range names {
				v := n.layout.variables[slices.IndexFunc(n.layout.variables, func(v slot) bool { return v.name == name })]
				w := Tensor{Name: name, Dims: v.shape.Dimensions}
				for k := range v.shape.Size() {
					w.Data = append(w.Data, float32(math.Sin(float64(k+1)*(0.3+float64(i)/10))/2))
				}
				weights = append(weights, w)
			}
			if err := n.SetWeights(weights); err != nil {
				t.Fatal(err)
			}
			load(t, n, "text", Data{X: x, Y: y})
			g := n.Gradients(batchOf("text", 3))
			if got, err := g.Loss(); err != nil || math.Abs(got-want[name].Loss) > 1e-6 {
				t.Errorf("%s, %d bytes: loss %v, %v: want %v", name, bytes, got, err, want[name].Loss)
			}
			if len(names) != len(want[name].Gradients) {
				t.Errorf("%s: weights %q: want %d", name, names, len(want[name].Gradients))
			}
			for of, want := range want[name].Gradients {
				got, err := g.Values(of)
				if err != nil {
					t.Fatal(err)
				}
				for i, x := range want {
					if math.Abs(float64(got[i])-x) > 1e-6 {
						t.Errorf("%s, %d bytes: gradient for %s, number %d: %v, want %v", name, bytes, of, i, got[i], x)
						break
					}
				}
			}
			if err := n.Reset(); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// TestHeadInPieces holds that training and tests are the same with all logits at once as in
// pieces: with weights of examples and of positions, metrics, bfloat16, accumulation, and rows
// that fill no piece.
func TestHeadInPieces(t *testing.T) {
	t.Parallel()
	s := open(t)
	const vocab, length, examples = 13, 4, 21
	x, y := text(examples, length, vocab)
	perExample, perPosition := make([]float32, examples), make([]float32, examples*length)
	for i := range perPosition {
		perPosition[i] = float32(i % 3)
		perExample[i/length] = 1 + float32(i/length%2)
	}
	for name, tt := range map[string]struct {
		config     Config
		v          []float32
		accumulate int
		head       models.Layer
		share      float64
		lora       models.LoRA
	}{
		"weights of examples":  {head: models.Dense{Name: "head", Units: vocab, NoBias: true}, v: perExample, config: Config{Metrics: []metrics.Metric{metrics.TopK{K: 3}}}},
		"weights of positions": {head: models.Tied{Name: "head", Of: "tokens"}, v: perPosition, accumulate: 7},
		"LoRA":                 {head: models.Dense{Name: "head", Units: vocab}, lora: models.LoRA{Rank: 2, Names: []string{"head"}}},
		"focal":                {head: models.Dense{Name: "head", Units: vocab}, v: perPosition, config: Config{Loss: losses.CrossEntropy{Gamma: 2, Smoothing: 0.1}}},
		"bfloat16":             {head: models.Tied{Name: "head", Of: "tokens", Biases: true}, config: Config{BF16: true, Metrics: []metrics.Metric{metrics.F1{}}}, share: 0.02},
	} {
		var scores [2]*Score
		var losses [2][]float32
		var weights [2]map[string][]float32
		for k, bytes := range []int64{1 << 40, 4 * vocab * 9} {
			tt.config.Seed, tt.config.Optimizer, tt.config.FirstLook = 4, optim.SGD{LearningRate: 0.1}, true
			net := words(vocab, 6, length, tt.head)
			net.LoRA = tt.lora
			n := attach(t, s, "pieces", net, tt.config)
			n.options.LogitsBytes = bytes
			set := load(t, n, "text", Data{X: x, Y: y, V: tt.v})
			h, err := n.Fit(set, Train{Epochs: 3, Batch: 7, InOrder: true, Accumulate: tt.accumulate})
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			if scores[k], err = n.Evaluate(set); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			scores[k].Elapsed = 0
			losses[k], weights[k] = h.Losses, weightsOf(t, n)
			p, err := n.Plan(set, Train{Epochs: 1, Batch: 7})
			if err != nil || strings.Contains(p.String(), "in 4 pieces of the rows") != (k == 1 && tt.lora.Rank == 0) {
				t.Errorf("%s: plan %v, %v: want pieces %t", name, p, err, k == 1)
			}
			if err := n.Reset(); err != nil {
				t.Fatal(err)
			}
		}
		share := max(tt.share, 1e-5)
		for i := range losses[0] {
			if d := math.Abs(float64(losses[0][i] - losses[1][i])); !(d <= share) {
				t.Errorf("%s: loss %d is %v in pieces, %v at once", name, i, losses[1][i], losses[0][i])
			}
		}
		for of, w := range weights[0] {
			for i, x := range w {
				if d := math.Abs(float64(x - weights[1][of][i])); !(d <= share) {
					t.Errorf("%s: %s number %d is %v in pieces, %v at once", name, of, i, weights[1][of][i], x)
					break
				}
			}
		}
		a, b := *scores[0], *scores[1]
		if off := math.Abs(a.Loss - b.Loss); off > share || a.N != b.N || tt.share == 0 && a.Right != b.Right || len(a.Metrics) != len(b.Metrics) {
			t.Errorf("%s: a test has %+v in pieces, %+v at once", name, b, a)
		}
		for i, m := range a.Metrics {
			if math.Abs(m.Value-b.Metrics[i].Value) > max(10*tt.share, 1e-6) {
				t.Errorf("%s: metric %v in pieces, %v at once", name, b.Metrics[i], m)
			}
		}
	}
}

// TestHeadMemory holds that the programs of training and of a test need less memory than all
// logits where they are in pieces, and says why the plan has them.
func TestHeadMemory(t *testing.T) {
	t.Parallel()
	s := open(t)
	client := compiler(t)
	const vocab, length, batch, units = 20000, 64, 64, 8
	x, y := text(batch, length, vocab)
	n := attach(t, s, "memory", words(vocab, units, length, models.Tied{Name: "head", Of: "tokens"}), Config{Seed: 1, Optimizer: optim.SGD{}})
	set := load(t, n, "text", Data{X: x, Y: y})
	p, err := n.Plan(set, Train{Epochs: 1, Batch: batch})
	if err != nil || !strings.Contains(p.String(), "cross entropy    in 5 pieces of the rows, with their gradients: logits of 4096 rows × 20000 classes, 312 MiB, are never in memory together") {
		t.Errorf("plan %v, %v: want 5 pieces", p, err)
	}
	var temporary [2][2]int64
	for k, bytes := range []int64{1 << 40, 0} {
		n.options.LogitsBytes = bytes
		for i, write := range []func() ([]byte, error){
			func() ([]byte, error) {
				p, err := n.epochProgram(set, plan.Steps(n.target, false, batch, 1))
				return p.Text(nil), err
			},
			func() ([]byte, error) { p, err := n.testProgram(set, batch, 1, true); return p.Text(nil), err },
		} {
			text, err := write()
			if err != nil {
				t.Fatal(err)
			}
			exe, err := client.Compile(text, pjrt.CompileOptions{})
			if err != nil {
				t.Fatal(err)
			}
			m, err := exe.MemoryStats()
			if err != nil {
				t.Fatal(err)
			}
			temporary[k][i] = m.Temporary
		}
	}
	const logits = 4 * vocab * length * batch
	for i, what := range []string{"a step", "a test"} {
		if all, pieces := temporary[0][i], temporary[1][i]; all < logits || pieces > logits*3/5 {
			t.Errorf("%s takes %d MiB with all logits, %d MiB in pieces: want more than the %d MiB of the logits, and less than 60 %% of them", what, all>>20, pieces>>20, logits>>20)
		} else {
			t.Logf("%s takes %d MiB with all logits, %d MiB in pieces", what, all>>20, pieces>>20)
		}
	}
}

// TestHeadKernel holds that a GPU computes the losses of many classes and their gradients by one
// kernel, in bfloat16 as it has the logits, and neither with another loss than the plain one.
func TestHeadKernel(t *testing.T) {
	t.Parallel()
	s := open(t)
	const vocab = 1500
	x, y := text(4, 6, vocab)
	for name, tt := range map[string]struct {
		loss  losses.CrossEntropy
		calls int
	}{"plain": {losses.CrossEntropy{}, 1}, "smoothing": {losses.CrossEntropy{Smoothing: 0.1}, 0}} {
		n := attach(t, s, "headkernel", words(vocab, 8, 6, models.Dense{Name: "head", Units: vocab}), Config{Loss: tt.loss, BF16: true})
		set := load(t, n, "headkernel", Data{X: x, Y: y})
		n.options.LogitsBytes = 1 << 30 // all in one piece
		n.target = played("cuda", "9.0")
		p, err := n.epochProgram(set, plan.Steps(n.target, false, 4, 1))
		if err != nil {
			t.Fatal(err)
		}
		text := string(p.Text(nil))
		if got := strings.Count(text, `name = "cross_entropy_gradient`); got != tt.calls || strings.Count(text, `name = "cross_entropy`) != tt.calls {
			t.Errorf("%s: %d calls: want %d", name, got, tt.calls)
		}
		if n.target = lower.TargetOf(s.Welcome()); n.Reset() != nil {
			t.Fatal("no reset")
		}
	}
}

// TestActivationKernel holds that a GPU adds biases to a large layer in 16 bits and applies its
// activation by one kernel each way, and that what it computes backward is used; that it does not
// so for small layers, other functions and float32.
func TestActivationKernel(t *testing.T) {
	t.Parallel()
	s := open(t)
	for name, tt := range map[string]struct {
		units int
		act   models.Act
		bf16  bool
		calls int
	}{
		"GELU": {1 << 17, models.GELU, true, 1}, "ReLU": {1 << 17, models.ReLU, true, 1}, "small": {64, models.GELU, true, 0}, "float32": {1 << 17, models.GELU, false, 0},
		"another function": {1 << 17, func(x *graph.Node) *graph.Node { return graph.Square(x) }, true, 0},
	} {
		net := models.Net{Name: "net", Input: []int{2}, Layers: []models.Layer{models.Dense{Name: "a", Units: 3}, models.Dense{Name: "b", Units: tt.units, Act: tt.act}, models.Dense{Name: "c", Units: 2}}}
		n := attach(t, s, "activation", net, Config{BF16: tt.bf16, Loss: losses.MSE{}})
		set := load(t, n, "activation", Data{X: make([]float32, 16), Y: make([]float32, 16)})
		n.target = played("cuda", "9.0")
		p, err := n.epochProgram(set, plan.Steps(n.target, false, 8, 1))
		if err != nil {
			t.Fatal(name, err)
		}
		text := string(p.Text(nil))
		if got := strings.Count(text, `name = "activation"`); got != tt.calls {
			t.Errorf("%s: %d calls forward: want %d", name, got, tt.calls)
		}
		back := regexp.MustCompile(`(?m)^ *(%\w+):2 = .*name = "activation_gradient"`).FindAllStringSubmatch(text, -1)
		if len(back) != tt.calls {
			t.Errorf("%s: %d calls backward: want %d", name, len(back), tt.calls)
		}
		for _, call := range back {
			if strings.Count(text, call[1]+"#0") == 0 || strings.Count(text, call[1]+"#1") == 0 {
				t.Errorf("%s: nothing reads the gradients of the input and the biases", name)
			}
		}
		if n.target = lower.TargetOf(s.Welcome()); n.Reset() != nil {
			t.Fatal("no reset")
		}
	}
}

// TestNormKernels holds that a GPU normalizes the sums of residual layers by kernels that add up,
// forward and backward, and that what they compute is used.
func TestNormKernels(t *testing.T) {
	t.Parallel()
	s := open(t)
	const vocab, width = 7, 16
	x, y := text(4, 6, vocab)
	block := models.TransformerBlock{Heads: 2, Causal: true}
	bare := []models.Layer{models.RMSNorm{Name: "norm"}, models.Dense{Name: "a", Units: width}}
	for name, tt := range map[string]struct {
		layers []models.Layer
		kernel string
		sums   int // norms with a sum, and all
		all    int
	}{
		"blocks":     {[]models.Layer{models.Repeat{Name: "block", Times: 2, Layer: block}, models.LayerNorm{Name: "norm"}}, "layer_norm", 4, 5},
		"residual":   {[]models.Layer{models.Residual{Name: "r", Main: bare}, models.Residual{Name: "s", Main: bare}}, "rms_norm", 1, 2},
		"post-norm":  {[]models.Layer{models.Residual{Name: "r", Main: bare[1:]}, models.LayerNorm{Name: "norm"}}, "layer_norm", 1, 1},
		"activation": {[]models.Layer{models.Residual{Name: "r", Main: bare[1:], Act: models.ReLU}, models.LayerNorm{Name: "norm"}}, "layer_norm", 0, 1},
	} {
		layers := append(append([]models.Layer{models.Embedding{Name: "tokens", Vocab: vocab, Units: width}}, tt.layers...), models.Dense{Name: "head", Units: vocab})
		n := attach(t, s, "norms", models.Net{Name: "net", Input: []int{6}, Layers: layers}, Config{BF16: true})
		set := load(t, n, "norms", Data{X: x, Y: y})
		n.target = played("cuda", "9.0")
		p, err := n.epochProgram(set, plan.Steps(n.target, false, 4, 1))
		if err != nil {
			t.Fatal(name, err)
		}
		text := string(p.Text(nil))
		calls := func(pattern string) (got []string) {
			for _, m := range regexp.MustCompile(`(?m)^ *(%\w+)`+pattern).FindAllStringSubmatch(text, -1) {
				got = append(got, m[1])
			}
			return got
		}
		sums, back := calls(`:2 = .*name = "`+tt.kernel+`"`), calls(`:2 = .*name = "`+tt.kernel+`_gradient"`)
		if all := len(sums) + len(calls(` = .*name = "`+tt.kernel+`"`)); len(sums) != tt.sums || all != tt.all || len(back) != tt.all {
			t.Errorf("%s: got %d norms, %d of sums, and %d gradients: want %d, %d and %d", name, all, len(sums), len(back), tt.all, tt.sums, tt.all)
		}
		for _, call := range append(sums, back...) {
			if call != "" && (strings.Count(text, call+"#0") == 0 || strings.Count(text, call+"#1") == 0) {
				t.Errorf("%s: nothing reads a result of %s", name, call)
			}
		}
		if n.target = lower.TargetOf(s.Welcome()); n.Reset() != nil {
			t.Fatal("no reset")
		}
	}
}

// TestPackedGraphs holds that the programs which pack a large state are launched one by one, and loops of
// steps as CUDA graphs, even if a state of many arrays is not packed.
func TestPackedGraphs(t *testing.T) {
	t.Parallel()
	s := open(t)
	x, y := text(40, 6, 7)
	n := attach(t, s, "graphs", models.Net{Name: "net", Input: []int{6}, Layers: []models.Layer{models.Embedding{Name: "tokens", Vocab: 7, Units: 4},
		models.Repeat{Name: "block", Times: 4, Layer: models.TransformerBlock{Heads: 2}}, models.Dense{Name: "head", Units: 7}}}, Config{})
	set := load(t, n, "graphs", Data{X: x, Y: y})
	n.target = played("cuda", "9.0")
	for name, write := range map[string]func() (*hlo.Program, error){
		"pack": n.packProgram, "unpack": n.unpackProgram,
		"loop": func() (*hlo.Program, error) { return n.epochProgram(set, plan.Steps(n.target, true, 4, 10)) },
	} {
		p, err := write()
		if err != nil {
			t.Fatal(err)
		}
		if arrays := max(len(p.Inputs), len(p.Outputs)); arrays < lower.PackedArrays {
			t.Fatalf("%s has %d arrays", name, arrays)
		}
		if flags, none := plan.Flags(n.target, p, false, false), name != "loop"; (flags["xla_gpu_enable_command_buffer"] == "") != none || p.Has("while") == none {
			t.Errorf("%s: got flags %v", name, flags)
		}
	}
	if n.target = lower.TargetOf(s.Welcome()); n.Reset() != nil {
		t.Fatal("no reset")
	}
}
