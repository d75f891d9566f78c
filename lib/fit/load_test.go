package fit

import (
	"bytes"
	"cmp"
	"context"
	"encoding/gob"
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"gaiden/lib/data"
	"gaiden/lib/fit/step"
	"gaiden/lib/losses"
	"gaiden/lib/models"
	"gaiden/lib/session"
)

// TestLoadReplacesAtOnce holds that a set that takes the place of another of its name is
// there whole at every moment, for a cell may be killed at any.
func TestLoadReplacesAtOnce(t *testing.T) {
	s := open(t)
	n := attach(t, s, "net", models.Peaks(), Config{Loss: losses.Visibility{}, FirstLook: true})
	v := []float32{1, 1}
	load(t, n, "d", Data{X: make([]float32, 4), Y: make([]float32, 2), V: v})
	other, err := session.Config{Socket: server.socket, Space: s.Space(), NoStart: true}.Open()
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	done := make(chan error, 1)
	go func() {
		var err error
		for i := float32(1); i < 200 && err == nil; i++ {
			_, err1 := n.Upload("d", Data{X: []float32{i, i, i, i}, Y: make([]float32, 2)})
			_, err2 := n.Upload("d", Data{X: []float32{i, i, i, i}, Y: make([]float32, 2), V: v})
			err = errors.Join(err1, err2)
		}
		done <- err
	}()
	for {
		select {
		case err := <-done:
			if err != nil {
				t.Error(err)
			}
			return
		default:
			l, err := other.List("data/d/")
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, a := range l {
				got = append(got, strings.TrimPrefix(a.Name, "data/d/"))
			}
			if !slices.Equal(got, []string{"sum", "x", "y"}) && !slices.Equal(got, []string{"sum", "v", "x", "y"}) {
				t.Fatalf("got %q, want a whole set", got)
			}
		}
	}
}

// TestLoadKeepsOthers holds that a set takes the place of its own name only.
func TestLoadKeepsOthers(t *testing.T) {
	t.Parallel()
	s := open(t)
	n := attach(t, s, "net", models.Peaks(), Config{FirstLook: true})
	for _, name := range []string{"d/train", "d/v", "d", "d/v", "d"} {
		load(t, n, name, Data{X: []float32{float32(len(name)), 2, 3, 4}, Y: make([]float32, 2)})
	}
	for _, name := range []string{"d/train", "d/v", "d"} {
		if _, err := n.Data(name); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := attach(t, s, "net", models.Peaks(), Config{FirstLook: true}).Data(name); err != nil {
			t.Errorf("%s, found again: %v", name, err)
		}
	}
}

// TestKeptSet holds that a set is kept for later cells by its name, with what is known of its
// labels, and that what is not there any more is an error that says so.
func TestKeptSet(t *testing.T) {
	s := open(t)
	n := attach(t, s, "keeper", body(), Config{})
	train := load(t, n, "kept", digits(24, []int{6}, 1))
	if _, err := train.GobEncode(); err == nil || !strings.Contains(err.Error(), `kept is not in the cell's own session: want net.Data("kept")`) {
		t.Errorf("another session: got %v", err)
	}
	old := shared.s
	shared.s = s
	defer func() { shared.s = old }()
	var b bytes.Buffer
	if err := gob.NewEncoder(&b).Encode(train); err != nil {
		t.Fatal(err)
	}
	first := b.Bytes()
	got := &Set{}
	if err := gob.NewDecoder(&b).Decode(got); err != nil {
		t.Fatal(err)
	}
	if got.N != 24 || got.low != train.low || got.high != train.high || got.counted != train.counted || got.key() != train.key() {
		t.Errorf("got %+v, want %+v", got, train)
	}
	if _, err := n.Fit(got, Train{Batch: 8}); err != nil {
		t.Error(err)
	}
	if _, err := s.Delete("data/kept/*"); err != nil {
		t.Fatal(err)
	}
	if err := gob.NewDecoder(bytes.NewReader(first)).Decode(&Set{}); err == nil || !strings.Contains(err.Error(), `no data set "kept" in the session`) {
		t.Errorf("gone: got %v", err)
	}
	parts, err := n.Stream("parts", data.Batches(1, func(int) (data.Examples, error) {
		d := digits(8, []int{6}, 1)
		return data.Examples{X: d.X, Y: d.Y}, nil
	}), 8)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := parts.GobEncode(); err == nil || !strings.Contains(err.Error(), "parts is a stream") {
		t.Errorf("a stream: got %v", err)
	}
}

