package main

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"math"
	"os"
	"path/filepath"
	"strconv"

	"gaiden/lib/datasets"
	"gaiden/lib/fit"
	"gaiden/lib/session"
)

// accuracyCases are the nets that are compared, with the sources' epochs on a
// GPU and fewer on a CPU.
var accuracyCases = []struct {
	name        string
	epochs, few int
}{{"seedcnn-b8", 5, 5}, {"mlp-b100", 20, 3}, {"kerascnn-b128", 12, 1}, {"lenet5-b100", 30, 3}}

// benchAccuracy trains the nets on Fashion-MNIST from several seeds, and
// PyTorch's from the same weights on the same data with the same optimizer; the
// order of examples and dropout are each one's own, so that one seed's accuracy
// says little: they spread by a point. LeNet5 gets the images with a frame of zeros, in
// three equal channels.
func benchAccuracy(b *bench) error {
	if b.seeds < 1 {
		return fmt.Errorf("bench accuracy: %d seeds: want 1 or more", b.seeds)
	}
	ctx := context.Background()
	images, err := datasets.Fashion(ctx, datasets.Options{})
	if err != nil {
		return err
	}
	s, err := session.Config{Client: "gaiden bench", Space: "bench"}.Open()
	if err != nil {
		return err
	}
	defer s.Close()
	dir, err := os.MkdirTemp("", "gaiden-accuracy")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	for _, a := range accuracyCases {
		if !b.wants(a.name) {
			continue
		}
		c, epochs := caseOf(a.name), a.epochs
		if s.Welcome().Platform == "cpu" {
			epochs = a.few
		}
		fmt.Fprintf(b.progress, "bench accuracy: %s, %d epochs\n", a.name, epochs)
		if err := b.accuracy(ctx, s, c, images, epochs, dir); err != nil {
			return fmt.Errorf("bench accuracy: %s: %w", a.name, err)
		}
		for _, script := range b.peers() {
			if script != "torch" {
				continue
			}
			if err := b.peer("accuracy_torch.py", dir, strconv.Itoa(epochs), a.name, strconv.Itoa(b.seeds)); err != nil {
				return err
			}
		}
	}
	return nil
}

// accuracy trains one, and leaves its first weights and the data in dir.
func (b *bench) accuracy(ctx context.Context, s *session.Session, c trainCase, images *datasets.Images, epochs int, dir string) error {
	for name, split := range map[string]datasets.Split{"train": images.Train, "test": images.Test} {
		var y []byte
		for _, l := range split.Labels {
			y = binary.LittleEndian.AppendUint32(y, uint32(l))
		}
		x := framed(split.Pixels, c.model.Input)
		if err := errors.Join(os.WriteFile(filepath.Join(dir, name+".x"), x, 0o600), os.WriteFile(filepath.Join(dir, name+".y"), y, 0o600)); err != nil {
			return err
		}
	}
	var test, train, took []float64
	for seed := 1; seed <= b.seeds; seed++ {
		last, err := b.seed(ctx, s, c, images, epochs, seed, dir)
		if err != nil {
			return err
		}
		test, train = append(test, 100*last.Validation.Accuracy()), append(train, 100*last.Train.Accuracy())
		took = append(took, last.Elapsed.Seconds())
	}
	unit := fmt.Sprintf("%% after %d epochs", epochs)
	b.addSamples(c.name, "gaiden, test", unit, test)
	b.addSamples(c.name, "gaiden, train", unit, train)
	b.addSamples(c.name, "gaiden", "s", took)
	return nil
}

