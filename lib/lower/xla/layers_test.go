package xla

import (
	"encoding/json"
	"math"
	"os"
	"sort"
	"strings"
	"testing"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/gobackend"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/model"

	"gaiden/lib/gradient"
	"gaiden/lib/lower"
	"gaiden/lib/models"
)

var image = []int{2, 5, 6, 3}

// layerCases are the cases of ../../models/testdata/layers.json, which layers.py there
// wrote, by their names.
var layerCases = map[string]struct {
	layer models.Layer
	input []int
	vocab int // of ids
}{
	"Embedding":                       {models.Embedding{Vocab: 7, Units: 4}, []int{3, 5}, 7},
	"Positions":                       {models.Positions{Length: 8}, []int{2, 5, 6}, 0},
	"LayerNorm":                       {models.LayerNorm{}, []int{2, 5, 6}, 0},
	"RMSNorm":                         {models.RMSNorm{}, []int{2, 5, 6}, 0},
	"GroupNorm":                       {models.GroupNorm{Groups: 3}, []int{2, 3, 4, 6}, 0},
	"GroupNorm one":                   {models.GroupNorm{Groups: 1}, []int{2, 3, 4, 6}, 0},
	"Attention":                       {models.Attention{Heads: 2}, []int{2, 5, 6}, 0},
	"Attention one step":              {models.Attention{Heads: 2, Causal: true}, []int{2, 1, 6}, 0},
	"Attention causal":                {models.Attention{Heads: 3, Causal: true}, []int{2, 5, 6}, 0},
	"Attention window":                {models.Attention{Heads: 2, Causal: true, Window: 2}, []int{2, 5, 6}, 0},
	"Attention grouped, RoPE":         {models.Attention{Heads: 4, KVHeads: 2, Causal: true, RoPE: 10000, NoBias: true}, []int{2, 5, 8}, 0},
	"Attention head size":             {models.Attention{Heads: 2, HeadSize: 4, RoPE: 100}, []int{2, 5, 6}, 0},
	"Attention ALiBi":                 {models.Attention{Heads: 6, Causal: true, ALiBi: true}, []int{2, 5, 6}, 0},
	"FeedForward":                     {models.FeedForward{}, []int{2, 5, 6}, 0},
	"FeedForward gated":               {models.FeedForward{Hidden: 5, Gated: true, Act: models.SiLU, NoBias: true}, []int{2, 5, 6}, 0},
	"TransformerBlock GPT-2":          {models.TransformerBlock{Heads: 2, Causal: true}, []int{2, 5, 6}, 0},
	"TransformerBlock Llama":          {models.TransformerBlock{Heads: 4, KVHeads: 2, Hidden: 12, Causal: true, RoPE: 10000, Act: models.SiLU, Gated: true, RMSNorm: true, NoBias: true}, []int{2, 5, 8}, 0},
	"Repeat":                          {models.Repeat{Times: 2, Layer: models.TransformerBlock{Heads: 2, Causal: true}}, []int{2, 5, 6}, 0},
	"GRU":                             {models.GRU{Units: 3}, []int{2, 5, 4}, 0},
	"GRU one step":                    {models.GRU{Units: 3}, []int{2, 1, 4}, 0},
	"RNN":                             {models.RNN{Units: 3}, []int{2, 5, 4}, 0},
	"RNN ReLU":                        {models.RNN{Units: 3, Act: models.ReLU}, []int{2, 5, 4}, 0},
	"Bidirectional GRU":               {models.Bidirectional{Layer: models.GRU{Units: 3}}, []int{2, 5, 4}, 0},
	"Bidirectional LSTM":              {models.Bidirectional{Layer: models.LSTM{Units: 3}}, []int{2, 5, 4}, 0},
	"LastStep":                        {models.Sequential{Layers: []models.Layer{models.GRU{Name: "gru", Units: 3}, models.LastStep{Name: "last"}}}, []int{2, 5, 4}, 0},
	"Conv1D":                          {models.Conv1D{Channels: 5, Kernel: 3}, []int{2, 6, 4}, 0},
	"Conv1D same":                     {models.Conv1D{Channels: 5, Kernel: 3, Stride: 2, Same: true}, []int{2, 6, 4}, 0},
	"Conv1D causal":                   {models.Conv1D{Channels: 5, Kernel: 2, Dilation: 2, Causal: true}, []int{2, 6, 4}, 0},
	"DepthwiseConv2D":                 {models.DepthwiseConv2D{Kernel: 3}, image, 0},
	"DepthwiseConv2D same":            {models.DepthwiseConv2D{Kernel: 3, Stride: 2, Same: true}, []int{2, 5, 5, 3}, 0},
	"DepthwiseConv2D dilated":         {models.DepthwiseConv2D{Kernel: 2, Dilation: 3}, image, 0},
	"ConvTranspose2D":                 {models.ConvTranspose2D{Channels: 2, Kernel: 4, Stride: 2, Pad: 1}, image, 0},
	"ConvTranspose2D odd":             {models.ConvTranspose2D{Channels: 2, Kernel: 3, Stride: 2}, image, 0},
	"ConvTranspose2D stride 1":        {models.ConvTranspose2D{Channels: 2, Kernel: 3, Pad: 2}, image, 0},
	"AvgPool2D":                       {models.AvgPool2D{Window: 2}, image, 0},
	"AvgPool2D stride":                {models.AvgPool2D{Window: 3, Stride: 2}, image, 0},
	"Unflatten":                       {models.Unflatten{Dims: []int{3, 5, 6}}, image, 0},
	"Upsample2D":                      {models.Upsample2D{Factor: 2}, image, 0},
	"Concat":                          {models.Concat{Branches: [][]models.Layer{{models.Dense{Name: "a", Units: 3}}, nil, {models.Dense{Name: "b", Units: 2}}}}, []int{2, 5, 6}, 0},
	"Conv1D groups":                   {models.Conv1D{Channels: 6, Kernel: 3, Groups: 2, Dilation: 2}, []int{2, 9, 4}, 0},
	"Conv2D dilated":                  {models.Conv2D{Channels: 4, Kernel: 3, Dilation: 2, Pad: 2, Stride: 2}, image, 0},
	"Conv2D groups":                   {models.Conv2D{Channels: 6, Kernel: 2, Groups: 3, Same: true}, image, 0},
	"Conv3D":                          {models.Conv3D{Channels: 4, Kernel: 2}, []int{2, 3, 4, 5, 3}, 0},
	"Conv3D same":                     {models.Conv3D{Channels: 3, Kernel: 3, Stride: 2, Same: true}, []int{2, 5, 4, 3, 2}, 0},
	"Conv3D dilated groups":           {models.Conv3D{Channels: 4, Kernel: 2, Dilation: 3, Groups: 2, Pad: 1}, []int{2, 3, 4, 5, 2}, 0},
	"AvgPool1D":                       {models.AvgPool1D{Window: 3, Stride: 2}, []int{2, 7, 3}, 0},
	"AvgPool3D":                       {models.AvgPool3D{Window: 2}, []int{2, 4, 5, 6, 2}, 0},
	"MaxPool1D":                       {models.MaxPool1D{Window: 3, Stride: 2, Pad: 1}, []int{2, 7, 3}, 0},
	"MaxPool3D":                       {models.MaxPool3D{Window: 3, Stride: 2, Pad: 1}, []int{2, 4, 5, 6, 2}, 0},
	"GlobalAvgPool":                   {models.GlobalAvgPool{}, image, 0},
	"GlobalMaxPool":                   {models.GlobalMaxPool{}, []int{2, 3, 4, 5, 2}, 0},
	"BatchNorm":                       {models.BatchNorm{}, image, 0},
	"InstanceNorm":                    {models.InstanceNorm{}, image, 0},
	"PReLU":                           {models.PReLU{}, image, 0},
	"PReLU shared":                    {models.PReLU{Shared: true}, image, 0},
	"SinusoidalPositions":             {models.SinusoidalPositions{}, []int{2, 5, 7}, 0},
	"TimestepEncoding":                {models.TimestepEncoding{Units: 6}, []int{5, 1}, 0},
	"SpectralNorm":                    {models.SpectralNorm{Layer: models.Dense{Units: 4}}, []int{2, 5, 6}, 0},
	"SpectralNorm Conv2D":             {models.SpectralNorm{Layer: models.Conv2D{Channels: 4, Kernel: 2}}, image, 0},
	"GRU masked":                      {within{there, []models.Layer{models.GRU{Name: "l", Units: 3}}}, []int{2, 5, 4}, 0},
	"LSTM masked":                     {within{there, []models.Layer{models.LSTM{Name: "l", Units: 3}}}, []int{2, 5, 4}, 0},
	"RNN masked, last":                {within{there, []models.Layer{models.RNN{Name: "l", Units: 3}, models.LastStep{}}}, []int{2, 5, 4}, 0},
	"Scan masked":                     {within{there, []models.Layer{average}}, []int{2, 5, 4}, 0},
	"Bidirectional masked":            {within{there, []models.Layer{models.Bidirectional{Name: "l", Layer: models.LSTM{Units: 3}}}}, []int{2, 5, 4}, 0},
	"Conv1D masked":                   {within{[]int32{3, 5}, []models.Layer{models.Conv1D{Name: "l", Channels: 5, Kernel: 3, Stride: 2, Same: true}, models.GlobalAvgPool{}}}, []int{2, 5, 4}, 0},
	"Conv1D masked, valid":            {within{[]int32{3, 5}, []models.Layer{models.Conv1D{Name: "l", Channels: 5, Kernel: 2}, models.GlobalMaxPool{}}}, []int{2, 5, 4}, 0},
	"GlobalMaxPool masked":            {within{there, []models.Layer{models.GlobalMaxPool{}}}, []int{2, 5, 4}, 0},
	"Embedding masked":                {models.Sequential{Layers: []models.Layer{models.Embedding{Name: "e", Vocab: 7, Units: 4, MaskZero: true}, models.GRU{Name: "l", Units: 3}, models.GlobalAvgPool{}}}, []int{3, 5}, 7},
	"Scan":                            {average, []int{2, 5, 4}, 0},
	"Attention frequencies":           {models.Attention{Heads: 1, Causal: true, Frequencies: []float64{0.5, 0.01}}, []int{2, 5, 6}, 0},
	"Attention soft cap":              {models.Attention{Heads: 2, Causal: true, Scale: 1.5, SoftCap: 0.2}, []int{2, 5, 6}, 0},
	"Attention norms of heads":        {models.Attention{Heads: 2, QKNorm: models.RMSNorm{PlusOne: true}, Scale: 0.7}, []int{2, 5, 6}, 0},
	"Attention no bias of the output": {models.Attention{Heads: 2, NoOutputBias: true}, []int{2, 5, 6}, 0},
	"RMSNorm plus one":                {models.RMSNorm{PlusOne: true}, []int{2, 5, 6}, 0},
	"Embedding scaled":                {models.Embedding{Vocab: 7, Units: 4, Scale: 2}, []int{3, 5}, 7},
	"Tied":                            {models.Sequential{Layers: []models.Layer{models.Embedding{Name: "tokens", Vocab: 7, Units: 4}, models.RMSNorm{Name: "norm"}, models.Tied{Name: "head", Of: "tokens"}}}, []int{3, 5}, 7},
	"ClassToken":                      {models.ClassToken{}, []int{2, 5, 6}, 0},
	"FirstStep":                       {models.FirstStep{}, []int{2, 5, 6}, 0},
	"SoftCap":                         {models.SoftCap{Limit: 0.3}, []int{2, 5, 6}, 0},
	"ClassToken masked":               {within{there, []models.Layer{models.ClassToken{Name: "c"}, models.TransformerBlock{Name: "l", Heads: 2}, models.FirstStep{}}}, []int{2, 5, 6}, 0},
	"MaxPool1D masked":                {within{there, []models.Layer{models.MaxPool1D{Window: 2, Stride: 1}, models.GlobalAvgPool{}}}, []int{2, 5, 4}, 0},
	"MaxPool1D masked, padded":        {within{there, []models.Layer{models.MaxPool1D{Window: 3, Stride: 2, Pad: 1}, models.GlobalAvgPool{}}}, []int{2, 5, 4}, 0},
	"AvgPool1D masked":                {within{there, []models.Layer{models.AvgPool1D{Window: 2, Stride: 1}, models.GlobalAvgPool{}}}, []int{2, 5, 4}, 0},
	"BatchNorm masked":                {within{there, []models.Layer{models.BatchNorm{Name: "l"}, models.Activation{Act: models.GELU}, models.GlobalAvgPool{}}}, []int{2, 5, 4}, 0},
	"GroupNorm masked":                {within{there, []models.Layer{models.GroupNorm{Name: "l", Groups: 2}, models.Activation{Act: models.GELU}, models.GlobalAvgPool{}}}, []int{2, 5, 4}, 0},
	"InstanceNorm masked":             {within{there, []models.Layer{models.InstanceNorm{Name: "l"}, models.Activation{Act: models.GELU}, models.GlobalAvgPool{}}}, []int{2, 5, 4}, 0},
	"Attention masked":                {within{there, []models.Layer{models.TransformerBlock{Name: "l", Heads: 2}, models.GlobalAvgPool{}}}, []int{2, 5, 6}, 0},
}