// TestPredictExamples holds that a net without an Input, declared again as a later cell does,
// takes it from the examples that it is given, whole or X alone, or from a set; and that the
// error says what to set where there are none.
func TestPredictExamples(t *testing.T) {
	t.Parallel()
	s := open(t)
	later := func() *Net {
		return New("net", models.Net{Name: "net", Layers: []models.Layer{models.Dense{Name: "d", Units: 2}}}, Config{Session: s, FirstLook: true})
	}
	d := Data{X: data.Array{Dims: []int{2, 3}, Flat: make([]float32, 6)}, Y: []int32{0, 1}, N: 2}
	set := load(t, later(), "d", d)
	for _, x := range []any{d, d.X} {
		if p, err := later().Predict(x); err != nil || len(p.Classes) != 2 {
			t.Errorf("%T: got %v, %v, want two classes", x, p, err)
		}
	}
	if _, err := later().Evaluate(set); err != nil {
		t.Error(err)
	}
	if _, err := later().Fit(set, Train{Epochs: 1, Quiet: true}); err != nil {
		t.Error(err)
	}
	// The session knows it, for what is given no examples.
	n := later()
	if d, err := n.Data("d"); err != nil || d.N != 2 {
		t.Errorf("Data: got %v, %v", d, err)
	}
	if _, err := later().Weights(); err != nil {
		t.Error(err)
	}
	if summary, err := later().Summary(); err != nil || !strings.Contains(summary.String(), "8 in all") && !strings.Contains(summary.String(), "8") {
		t.Errorf("Summary: got %v, %v", summary, err)
	}
	if _, err := later().Predict([][]float32{{1, 2}}); err == nil || !strings.Contains(err.Error(), "want") {
		t.Errorf("examples of another size: got %v", err)
	}
	images := func() *Net {
		return New("images", models.Net{Name: "images", Layers: []models.Layer{models.Conv2D{Name: "c", Channels: 2, Kernel: 3}, models.Flatten{}, models.Dense{Name: "d", Units: 2}}}, Config{Session: s, FirstLook: true})
	}
	pixels := load(t, images(), "pixels", Data{X: data.Array{Dims: []int{2, 5, 4, 1}, Flat: make([]float32, 40)}, Y: []int32{0, 1}})
	if _, err := images().Predict(pixels); err != nil {
		t.Errorf("a set of images, whose rows are flat: %v", err)
	}
	// A set has the shape of its examples for other nets too, also where it was uploaded flat
	// before, and as a part of its folds.
	load(t, attach(t, s, "rows", classifier(20, 2), Config{FirstLook: true}), "images", Data{X: make([]float32, 40), Y: []int32{0, 1}})
	load(t, images(), "images", Data{X: [][5][4][1]float32{{}, {}}, Y: []int32{0, 1}})
	for name, set := range map[string]string{"fit": "pixels", "flat": "images"} {
		other := New("of-"+name, models.Net{Layers: images().Model().Layers}, Config{Session: s, FirstLook: true})
		found, err := other.Data(set)
		if err != nil {
			t.Errorf("%s: %v", name, err)
		} else if _, err := other.Fit(found, Train{Quiet: true}); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := New("dense", models.Net{Layers: images().Model().Layers}, Config{Session: s}).Data("d"); err == nil || !strings.Contains(err.Error(), "examples were taken for [3]: want it") {
		t.Errorf("a set of rows for images: got %v", err)
	}
	// After a Reset it is free again.
	if err := n.Reset(); err != nil {
		t.Fatal(err)
	}
	if _, err := later().Upload("e", Data{X: Inputs{"a": d.X, "b": d.X}}); err == nil || !strings.Contains(err.Error(), "examples have the inputs a, b, and the net has neither Input nor Inputs") {
		t.Errorf("got %v, want the names", err)
	}
	if _, err := later().Weights(); err == nil || !strings.Contains(err.Error(), "Input of models.Net is not set") {
		t.Errorf("got %v, want what to set", err)
	}
	if p, err := n.Predict([][]float32{{1, 2}}); err != nil || len(p.Classes) != 1 {
		t.Errorf("other examples after Reset: got %v, %v", p, err)
	}
}

// TestNoInput holds that each call on a net without an Input works where the session knows it from
// an earlier declaration, and says what to set where it does not.
func TestNoInput(t *testing.T) {
	t.Parallel()
	s := open(t)
	declare := func(name string) *Net {
		return New(name, models.Net{Name: name, Layers: []models.Layer{models.Conv2D{Name: "c", Channels: 2, Kernel: 3, Act: models.ReLU}, models.Flatten{}, models.Dense{Name: "d", Units: 2}}}, Config{Session: s, FirstLook: true})
	}
	d := Data{X: data.Array{Dims: []int{4, 5, 4, 1}, Flat: make([]float32, 80)}, Y: []int32{0, 1, 1, 0}}
	set := load(t, declare("known"), "pixels", d)
	if _, err := declare("known").Fit(set, Train{Quiet: true}); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	calls := map[string]func(n *Net) error{
		"Activations": func(n *Net) error { return second(n.Activations(set, "c")) },
		"Evaluate":    func(n *Net) error { return second(n.Evaluate(set)) },
		"Export":      func(n *Net) error { return n.Export(filepath.Join(dir, n.Name()+".onnx")) },
		"FitJob":      func(n *Net) error { j, err := n.FitJob(set, Train{Steps: 1}); return cmp.Or(err, wait(j)) },
		"Gradients": func(n *Net) error {
			_, err := n.Data("pixels")
			return cmp.Or(err, n.Gradients(step.Batch{Data: "pixels", Examples: []int32{0, 1}}).Err())
		},
		"LoadWeights":  func(n *Net) error { return second(n.LoadWeights(filepath.Join(dir, "w.safetensors"))) },
		"Part":         func(n *Net) error { return second(n.Part("d").Predict(make([]float32, 12))) },
		"Phases":       func(n *Net) error { return second(n.Phases(set, 2)) },
		"Plan":         func(n *Net) error { return second(n.Plan(set, Train{Batch: 2})) },
		"Predict":      func(n *Net) error { return second(n.Predict(set)) },
		"flat numbers": func(n *Net) error { return second(n.Predict(make([]float32, 40))) },
		"SaveWeights":  func(n *Net) error { return n.SaveWeights(filepath.Join(dir, n.Name()+".safetensors")) },
		"SetWeights":   func(n *Net) error { w, err := declare("known").Weights(); return cmp.Or(err, n.SetWeights(w)) },
		"Summary":      func(n *Net) error { return second(n.Summary()) },
		"Weights":      func(n *Net) error { return second(n.Weights()) },
	}
	if err := declare("known").SaveWeights(filepath.Join(dir, "w.safetensors")); err != nil {
		t.Fatal(err)
	}
	for what, call := range calls {
		if err := call(declare("known")); err != nil {
			t.Errorf("%s: %v", what, err)
		}
		if err := call(declare("unknown")); err != nil && !strings.Contains(err.Error(), "Input of models.Net is not set") && !strings.Contains(err.Error(), "want Input") {
			t.Errorf("%s of a net that no data are known of: got %v, want what to set", what, err)
		}
		if err := declare("unknown").Reset(); err != nil {
			t.Errorf("Reset: %v", err)
		}
	}
}

func wait(j *Job) error {
	if j == nil {
		return nil
	}
	return second(j.Follow(context.Background(), nil))
}