// seed trains from one seed, and leaves the first weights in dir. From the first
// seed it also trains twice for a short while.
func (b *bench) seed(ctx context.Context, s *session.Session, c trainCase, images *datasets.Images, epochs, seed int, dir string) (last fit.Epoch, err error) {
	config := c.config
	config.Session, config.Seed = s, int64(seed)
	net := fit.New("bench", c.model, config)
	if err := net.Reset(); err != nil { // what a run that was stopped has left
		return last, err
	}
	defer net.Reset()
	if err := net.Save(filepath.Join(dir, fmt.Sprintf("weights-%d.safetensors", seed))); err != nil {
		return last, err
	}
	if seed == 1 {
		first, err := firstWeights(net)
		if err != nil {
			return last, err
		}
		b.addSamples(c.name, "gaiden, first weights", "CRC-32", []float64{first.crc})
		b.addSamples(c.name, "gaiden, first weights", "sum of squares", []float64{first.squares})
		b.addSamples(c.name, "gaiden, first weights", "their mean place", []float64{first.place})
		if err := b.twice(ctx, net, images, c); err != nil {
			return last, err
		}
	}
	sets := map[string]*fit.Set{}
	for name, split := range map[string]datasets.Split{"train": images.Train, "test": images.Test} {
		if sets[name], err = net.Load("bench/"+name, fit.Data{X: framed(split.Pixels, c.model.Input), Y: split.Labels}); err != nil {
			return last, err
		}
	}
	h, err := net.Train(ctx, sets["train"], fit.Train{Epochs: epochs, Batch: c.batch, Validation: sets["test"]})
	if err != nil {
		return last, err
	}
	return h.Last(), nil
}

// firsts says what a net starts with, which a CPU and a GPU should agree on, to the bit
// as a rule (models.He): where a last place differs, crc does, and the others by a hair.
type firsts struct {
	crc     float64 // CRC-32 of names, dimensions and bits
	squares float64 // the sum of all squares
	place   float64 // the mean of weights' numbers, in order, by their squares
}

func firstWeights(net *fit.Net) (f firsts, err error) {
	weights, err := net.Weights()
	if err != nil {
		return f, err
	}
	sum, number := crc32.NewIEEE(), 0.0
	for _, w := range weights {
		fmt.Fprintln(sum, w.Name, w.Dims)
		if err := binary.Write(sum, binary.LittleEndian, w.Data); err != nil {
			return f, err
		}
		for _, x := range w.Data {
			square := float64(x) * float64(x)
			number++
			f.squares += square
			f.place += square * number
		}
	}
	f.crc, f.place = float64(sum.Sum32()), f.place/f.squares
	return f, nil
}

// twice trains from one seed twice, for an epoch of a few images, and counts the
// steps whose losses differ.
func (b *bench) twice(ctx context.Context, net *fit.Net, images *datasets.Images, c trainCase) error {
	few := images.First(2000, 1).Train
	var losses [2][]float32
	for i := range losses {
		if err := net.Reset(); err != nil {
			return err
		}
		set, err := net.Load("bench/few", fit.Data{X: framed(few.Pixels, c.model.Input), Y: few.Labels})
		if err != nil {
			return err
		}
		h, err := net.Train(ctx, set, fit.Train{Batch: c.batch})
		if err != nil {
			return err
		}
		losses[i] = h.Losses
	}
	differ := 0.0
	for i, loss := range losses[0] {
		if i >= len(losses[1]) || math.Float32bits(loss) != math.Float32bits(losses[1][i]) {
			differ++
		}
	}
	b.addSamples(c.name, "gaiden, one seed twice", fmt.Sprintf("losses of %d that differ", len(losses[0])), []float64{differ})
	return net.Reset()
}

// framed makes images of 28×28 pixels fit a net's input.
func framed(x []byte, input []int) []byte {
	const side = 28
	height, width, channels := input[0], input[1], input[2]
	if height == side && width == side && channels == 1 {
		return x
	}
	n := len(x) / side / side
	out := make([]byte, n*height*width*channels)
	for i := range n {
		for r := range side {
			for c := range side {
				at := ((i*height+r+(height-side)/2)*width + c + (width-side)/2) * channels
				for k := range channels {
					out[at+k] = x[(i*side+r)*side+c]
				}
			}
		}
	}
	return out
}
