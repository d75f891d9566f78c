package export

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/gobackend"
	"github.com/gomlx/compute/notimplemented"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/ml/model"

	"gaiden/lib/engine/hlo"
	"gaiden/lib/models"
	"gaiden/lib/portable"
	"gaiden/lib/portable/record"
)

// onnxNets are members of the families that a net is built of.
var onnxNets = map[string]models.Net{
	"pools": {Input: []int{8, 8, 3}, Layers: []models.Layer{models.AvgPool2D{Window: 2}, models.MaxPool2D{Window: 3, Stride: 1, Pad: 1}, models.Upsample2D{Factor: 2},
		models.Residual{Main: []models.Layer{models.Conv2D{Name: "c", Channels: 3, Kernel: 1}}}, models.GlobalAvgPool{}}},
	"grouped": {Input: []int{6, 6, 4}, Layers: []models.Layer{models.DepthwiseConv2D{Kernel: 3}, models.GroupNorm{Groups: 2}, models.ConvTranspose2D{Channels: 2, Kernel: 3, Stride: 2}, models.GlobalMaxPool{}}},
	"function": {Input: []int{4}, Function: func(scope *model.Scope, in models.Inputs) *Node {
		x := models.Call(scope, models.Dense{Name: "a", Units: 6}, in["x"])
		g := x.Graph()
		x = Where(GreaterThan(x, ZerosLike(x)), Clip(x, Const(g, float32(-1)), Const(g, float32(0.5))), MulScalar(x, 0.1))
		two := Const(g, float32(2))
		cond := NewClosure(g, func(g *Graph) []*Node {
			i, _ := Parameter(g, "i", shapes.Make(dtypes.Int32)), Parameter(g, "x", x.Shape())
			return []*Node{LessThan(i, Const(g, int32(3)))}
		})
		body := NewClosure(g, func(g *Graph) []*Node {
			i, y := Parameter(g, "i", shapes.Make(dtypes.Int32)), Parameter(g, "x", x.Shape())
			return []*Node{AddScalar(i, 1), Tanh(Mul(y, two))}
		})
		x = While(cond, body, Const(g, int32(0)), x)[1]
		part := DynamicSlice(x, []*Node{Const(g, int32(0)), Const(g, int32(9))}, []int{x.Shape().Dimensions[0], 4})
		y := Einsum("nk,mk->nm", part, part) // all examples with each other
		best := ConvertDType(ArgMax(x, 1, dtypes.Int32), dtypes.Float32)
		return Concatenate([]*Node{Reverse(x, 1), InsertAxes(best, 1), InsertAxes(ReduceMax(y, 1), 1), Mod(Abs(part), Const(g, float32(0.3)))}, 1)
	}},
	"dense": {Input: []int{6}, LoRA: models.LoRA{Rank: 2, Names: []string{"*"}}, Layers: []models.Layer{models.Dense{Name: "a", Units: 7, Act: models.GELU}, models.PReLU{Name: "p"},
		models.Dense{Name: "b", Units: 4, Act: models.SiLU}, models.SoftCap{Limit: 3}, models.LayerNorm{Name: "n"}, models.SpectralNorm{Name: "s", Layer: models.Dense{Units: 3}}}},
	"int8": {Input: []int{6}, Int8: []string{"a"}, Layers: []models.Layer{models.Dense{Name: "a", Units: 7}, models.Dense{Name: "b", Units: 2}}},
	"conv": {Input: []int{9, 8, 2}, Layers: []models.Layer{models.Normalize{Mean: []float64{0.1, 0.2}, Deviation: []float64{0.5, 2}}, models.RandomFlip{}, models.RandomCrop{Pad: 1}, models.Cutout{Size: 2}, models.MixUp{},
		models.Conv2D{Channels: 4, Kernel: 3, Act: models.ReLU}, models.BatchNorm{Act: models.ELU}, models.MaxPool2D{Window: 2}, models.Flatten{}, models.Dropout{Rate: 0.5}, models.Dense{Units: 3}}},
	"unet": {Input: []int{8, 8, 3}, Layers: []models.Layer{models.DepthwiseConv2D{Kernel: 3, Same: true}, models.GroupNorm{Groups: 3}, models.Concat{Branches: [][]models.Layer{
		{models.AvgPool2D{Window: 2}, models.ConvTranspose2D{Name: "up", Channels: 2, Kernel: 3, Stride: 2, Pad: 0}, models.Conv2D{Name: "cut", Channels: 2, Kernel: 2}}, {models.Conv2D{Name: "flat", Channels: 3, Kernel: 1}}}},
		models.Residual{Main: []models.Layer{models.Conv2D{Name: "same", Channels: 5, Kernel: 1}}, Act: models.ReLU}, models.Upsample2D{Factor: 2}, models.InstanceNorm{}, models.GlobalAvgPool{}}},
	"conv1d":    {Input: []int{12, 3}, Layers: []models.Layer{models.Conv1D{Channels: 4, Kernel: 3, Causal: true, Dilation: 2}, models.MaxPool1D{Window: 3, Stride: 2, Pad: 1}, models.AvgPool1D{Window: 2}, models.GlobalMaxPool{}, models.Dense{Units: 2}}},
	"conv3d":    {Input: []int{4, 6, 5, 2}, Layers: []models.Layer{models.Conv3D{Channels: 3, Kernel: 3, Same: true}, models.MaxPool3D{Window: 2}, models.Flatten{}, models.Dense{Units: 2}}},
	"recurrent": {Input: []int{5, 3}, Layers: []models.Layer{models.LSTM{Units: 4}, models.Bidirectional{Layer: models.GRU{Units: 3}}, models.RNN{Units: 3}, models.LastStep{}, models.Dense{Units: 2}}},
	"scan": {Input: []int{5, 3}, Layers: []models.Layer{models.Scan{State: [][]int{{4}}, Cell: func(scope *model.Scope, state []*Node, x *Node) ([]*Node, *Node) {
		h := Tanh(Add(models.Call(scope, models.Dense{Name: "h", Units: 4}, state[0]), models.Call(scope, models.Dense{Name: "x", Units: 4}, x)))
		return []*Node{h}, Concatenate([]*Node{h, x}, 1)
	}}, models.Flatten{}, models.Dense{Units: 2}}},
	"masked": {Input: []int{5}, Layers: []models.Layer{models.Embedding{Vocab: 4, Units: 4, MaskZero: true}, models.Bidirectional{Layer: models.LSTM{Units: 3}}, models.GlobalAvgPool{}, models.Dense{Units: 2}}},
	"gpt": {Input: []int{6}, Layers: []models.Layer{models.Embedding{Name: "tokens", Vocab: 11, Units: 8}, models.Positions{Length: 6},
		models.Repeat{Name: "blocks", Times: 2, Layer: models.TransformerBlock{Heads: 2, Causal: true}}, models.LayerNorm{}, models.Tied{Of: "tokens", Biases: true}}},
	"llama": {Input: []int{6}, Layers: []models.Layer{models.Embedding{Vocab: 11, Units: 8}, models.TransformerBlock{Heads: 4, KVHeads: 2, Causal: true, Window: 3, RMSNorm: true, RoPE: 10000, Gated: true, NoBias: true, Act: models.SiLU},
		models.RMSNorm{}, models.Attention{Heads: 2, Causal: true, ALiBi: true, SoftCap: 20}, models.Dense{Units: 11}}},
	"vit": {Input: []int{8, 8, 1}, Layers: []models.Layer{models.Conv2D{Channels: 6, Kernel: 4, Stride: 4}, models.Unflatten{Dims: []int{4, 6}}, models.ClassToken{Name: "class"}, models.SinusoidalPositions{}, models.TransformerBlock{Heads: 3}, models.FirstStep{}, models.Dense{Units: 3}}},
	"joint": {Inputs: []models.Input{{Name: "ids", Dims: []int{3}, Integers: true, Vocab: 5}, {Name: "z", Dims: []int{2}}}, Function: func(scope *model.Scope, in models.Inputs) *Node {
		a := models.Call(scope, models.Embedding{Name: "words", Vocab: 5, Units: 4}, in["ids"])
		return Concatenate([]*Node{models.Call(scope, models.Dense{Name: "d", Units: 4}, ReduceSum(a, 1)), in["z"]}, 1)
	}},
	"lenet5": models.LeNet5(),
}