// there are the time steps that masks leave.
var there = [][]bool{{true, true, true, false, false}, {false, true, false, true, true}}

// within is layers that get a mask, or lengths.
type within struct {
	mask   any
	layers []models.Layer
}

func (w within) Title() (name, kind string) { return "", "within" }

func (w within) Apply(scope *model.Scope, x *Node) *Node {
	if lengths, is := w.mask.([]int32); is {
		x = models.WithLengths(x, Const(x.Graph(), lengths))
	} else {
		x = models.WithMask(x, Const(x.Graph(), w.mask))
	}
	return models.Sequential{Layers: w.layers}.Apply(scope, x)
}

var average = models.Scan{Name: "l", State: [][]int{{4}}, Cell: func(scope *model.Scope, state []*Node, x *Node) ([]*Node, *Node) {
	decay := Sigmoid(scope.VariableWithShape("decay", shapes.Make(dtypes.Float32, 1, 4)).NodeValue(x.Graph()))
	mean := Add(Mul(decay, state[0]), Mul(OneMinus(decay), x))
	return []*Node{mean}, mean
}}

// TestLayers holds values and gradients of layers to PyTorch's: in GoMLX's own
// operations, and as they are lowered.
func TestLayers(t *testing.T) {
	t.Parallel()
	backend := cpu(t)
	plain, err := gobackend.New("")
	if err != nil {
		t.Fatal(err)
	}
	raw, err := os.ReadFile("../../models/testdata/layers.json")
	if err != nil {
		t.Fatal(err)
	}
	var want map[string]struct {
		Y                 []float64
		Gradients, Second map[string][]float64
	}
	if err := json.Unmarshal(raw, &want); err != nil {
		t.Fatal(err)
	}
	if len(want) != len(layerCases) {
		t.Errorf("%d cases of PyTorch's, %d of ours: want as many", len(want), len(layerCases))
	}
	for name, tt := range layerCases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, b := range []struct {
				name     string
				backend  compute.Backend
				training bool
				half     bool // bfloat16
			}{
				{"plain", plain, true, false},
				{"lowered", lowered{backend, Lowering{Target: lower.Target{Platform: "cpu"}}}, true, false},
				{"lowered, not training", lowered{backend, Lowering{Target: lower.Target{Platform: "cpu"}}}, false, false},
				{"bfloat16", lowered{backend, Lowering{Target: lower.Target{Platform: "cuda"}}}, true, true},
			} {
				if !b.training && !recurrent(tt.layer) {
					continue // only recurrences are others outside training
				}
				if b.half && (strings.HasPrefix(name, "GlobalMaxPool") || strings.HasPrefix(name, "Transformer") || name == "Repeat" || name == "Attention masked") {
					continue // rounding makes equal maxima, and is multiplied by many layers
				}
				if b.name == "plain" && name == "BatchNorm" {
					continue // the pure-Go backend has none
				}
				if strings.HasPrefix(name, "BatchNorm") && (b.half || !b.training) {
					continue // its means would be narrow, too; and are not the batch's outside training
				}
				if b.half && name == "GRU one step" {
					continue // XLA for CPUs refuses a matmul that it makes of weights that are constants, as here alone
				}
				near := func(what string, got []float32, want []float64) {
					t.Helper()
					largest, off, squares, wrong := 0.0, 0.0, 0.0, 0.0
					for i := range min(len(got), len(want)) {
						d := float64(got[i]) - want[i]
						largest, off = max(largest, math.Abs(want[i])), max(off, math.Abs(d))
						squares, wrong = squares+want[i]*want[i], wrong+d*d
					}
					if b.half {
						if len(got) != len(want) || !(math.Sqrt(wrong) <= 0.07*math.Sqrt(squares)+0.01) {
							t.Errorf("%s: %s is off by %g of %g", b.name, what, math.Sqrt(wrong), math.Sqrt(squares))
						}
						return
					}
					if len(got) != len(want) || !(off <= 1e-5*max(1, largest)) {
						t.Errorf("%s: %s has %d numbers, off by %g: want %d, of at most %g", b.name, what, len(got), off, len(want), largest)
					}
				}
				y, gradients := apply(t, b.backend, tt.layer, tt.input, tt.vocab, b.training, b.half)
				near("the result", y, want[name].Y)
				if len(gradients) != len(want[name].Gradients) {
					t.Errorf("%s: gradients for %d arrays: want %d", b.name, len(gradients), len(want[name].Gradients))
				}
				for of, g := range want[name].Gradients {
					near("the gradient for "+of, gradients[of], g)
				}
				if b.name != "lowered" || len(want[name].Second) == 0 {
					continue
				}
				_, gradients = apply(t, b.backend, twice{tt.layer}, tt.input, tt.vocab, true, false)
				for of, g := range want[name].Second {
					near("the second derivative for "+of, gradients[of], g)
				}
			}
		})
	}
}

