package main

import (
	"math"
	"math/rand/v2"

	"gaiden/lib/fit"
	"gaiden/lib/losses"
	"gaiden/lib/models"
	"gaiden/lib/optim"
)

// trainCase is one net of the benchmark, with the sources' batch size and
// optimizer, or their notebook's where they give none. The peers' scripts have the
// same.
type trainCase struct {
	name   string
	model  models.Net
	config fit.Config
	batch  int
	n      int // examples; 0: only for CPUs
	few    int // examples on a CPU; 0: too slow there
	tests  int // examples of a validation after each epoch, for the peers; 0: none
	// epochs of one measurement, on a CPU a tenth; default: 1. Where an epoch is short,
	// several, as the sources train: PyTorch's steps are half a second without an end
	// between them.
	epochs int
	data   func(trainCase) fit.Data
	curve  int // losses of so many steps that are compared with the peers'; 0: the first step's

	peerNet string         // the function that the peers have for a net that is no list of layers
	inner   []models.Layer // layers that it takes
	vocab   int            // of the ids that it takes
}

// small is the case as it is measured on a CPU.
func (c trainCase) small() trainCase {
	c.n, c.epochs = c.few, c.epochs/10
	return c
}

// adaDelta has Keras' settings.
var adaDelta = optim.AdaDelta{LearningRate: 0.001, Rho: 0.95, Epsilon: 1e-7}

var trainCases = []trainCase{
	{name: "seedcnn-b8", model: models.SeedCNN(), batch: 8, n: 60000, few: 6000},
	{name: "mlp-b100", model: models.MLP(1000), batch: 100, n: 60000, few: 6000, epochs: 20},
	{name: "lenet5-b100", model: models.LeNet5(), batch: 100, n: 50000, few: 5000, epochs: 10},
	{name: "kerascnn-b128", model: models.KerasCNN(), config: fit.Config{Optimizer: adaDelta}, batch: 128, n: 60000, few: 1280, epochs: 5},
	{name: "lstm5-b20", model: models.SineLSTM(5, 100), batch: 20, n: 2000, few: 2000, epochs: 10, data: sines},
	{name: "lstm128-b64", model: models.SineLSTM(128, 100), batch: 64, n: 6400, few: 640, epochs: 10, data: sines},
	{name: "peaks-b40000", model: models.Peaks(), config: fit.Config{Optimizer: optim.Adam{LearningRate: 0.08}}, batch: 40000, n: 40000, few: 40000, epochs: 2000, data: surface},
	{name: "resnet14-b32", model: models.ResNet("ResNet14", 1, 1, 1, 1), config: fit.Config{Optimizer: momentum}, batch: 32, n: 3200, few: 320, epochs: 5},
	{name: "resnet152-b2048", model: models.ResNet152(), config: fit.Config{Optimizer: momentum}, batch: 2048, n: 20480, epochs: 5},
	{name: "resnet152-b32", model: models.ResNet152(), config: fit.Config{Optimizer: momentum}, batch: 32, few: 64}, // a step of 2,048 takes minutes
	{name: "fcn-b1024", model: models.FCN(784, []int{2048, 2048, 2048}, 10), config: fit.Config{Optimizer: optim.SGD{}}, batch: 1024, n: 61440, few: 8192, epochs: 10},
	{name: "resnet50-b256", model: models.ResNet50(), config: fit.Config{Optimizer: optim.SGD{}}, batch: 256, n: 5120, few: 512, epochs: 5},
	{name: "deeppose-b128", model: models.DeepPose(joints), config: fit.Config{Loss: losses.Visibility{}, Optimizer: optim.Adam{LearningRate: 1e-4}}, batch: 128, n: 1280, few: 128, epochs: 5, data: poses},
}

var momentum = optim.SGD{LearningRate: 0.01, Momentum: 0.9}

// joints of a body, as notebook 08 has them.
const joints = 14

// examples are the case's own, or synthetic images of the net's shape.
func (c trainCase) examples() fit.Data {
	if c.data != nil {
		return c.data(c)
	}
	r := rand.NewChaCha8([32]byte{1})
	x, y := c.images(r), make([]int32, c.n)
	for i := range y {
		y[i] = int32(r.Uint64() % 10)
	}
	return fit.Data{X: x, Y: y}
}

// images are noise.
func (c trainCase) images(r *rand.ChaCha8) []byte {
	size := c.n
	for _, d := range c.model.Input {
		size *= d
	}
	x := make([]byte, size)
	r.Read(x) // it returns no error
	return x
}

// poses are coordinates of joints, of which one in ten cannot be seen.
func poses(c trainCase) fit.Data {
	source := rand.NewChaCha8([32]byte{1})
	x, r := c.images(source), rand.New(source)
	var y, v []float32
	for range c.n * joints {
		seen := float32(1)
		if r.Float64() < 0.1 {
			seen = 0
		}
		y, v = append(y, r.Float32(), r.Float32()), append(v, seen, seen)
	}
	return fit.Data{X: x, Y: y, V: v}
}

// sines are pieces of a sine wave, and what follows each of their points.
func sines(c trainCase) fit.Data {
	length := c.model.Input[0]
	x, y := make([]float32, c.n*length), make([]float32, c.n*length)
	for i := range x {
		t := float64(i/length)*0.37 + float64(i%length)*0.1
		x[i], y[i] = float32(math.Sin(t)), float32(math.Sin(t+0.1))
	}
	return fit.Data{X: x, Y: y}
}

// surface is MATLAB's peaks over the square from -3 to 3, at the points of a
// grid.
func surface(c trainCase) fit.Data {
	side := int(math.Sqrt(float64(c.n)))
	x, y := make([]float32, 2*c.n), make([]float32, c.n)
	for i := range y {
		u, v := -3+6*float64(i%side)/float64(side-1), -3+6*float64(i/side)/float64(side-1)
		x[2*i], x[2*i+1] = float32(u), float32(v)
		y[i] = float32(3*(1-u)*(1-u)*math.Exp(-u*u-(v+1)*(v+1)) - 10*(u/5-u*u*u-math.Pow(v, 5))*math.Exp(-u*u-v*v) - math.Exp(-(u+1)*(u+1)-v*v)/3)
	}
	return fit.Data{X: x, Y: y}
}