// layoutOnly writes programs, to find out a net's variables.
type layoutOnly struct{ notimplemented.Backend }

func (*layoutOnly) Name() string                        { return "layout" }
func (*layoutOnly) String() string                      { return "layout" }
func (*layoutOnly) Description() string                 { return "layout" }
func (*layoutOnly) Capabilities() compute.Capabilities  { return hlo.Capabilities() }
func (*layoutOnly) Builder(name string) compute.Builder { return hlo.NewBuilder(nil, name, nil) }

// recorded is a net with random weights, as a program.
func recorded(t *testing.T, net models.Net) (p *portable.Program, weights []any) {
	t.Helper()
	var vars []Variable
	g, store := NewGraph(&layoutOnly{}, "variables"), model.NewStore()
	model.SetStore(g, store)
	net.Build(store.RootScope(), net.Batch(2, func(name string, shape shapes.Shape) *Node { return Parameter(g, name, shape) }), nil, nil)
	for v := range store.IterVariables() {
		if !strings.Contains(v.Path(), "#") {
			vars = append(vars, Variable{Name: strings.TrimPrefix(v.Path(), "/"), Path: v.Path(), Shape: v.Shape(), Trainable: v.Trainable})
		}
	}
	p, err := record.Net(net, vars)
	if err != nil {
		t.Fatal(err)
	}
	random := rand.New(rand.NewPCG(3, 4))
	for _, w := range p.Weights {
		size := 1
		for _, d := range w.Dims {
			size *= d
		}
		if w.Type == dtypes.Int8.String() {
			small := make([]int8, size)
			for i := range small {
				small[i] = int8(random.IntN(255) - 127)
			}
			weights = append(weights, small)
			continue
		}
		flat := make([]float32, size)
		for i := range flat {
			if flat[i] = float32(random.NormFloat64()); strings.Contains(w.Name, "variance") {
				flat[i] *= flat[i]
			}
		}
		weights = append(weights, flat)
	}
	return p, weights
}

