package main

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math"
	"os"
	"path/filepath"

	"gaiden/lib/fit"
	"gaiden/lib/session"
)

// repeatedSteps is how many steps are trained twice from one seed.
const repeatedSteps = 20

// check records the loss of the first step, and how many of the next ones differ when the
// net is trained again from the same seed. It leaves the initial weights and the examples in a
// folder, of which the peers compute the same losses: they train the same net.
func (b *bench) check(s *session.Session, c trainCase, dir string) ([]float32, error) {
	steps := c.curve
	if steps == 0 {
		steps, c.n = repeatedSteps, c.batch
	}
	c.model.Layers = withoutDropout(c.model.Layers)
	net, data, err := c.attach(s, "check", c.config)
	if err != nil {
		return nil, err
	}
	defer net.Reset()
	d := c.examples()
	err = net.SaveWeights(filepath.Join(dir, "weights.safetensors"))
	files := map[string]any{"x": d.X, "y": d.Y}
	if in, several := d.X.(fit.Inputs); several {
		delete(files, "x")
		for name, x := range in {
			files["x-"+name] = x
		}
	}
	if d.Y == fit.SameX {
		files["y"] = d.X
	}
	for name, values := range files {
		var w bytes.Buffer
		err = errors.Join(err, binary.Write(&w, binary.LittleEndian, values), os.WriteFile(filepath.Join(dir, name), w.Bytes(), 0o600))
	}
	if err != nil {
		return nil, err
	}
	var losses [2][]float32
	for i := range losses {
		h, err := net.Fit(data, fit.Train{Batch: c.batch, Steps: steps, InOrder: true})
		if err = errors.Join(err, net.Reset()); err != nil {
			return nil, err
		}
		losses[i] = h.Losses
	}
	differ := 0.0
	for i, l := range losses[0] {
		if l != losses[1][i] {
			differ++
		}
	}
	b.addSamples(c.name+"-loss", "gaiden first step", "loss", []float64{float64(losses[0][0])})
	b.addSamples(c.name+"-repeat", "gaiden", "losses that differ", []float64{differ})
	if c.curve > 0 {
		b.addSamples(c.name+"-curve", "gaiden, steps", "steps", []float64{float64(steps)})
		b.addSamples(c.name+"-curve-repeat", "gaiden", "largest difference", []float64{largest(losses[0], losses[1])})
	}
	return losses[0], nil
}

// compareCurves records the largest relative difference of losses between Gaiden and each peer,
// and between two peers, which is the noise of the type that they compute in.
func (b *bench) compareCurves(name string, own []float32, subjects []*subject) {
	type curve struct {
		of     string
		losses []float32
	}
	all := []curve{{"gaiden", own}}
	seen := map[*peer]bool{}
	for _, x := range subjects {
		if x.peer == nil || seen[x.peer] {
			continue
		}
		seen[x.peer] = true
		for _, s := range x.peer.found {
			if s.Case != name+"-curve" {
				continue
			}
			one := curve{of: s.Subject}
			for _, l := range s.Samples {
				one.losses = append(one.losses, float32(l))
			}
			for _, before := range all {
				b.addSamples(name+"-curve-difference", before.of+", "+one.of, "largest difference", []float64{largest(before.losses, one.losses)})
			}
			all = append(all, one)
		}
	}
	last := own[max(0, len(own)-20):]
	sum := 0.0
	for _, l := range last {
		sum += float64(l)
	}
	b.addSamples(name+"-curve", "gaiden, mean of the last 20", "loss", []float64{sum / float64(len(last))})
}

// largest is the largest difference of two curves, relative to the first one.
func largest(a, b []float32) float64 {
	if len(a) != len(b) {
		return math.Inf(1)
	}
	most := 0.0
	for i, x := range a {
		most = max(most, math.Abs(float64(x-b[i]))/math.Abs(float64(x)))
	}
	return most
}
