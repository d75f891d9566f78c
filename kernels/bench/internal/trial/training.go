package trial

import (
	"math"
	"math/rand/v2"
	"slices"

	"gaiden/lib/fit"
	"gaiden/lib/models"
	"gaiden/lib/optim"
)

// training is a net as fit trains it.
type training struct {
	name   string
	net    models.Net
	config fit.Config
	batch  int
	n      int // examples
}

// trainings are those of the benchmark, in float32 and bfloat16, and some of other
// sizes: one leaves a part of a batch over. Here the nets with batch norm have fused
// kernels, which AutoKernels does not choose for them.
func trainings() []training {
	keras, momentum := optim.AdaDelta{LearningRate: 0.001, Rho: 0.95, Epsilon: 1e-7}, optim.SGD{LearningRate: 0.01, Momentum: 0.9}
	l := []training{
		{"MLP b100", models.MLP(1000), fit.Config{}, 100, 60000},
		{"SeedCNN b8", models.SeedCNN(), fit.Config{}, 8, 60000},
		{"LeNet5 b100", models.LeNet5(), fit.Config{}, 100, 50000},
		{"KerasCNN b128", models.KerasCNN(), fit.Config{Optimizer: keras}, 128, 60000},
		{"FCN b1024", fcn(), fit.Config{Optimizer: optim.SGD{}}, 1024, 20480},
		// These two learn next to nothing at their sources' rates. On a CPU, with XLA's kernels,
		// Keras' net went from 2.31 to 1.11 in five epochs of 20 steps at a rate of 1, and from
		// 2.30 to 2.25 at 0.1; the FCN, in as many, from 2.43 to 0.71 by Adam, where SGD stayed at
		// 2.30 at rates of 0.3, 1 and 3.
		{"KerasCNN b128 rate 1", models.KerasCNN(), fit.Config{Optimizer: optim.AdaDelta{LearningRate: 1, Rho: 0.95, Epsilon: 1e-7}}, 128, 60000},
		{"FCN b1024 Adam", fcn(), fit.Config{Optimizer: optim.Adam{LearningRate: 0.0003}}, 1024, 20480},
	}
	l = append(l, training{"LSTM5 b20", models.SineLSTM(5, 100), fit.Config{}, 20, 20000}, training{"LSTM128 b64", models.SineLSTM(128, 100), fit.Config{}, 64, 6400},
		training{"Peaks b40000", models.Peaks(), fit.Config{}, 40000, 800000},
		training{"ResNet14 b32", models.ResNet("ResNet14", 1, 1, 1, 1), fit.Config{Optimizer: momentum}, 32, 3200},
		training{"ResNet152 b2048", models.ResNet152(), fit.Config{Optimizer: momentum}, 2048, 20480},
		training{"ResNet50 b256", models.ResNet50(), fit.Config{Optimizer: momentum}, 256, 2560},
		training{"DeepPose b128", models.DeepPose(14), fit.Config{Optimizer: momentum}, 128, 1280})
	for _, t := range slices.Clip(l) {
		t.config.BF16 = true
		t.name += " bf16"
		l = append(l, t)
	}
	return append(l, training{"LSTM b100", models.SineLSTM(50, 100), fit.Config{}, 100, 20000}, training{"Peaks b10000", models.Peaks(), fit.Config{}, 10000, 400000},
		training{"Peaks b100", models.Peaks(), fit.Config{}, 100, 40000}, training{"SeedCNN b33 odd", models.SeedCNN(), fit.Config{Optimizer: optim.SGD{Momentum: 0.9}}, 33, 3001})
}

// attach makes a training's net and its data, from the first seed.
func (d *desk) attach(t training, name string) (*fit.Net, *fit.Set, error) {
	t.config.Session, t.config.Seed = d.s, 1
	net, err := fit.Attach(d.s, name, t.net, t.config)
	if err != nil {
		return nil, nil, err
	}
	data, err := net.Upload(name, t.data())
	if err != nil {
		net.Reset() // the error that counts is there
	}
	return net, data, err
}

// data are images of noise with a pattern for each class, so that there is
// something to learn.
func (t training) data() fit.Data {
	r := rand.New(rand.NewPCG(1, 2))
	size := 1
	for _, d := range t.net.Input {
		size *= d
	}
	if t.net.Name == "SineLSTM" {
		x, y := make([]float32, t.n*size), make([]float32, t.n*size)
		for i := range x { // what comes next on a noisy wave
			phase := float64(i%size)/5 + float64(i/size)
			x[i], y[i] = float32(math.Sin(phase)+0.1*r.NormFloat64()), float32(math.Sin(phase+0.2))
		}
		return fit.Data{X: x, Y: y}
	}
	if t.net.Name == "Peaks" {
		x, y := make([]float32, t.n*size), make([]float32, t.n)
		for i := range y { // waves
			a, b := 6*r.Float64()-3, 6*r.Float64()-3
			x[2*i], x[2*i+1], y[i] = float32(a), float32(b), float32(math.Sin(a)*math.Cos(b))
		}
		return fit.Data{X: x, Y: y}
	}
	if t.net.Name == "DeepPose" {
		x, y := make([]byte, t.n*size), make([]float32, t.n*28)
		for i := range x {
			x[i] = byte(r.Uint32())
		}
		for i := range y { // where joints are
			y[i] = r.Float32()
		}
		return fit.Data{X: x, Y: y}
	}
	patterns := make([]byte, 10*size)
	for i := range patterns {
		patterns[i] = byte(r.Uint32())
	}
	x, y := make([]byte, t.n*size), make([]int32, t.n)
	for k := range y {
		y[k] = int32(r.IntN(10))
		p := patterns[int(y[k])*size:][:size]
		for i := range p {
			x[k*size+i] = byte((int(p[i]) + 3*int(byte(r.Uint32()))) / 4)
		}
	}
	return fit.Data{X: x, Y: y}
}