// TestONNX holds what the pure-Go backend computes to what onnxruntime computed with the files,
// whose sums are in testdata/onnx.json, and that each net still has a form in ONNX. With the path of
// a Python that has onnx and onnxruntime in GAIDEN_ONNX_PYTHON it asks onnxruntime again.
func TestONNX(t *testing.T) {
	backend, err := gobackend.New("")
	if err != nil {
		t.Fatal(err)
	}
	type result struct {
		SHA256 string    `json:"sha256"`
		Shape  []int     `json:"shape"`
		Y      []float64 `json:"y"`
	}
	dir, results := t.TempDir(), map[string]result{}
	sums, outputs := map[string]string{}, map[string][]float32{}
	for name, net := range onnxNets {
		net.Name = name
		p, weights := recorded(t, net)
		file, err := ONNX(p, weights)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		sum := sha256.Sum256(file)
		sums[name] = hex.EncodeToString(sum[:])
		text, err := json.Marshal(p)
		if err != nil {
			t.Fatal(err)
		}
		n, err := portable.OpenProgram(fstest.MapFS{portable.ProgramFile: {Data: text}}, backend)
		if err != nil {
			t.Fatal(err)
		}
		n.Weights = func() (all []compute.Buffer, free func(), err error) {
			for i, w := range p.Weights {
				b, err := backend.BufferFromFlatData(0, weights[i], shapes.Make(dtypes.FromGoType(reflect.TypeOf(weights[i]).Elem()), w.Dims...))
				if err != nil {
					return nil, nil, err
				}
				all = append(all, b)
			}
			return all, func() {}, nil
		}
		examples := Examples(net)
		type array struct {
			Shape []int  `json:"shape"`
			Data  any    `json:"data"`
			Type  string `json:"type"`
		}
		feed := map[string]array{}
		for i, a := range p.Inputs {
			if ids, is := examples[i].([]int32); is && name == "masked" {
				ids[0], ids[1], ids[5] = 0, 0, 0
			}
			switch l := examples[i].(type) { // two examples, which are one run
			case []int32:
				examples[i] = l[:len(l)/count*2]
			case []float32:
				examples[i] = l[:len(l)/count*2]
			}
			feed[a.Name] = array{append([]int{2}, a.Dims...), examples[i], strings.ToLower(a.Type)}
		}
		if p.Batch > 0 {
			t.Errorf("%s: got a program for %d examples", name, p.Batch)
		}
		if outputs[name], err = n.Predict(examples...); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		text, err = json.Marshal(feed)
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, name+".json"), text, 0o666)
		}
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, name+".onnx"), file, 0o666)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if python := os.Getenv("GAIDEN_ONNX_PYTHON"); python != "" {
		cmd := exec.Command(python, "testdata/run_onnx.py", dir)
		cmd.Stderr = os.Stderr
		b, err := cmd.Output()
		if err == nil {
			err = os.WriteFile("testdata/onnx.json", append(b, '\n'), 0o666)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	b, err := os.ReadFile("testdata/onnx.json")
	if err == nil {
		err = json.Unmarshal(b, &results)
	}
	if err != nil {
		t.Fatal(err)
	}
	for name := range onnxNets {
		want, got := results[name], outputs[name]
		if sums[name] != want.SHA256 {
			t.Logf("%s: a layer is written in another way than when onnxruntime computed with it: set GAIDEN_ONNX_PYTHON to do it again", name)
		}
		if len(got) != len(want.Y) {
			t.Errorf("%s: got %d numbers, want %d as onnxruntime", name, len(got), len(want.Y))
			continue
		}
		for i, w := range want.Y {
			if !(math.Abs(float64(got[i])-w) < 1e-4*max(1, math.Abs(w))) {
				t.Errorf("%s: number %d is %g, want %g as onnxruntime", name, i, got[i], w)
				break
			}
		}
	}
}

// TestONNXRefuses holds that the error names the layer and the operation.
func TestONNXRefuses(t *testing.T) {
	p, weights := recorded(t, models.Net{Name: "n", Input: []int{4}, Layers: []models.Layer{models.Dense{Units: 4}, scatters{}}})
	_, err := ONNX(p, weights)
	if want := "layer counts: ScatterSum has no form in ONNX: want a net without it, or a Go module"; err == nil || !strings.HasPrefix(err.Error(), want) {
		t.Errorf("got %v, want %s", err, want)
	}
}

// scatters is a layer of your own.
type scatters struct{}

func (scatters) Title() (name, kind string) { return "counts", "Counts" }

func (scatters) Apply(_ *model.Scope, x *Node) *Node {
	return ScatterSum(ZerosLike(x), ConvertDType(Slice(x, AxisRange(), AxisRange(0, 1)), dtypes.Int32), x, false, false)
}
