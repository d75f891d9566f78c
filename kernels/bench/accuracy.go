package main

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
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

// seeds are how many each net is trained from.
const seeds = 3

// benchAccuracy trains the nets on Fashion-MNIST from several seeds, and
// PyTorch's from the same weights on the same data with the same optimizer; the
// order of examples and dropout are each one's own, so that one seed's accuracy
// says little: they spread by a point. LeNet5 gets the images with a frame of zeros, in
// three equal channels.
func benchAccuracy(b *bench) error {
	ctx := context.Background()
	images, err := datasets.Fashion(datasets.Options{Context: ctx})
	if err != nil {
		return err
	}
	s, err := session.Config{Client: client, Space: "bench"}.Open()
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
			return fmt.Errorf("accuracy: %s: %w", a.name, err)
		}
		if slices.Contains(b.peers(), "torch") {
			if err := b.accuracyPeer(c, epochs, dir); err != nil {
				return err
			}
		}
	}
	return nil
}

// accuracyPeer trains the same in PyTorch.
func (b *bench) accuracyPeer(c trainCase, epochs int, dir string) error {
	d, err := c.describe()
	if err != nil {
		return err
	}
	text, err := json.Marshal(d)
	if err != nil {
		return err
	}
	return b.peer("accuracy_torch.py", dir, strconv.Itoa(epochs), string(text), strconv.Itoa(seeds))
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
	for seed := 1; seed <= seeds; seed++ {
		last, err := b.trainFrom(ctx, s, c, images, epochs, seed, dir)
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

// trainFrom trains from one seed, and leaves the first weights in dir.
func (b *bench) trainFrom(ctx context.Context, s *session.Session, c trainCase, images *datasets.Images, epochs, seed int, dir string) (last fit.Epoch, err error) {
	config := c.config
	config.Session, config.Seed = s, int64(seed)
	net := fit.New("bench", c.model, config)
	if err := net.Reset(); err != nil { // what a run that was stopped has left
		return last, err
	}
	defer net.Reset()
	if err := net.SaveWeights(filepath.Join(dir, fmt.Sprintf("weights-%d.safetensors", seed))); err != nil {
		return last, err
	}
	sets := map[string]*fit.Set{}
	for name, split := range map[string]datasets.Split{"train": images.Train, "test": images.Test} {
		if sets[name], err = net.Upload("bench/"+name, fit.Data{X: framed(split.Pixels, c.model.Input), Y: split.Labels}); err != nil {
			return last, err
		}
	}
	h, err := net.WithContext(ctx).Fit(sets["train"], fit.Train{Epochs: epochs, Batch: c.batch, Validation: sets["test"]})
	if err != nil {
		return last, err
	}
	return h.Last(), nil
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
