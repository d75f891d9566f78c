package main

import (
	"math"
	"math/rand/v2"
	"slices"

	"github.com/gomlx/compute/dtypes"
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/ml/model"

	"gaiden/lib/fit"
	"gaiden/lib/fit/step"
	"gaiden/lib/models"
	"gaiden/lib/optim"
	"gaiden/lib/session"
)

// benchNets trains nets of the kinds that people train today, next to the peers: those of
// notebooks 10 to 18, a GPT and recurrent nets.
func benchNets(b *bench) error {
	return b.eachNet(netCases, func(s *session.Session, c trainCase) error {
		if s.Welcome().Platform == "cpu" {
			return b.compare(s, c, nil)
		}
		c.n *= 20
		return b.compare(s, c, fastWays)
	})
}

var netCases = []trainCase{
	{name: "gpt-b12", model: gpt(65, 64, 128, 4, 4), config: fit.Config{Optimizer: optim.AdamW{}}, batch: 12, n: 12 * 20, data: ids(65, 65, 64)},
	{name: "gpt-notebook10-b16", model: gpt(96, 64, 64, 2, 4), config: fit.Config{Optimizer: optim.AdamW{}}, batch: 16, n: 16 * 40, data: ids(96, 96, 64)},
	{name: "gru64-b64", model: models.Net{Name: "gru", Input: []int{32, 32}, Layers: []models.Layer{models.GRU{Name: "gru", Units: 64}, models.LastStep{}, models.Dense{Name: "output", Units: 10}}},
		batch: 64, n: 64 * 40, data: numbers(10)},
	{name: "lstm64-b64", model: models.Net{Name: "lstm", Input: []int{32, 32}, Layers: []models.Layer{models.LSTM{Name: "lstm", Units: 64}, models.LastStep{}, models.Dense{Name: "output", Units: 10}}},
		batch: 64, n: 64 * 40, data: numbers(10)},
	{name: "scan-b32", peerNet: "scan", model: models.Net{Name: "scan", Input: []int{64, 16}, Function: minimalUnit, Layers: []models.Layer{models.LastStep{}, models.Dense{Name: "output", Units: 10}}},
		batch: 32, n: 32 * 40, data: numbers(10)},
	textCase("text-gru-b64", models.GRU{Name: "recurrent", Units: 32}),
	textCase("text-bilstm-b64", models.Bidirectional{Name: "recurrent", Layer: models.LSTM{Units: 32}}),
	{name: "autoencoder-b128", model: models.Net{Name: "autoencoder", Input: smallImage, Layers: slices.Concat(vaeEncoder, vaeDecoder)}, batch: 128, n: 128 * 40, data: unlabelled},
	{name: "vae-b128", peerNet: "vae", model: models.Parts("vae", smallImage, models.Net{Name: "mean", Input: smallImage, Layers: vaeEncoder},
		models.Net{Name: "variance", Input: smallImage, Layers: vaeEncoder}, models.Net{Name: "decoder", Input: []int{2}, Layers: vaeDecoder}),
		config: fit.Config{Step: vaeStep}, batch: 128, n: 128 * 40, data: unlabelled},
	{name: "diffusion-b32", peerNet: "diffusion", model: models.Net{Name: "unet", Function: unet, Inputs: []models.Input{{Name: "image", Dims: smallImage}, {Name: "time"}}},
		config: fit.Config{Step: diffusionStep}, batch: 32, n: 32 * 20, data: func(c trainCase) fit.Data {
			return fit.Data{X: fit.Inputs{"image": floatsOf(c.n * 256), "time": make([]float32, c.n)}, N: c.n}
		}},
	{name: "table-b100", peerNet: "table", model: models.Net{Name: "table", Function: table, Inputs: append([]models.Input{{Name: "numbers", Dims: []int{2}}}, tableCategories...),
		Layers: []models.Layer{models.Dense{Name: "hidden", Units: 64, Act: models.ReLU}, models.Dense{Name: "late", Units: 2}}},
		config: fit.Config{Optimizer: optim.AdamW{WeightDecay: 0.1}}, batch: 100, n: 100 * 80, data: tableData},
	{name: "gan-b128", peerNet: "gan", model: models.Parts("gan", []int{2}, ganPart("generator", 4, 2), ganPart("critic", 2, 1)),
		config: fit.Config{Optimizer: optim.Adam{Beta1: 0.5, Beta2: 0.99}, Step: ganStep}, batch: 128, n: 128 * 40, data: func(c trainCase) fit.Data { return fit.Data{X: floatsOf(c.n * 2), N: c.n} }},
	{name: "transfer-b10", model: reader(10), config: fit.Config{Optimizer: optim.Groups{Optimizer: optim.Adam{LearningRate: 0.01}, Groups: []optim.Group{{Names: []string{"body/*"}, Frozen: true}}}},
		batch: 10, n: 10 * 100},
	{name: "fine-tuning-b10", model: reader(10), batch: 10, n: 10 * 100},
	{name: "stream-cnn-b50", model: models.Net{Name: "flowers", Input: []int{28, 28, 1}, Layers: []models.Layer{
		models.Conv2D{Name: "conv1", Channels: 8, Kernel: 5, Stride: 2, Pad: 2, Act: models.ReLU}, models.Conv2D{Name: "conv2", Channels: 32, Kernel: 3, Stride: 2, Pad: 1, Act: models.ReLU},
		models.Flatten{}, models.Dense{Name: "hidden", Units: 64, Act: models.ReLU}, models.Dense{Name: "petals", Units: 10}}}, batch: 50, n: 50 * 40},
	{name: "search-b50", model: models.Net{Name: "mlp", Input: []int{2}, Layers: []models.Layer{models.Dense{Units: 32, Act: models.ReLU}, models.Dense{Units: 32, Act: models.ReLU}, models.Dense{Name: "output", Units: 2}}},
		batch: 50, n: 50 * 80, data: numbers(2)},
}