// twice is a layer whose gradients are to be differentiated.
type twice struct{ models.Layer }

// recurrent says whether a layer is another one outside training.
func recurrent(l models.Layer) bool {
	switch l.(type) {
	case models.GRU, models.RNN, models.Bidirectional, models.Scan, within:
		return true
	}
	return false
}

// apply is a layer's result and its gradients, with the numbers of layers.py.
func apply(t *testing.T, backend compute.Backend, layer models.Layer, input []int, vocab int, training, half bool) (y []float32, gradients map[string][]float32) {
	t.Helper()
	numbers := func(shape shapes.Shape, step, add float64) *tensors.Tensor {
		value := tensors.FromShape(shape)
		value.MutableFlatData(func(flat any) {
			for k := range flat.([]float32) {
				flat.([]float32)[k] = float32(add + math.Sin(float64(k+1)*step)/2)
			}
		})
		return value
	}
	narrow := func(x *Node) *Node {
		if half && x.DType() == dtypes.Float32 {
			return ConvertDType(x, dtypes.BFloat16)
		}
		return x
	}
	build := func(store *model.Store, g *Graph) (x, y *Node) {
		model.SetStore(g, store)
		store.SetTraining(g, training)
		if vocab > 0 {
			k := Iota(g, shapes.Make(dtypes.Int32, input[0]*input[1]), 0)
			x = Reshape(Mod(Add(Mul(k, k), k), Const(g, int32(vocab))), input...)
		} else {
			x = ConstTensor(g, numbers(shapes.Make(dtypes.Float32, input...), 0.7, 0))
		}
		return x, ConvertDType(layer.Apply(store.RootScope().In("l"), narrow(x)), dtypes.Float32)
	}
	found := model.NewStore() // which variables there are
	g := NewGraph(backend, "variables")
	really := half
	half = false // as the layout is built
	build(found, g)
	half = really
	shape := map[string]shapes.Shape{}
	var names []string
	for v := range found.IterVariables() {
		if name, is := strings.CutPrefix(v.Path(), "/l/"); is {
			names, shape[name] = append(names, name), v.Shape()
		}
	}
	sort.Strings(names)
	wrt := names
	exec, err := NewExec(backend, func(g *Graph) []*Node {
		store := model.NewStore().WithVariableAsConst(true)
		var nodes []*Node
		var changes []func()
		for i, name := range names {
			add := 0.0
			if name == "scale" || strings.HasSuffix(name, "/scale") {
				add = 1
			}
			v := store.VariableWithValue("/l/"+name, numbers(shape[name], 0.3+float64(i)/10, add))
			nodes = append(nodes, v.NodeValue(g))
			if name != "u" && name != "v" {
				changes = append(changes, func() { v.SetNodeValue(narrow(v.NodeValue(g))) })
			}
		}
		store.WithVariableAsConst(false) // layers may set them
		for _, change := range changes {
			change()
		}
		x, y := build(store, g)
		if vocab == 0 {
			wrt, nodes = append([]string{"x"}, names...), append([]*Node{x}, nodes...)
		}
		wave := func(of *Node, step float64) *Node { return MulScalar(ConstTensor(g, numbers(of.Shape(), step, 0)), 2) }
		_, second := layer.(twice)
		derive := gradient.Final
		if second {
			derive = Gradient
		}
		all := derive(ReduceAllSum(Mul(Square(y), wave(y, 0.9))), nodes...)
		if second {
			sum := ScalarZero(g, dtypes.Float32)
			for _, x := range all {
				sum = Add(sum, ReduceAllSum(Mul(Square(x), wave(x, 1.1))))
			}
			all = Gradient(sum, nodes...)
		}
		return append([]*Node{y}, all...)
	})
	if err != nil {
		t.Fatal(err)
	}
	out, err := exec.Call()
	if err != nil {
		t.Fatal(err)
	}
	gradients = map[string][]float32{}
	for i, x := range out {
		x.ConstFlatData(func(flat any) {
			got := append([]float32{}, flat.([]float32)...)
			if i == 0 {
				y = got
			} else {
				gradients[wrt[i-1]] = got
			}
		})
	}
	return y, gradients
}