// gpt is a transformer over tokens, in GPT-2's form.
func gpt(vocab, length, width, blocks, heads int) models.Net {
	return models.Net{Name: "gpt", Input: []int{length}, Layers: []models.Layer{
		models.Embedding{Name: "tokens", Vocab: vocab, Units: width},
		models.Positions{Name: "positions", Length: length},
		models.Repeat{Name: "block", Times: blocks, Layer: models.TransformerBlock{Heads: heads, Causal: true}},
		models.LayerNorm{Name: "norm"},
		models.Dense{Name: "head", Units: vocab},
	}}
}

// ids are random ids, and for each example so many labels.
func ids(vocab, classes, labels int) func(trainCase) fit.Data {
	return func(c trainCase) fit.Data {
		r := rand.New(rand.NewPCG(2, 0))
		draw := func(n, below int) []int32 {
			l := make([]int32, n)
			for i := range l {
				l[i] = int32(r.IntN(below))
			}
			return l
		}
		return fit.Data{X: draw(c.n*c.model.Input[0], vocab), Y: draw(c.n*labels, classes), N: c.n}
	}
}

// numbers are random numbers as the net's input wants them, and a class for each example.
func numbers(classes int) func(trainCase) fit.Data {
	return func(c trainCase) fit.Data {
		size := c.n
		for _, d := range c.model.Input {
			size *= d
		}
		return fit.Data{X: floatsOf(size), Y: labelsOf(c.n, classes), N: c.n}
	}
}

// unlabelled are images whose targets are the images.
func unlabelled(c trainCase) fit.Data {
	return fit.Data{X: c.images(rand.NewChaCha8([32]byte{1})), Y: fit.SameX, N: c.n}
}

func floatsOf(n int) []float32 {
	r, l := rand.New(rand.NewPCG(3, 0)), make([]float32, n)
	for i := range l {
		l[i] = r.Float32()
	}
	return l
}

func labelsOf(n, classes int) []int32 {
	r, l := rand.New(rand.NewPCG(4, 0)), make([]int32, n)
	for i := range l {
		l[i] = int32(r.IntN(classes))
	}
	return l
}

// minimalUnit is a recurrent layer with a user's own cell: the minimal gated unit (Zhou et
// al., 2016) of 64 units.
func minimalUnit(scope *model.Scope, in models.Inputs) *Node {
	const u = 64
	x := models.Call(scope, models.Dense{Name: "enter", Units: 2 * u}, in["x"])
	return models.Call(scope, models.Scan{Name: "cell", State: [][]int{{u}}, Cell: func(scope *model.Scope, state []*Node, x *Node) ([]*Node, *Node) {
		h := state[0]
		part := func(k int) *Node { return SliceAxis(x, 1, AxisRange(k*u, (k+1)*u)) }
		forget := Sigmoid(Add(part(0), models.Call(scope, models.Dense{Name: "forget", Units: u, NoBias: true}, h)))
		new := Tanh(Add(part(1), models.Call(scope, models.Dense{Name: "new", Units: u, NoBias: true}, Mul(forget, h))))
		h = Add(h, Mul(forget, Sub(new, h)))
		return []*Node{h}, h
	}}, x)
}

// textCase is notebook 11's classifier of texts of up to 32 words, padded with zeros.
func textCase(name string, recurrent models.Layer) trainCase {
	const vocab, length, classes = 4096, 32, 5
	return trainCase{name: name, peerNet: "text", inner: []models.Layer{recurrent}, vocab: vocab, batch: 64, n: 64 * 20,
		config: fit.Config{Optimizer: optim.Adam{LearningRate: 2e-3}},
		data: func(c trainCase) fit.Data {
			d := ids(vocab-1, classes, 1)(c)
			r, x := rand.New(rand.NewPCG(5, 0)), d.X.([]int32)
			for i := range x {
				x[i]++
			}
			for i := range c.n {
				clear(x[i*length+4+r.IntN(length-3) : (i+1)*length])
			}
			return d
		},
		model: models.Net{Name: "text", Input: []int{length}, Integers: true, Function: func(scope *model.Scope, in models.Inputs) *Node {
			mask := ExpandAxes(ConvertDType(GreaterThan(in["x"], ZerosLike(in["x"])), dtypes.Float32), -1)
			words := models.Call(scope, models.Embedding{Name: "words", Vocab: vocab, Units: 32}, in["x"])
			h := models.Call(scope, recurrent, Mul(words, mask))
			return Div(ReduceSum(Mul(h, mask), 1), ReduceSum(mask, 1))
		}, Layers: []models.Layer{models.Dropout{Rate: 0.3}, models.Dense{Name: "output", Units: classes}}}}
}

// Notebook 12.
var (
	smallImage = []int{16, 16, 1}
	vaeEncoder = []models.Layer{models.Flatten{}, models.Dense{Name: "e1", Units: 256, Act: models.SiLU}, models.Dense{Name: "e2", Units: 64, Act: models.SiLU}, models.Dense{Name: "e3", Units: 2}}
	vaeDecoder = []models.Layer{models.Dense{Name: "d1", Units: 64, Act: models.SiLU}, models.Dense{Name: "d2", Units: 256, Act: models.SiLU}, models.Dense{Name: "d3", Units: 256, Act: Sigmoid}, models.Unflatten{Dims: smallImage}}
)

func vaeStep(s *step.Step) {
	mean, logVariance := s.Apply("mean", s.X), s.Apply("variance", s.X)
	code := Add(mean, Mul(Exp(MulScalar(logVariance, 0.5)), s.Normal(mean.Shape().Dimensions...)))
	x := Reshape(s.X, -1, 256) // as the peers have it: a last axis of 1 is slow on a CPU
	p := ClipScalar(Reshape(s.Apply("decoder", code), -1, 256), 1e-5, 1-1e-5)
	pixels := MulScalar(ReduceAllMean(Add(Mul(x, Log(p)), Mul(OneMinus(x), Log(OneMinus(p))))), -256)
	s.Minimize(Add(pixels, ReduceAllMean(Sub(Add(Square(mean), Exp(logVariance)), AddScalar(logVariance, 1)))))
}

// unet is notebook 13's.
func unet(scope *model.Scope, in models.Inputs) *Node {
	angles := Mul(InsertAxes(in["time"], -1), Const(in["time"].Graph(), [][]float32{{1, 2, 4, 8, 16}}))
	time := models.Call(scope, models.Dense{Name: "time", Units: 64, Act: models.SiLU}, Concatenate([]*Node{Sin(angles), Cos(angles)}, -1))
	block := func(name string, channels int, x ...*Node) *Node {
		shift := InsertAxes(models.Call(scope, models.Dense{Name: name + "-time", Units: channels}, time), 1, 1)
		y := Add(shift, models.Call(scope, models.Conv2D{Name: name + "1", Channels: channels, Kernel: 3, Same: true}, Concatenate(x, -1)))
		return models.Call(scope, models.Conv2D{Name: name + "2", Channels: channels, Kernel: 3, Same: true, Act: models.SiLU}, models.SiLU(y))
	}
	middle := block("down", 32, models.Call(scope, models.Conv2D{Name: "patches", Channels: 32, Kernel: 4, Stride: 2, Pad: 1}, in["image"]))
	low := block("bottom", 64, models.AvgPool2D{Window: 2}.Apply(scope, middle))
	low = Add(low, Reshape(models.Call(scope, models.Attention{Name: "attention", Heads: 4}, Reshape(low, -1, 16, 64)), low.Shape().Dimensions...))
	middle = block("up", 32, middle, models.Upsample2D{Factor: 2}.Apply(scope, low))
	top := models.Call(scope, models.ConvTranspose2D{Name: "larger", Channels: 8, Kernel: 4, Stride: 2, Pad: 1}, middle)
	return models.Call(scope, models.Conv2D{Name: "v", Channels: 1, Kernel: 3, Same: true}, block("top", 8, top, in["image"]))
}

func diffusionStep(s *step.Step) {
	image, time := AddScalar(MulScalar(s.In["image"], 2), -1), s.Uniform(s.In["time"].Shape().Dimensions...)
	noise, angle := s.Normal(image.Shape().Dimensions...), InsertAxes(MulScalar(time, math.Pi/2), 1, 1, 1)
	noisy, v := Add(Mul(Cos(angle), image), Mul(Sin(angle), noise)), Sub(Mul(Cos(angle), noise), Mul(Sin(angle), image))
	s.Minimize(ReduceAllMean(Square(Sub(s.ForwardInputs(models.Inputs{"image": noisy, "time": time}), v))))
}

// tableCategories are notebook 14's: a carrier, a city and a weekday.
var tableCategories = []models.Input{{Name: "carrier", Integers: true, Vocab: 4}, {Name: "city", Integers: true, Vocab: 9}, {Name: "weekday", Integers: true, Vocab: 8}}

func table(scope *model.Scope, in models.Inputs) *Node {
	parts := []*Node{in["numbers"]}
	for _, c := range tableCategories {
		parts = append(parts, models.Call(scope, models.Embedding{Name: c.Name, Vocab: c.Vocab, Units: 4}, in[c.Name]))
	}
	return Concatenate(parts, -1)
}

func tableData(c trainCase) fit.Data {
	in := fit.Inputs{"numbers": floatsOf(2 * c.n)}
	for _, k := range tableCategories {
		in[k.Name] = labelsOf(c.n, k.Vocab)
	}
	return fit.Data{X: in, Y: labelsOf(c.n, 2), N: c.n}
}

// ganPart is a net of notebook 15.
func ganPart(name string, inputs, outputs int) models.Net {
	return models.Net{Name: name, Input: []int{inputs}, Layers: []models.Layer{
		models.Dense{Name: "d1", Units: 128, Act: models.LeakyReLU}, models.Dense{Name: "d2", Units: 128, Act: models.LeakyReLU}, models.Dense{Name: "d3", Units: outputs}}}
}

func ganStep(s *step.Step) {
	fake := s.Apply("generator", s.Normal(s.X.Shape().Dimensions[0], 4))
	onReal, onFake := s.Apply("critic", s.X), s.Apply("critic", StopGradient(fake))
	slope := Gradient(ReduceAllSum(onReal), s.X)[0]
	s.Minimize(Add(ReduceAllMean(Add(Softplus(Neg(onReal)), Softplus(onFake))), MulScalar(ReduceAllMean(Square(slope)), 0.04)), "critic")
	s.Minimize(ReduceAllMean(Softplus(Neg(s.Apply("critic", fake)))), "generator")
}

// reader is notebook 16's net.
func reader(characters int) models.Net {
	body := models.Sequential{Name: "body", Layers: []models.Layer{
		models.Conv2D{Name: "conv1", Channels: 16, Kernel: 3, Same: true, Act: models.ReLU}, models.MaxPool2D{Name: "pool1", Window: 2},
		models.Conv2D{Name: "conv2", Channels: 32, Kernel: 3, Same: true, Act: models.ReLU}, models.MaxPool2D{Name: "pool2", Window: 2},
		models.Flatten{Name: "flatten"}, models.Dense{Name: "features", Units: 64, Act: models.ReLU}, models.Dropout{Name: "dropout", Rate: 0.2},
	}}
	return models.Net{Name: "reader", Input: []int{20, 20, 1}, Layers: []models.Layer{body, models.Dense{Name: "head", Units: characters}}}
}
