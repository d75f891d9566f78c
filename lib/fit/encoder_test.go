package fit

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/gomlx/compute/gobackend"
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/ml/model"

	"gaiden/lib/data"
	"gaiden/lib/losses"
	"gaiden/lib/models"
	"gaiden/lib/portable"
	"gaiden/lib/session"
)

func must[T any](x T, err error) T {
	if err != nil {
		panic(err)
	}
	return x
}

// passengers is a table with categories, some of which are integers, and with values that are missing.
func passengers() *data.Table {
	var age []float64
	var port, class, survived []string
	for i := range 24 {
		age = append(age, []float64{math.NaN(), 20, 35, 50}[i%4])
		port = append(port, []string{"Oslo", "Bergen", ""}[i%3])
		class = append(class, fmt.Sprint(1+i%2))
		survived = append(survived, []string{"no", "yes"}[i/2%2])
	}
	return must((&data.Table{}).With(data.Column{Name: "age", Numbers: age}, data.Column{Name: "port", Text: port},
		data.Column{Name: "class", Text: class}, data.Column{Name: "survived", Text: survived}))
}

func encoderOf(target string, oneHot bool) *data.Encoder {
	e := must(passengers().Encoder(target))
	e.OneHot = oneHot
	return e
}

// tableNet takes the columns of passengers each by itself.
func tableNet(t *testing.T, s *session.Session, name string) *Net {
	inputs := []models.Input{{Name: "class", Dims: []int{1}, Integers: true, Vocab: 3}, {Name: "numbers", Dims: []int{1}}, {Name: "port", Dims: []int{1}, Integers: true, Vocab: 3}}
	return attach(t, s, name, models.Net{Name: name, Inputs: inputs, Function: func(scope *model.Scope, in models.Inputs) *Node {
		parts := []*Node{in["numbers"]}
		for _, name := range []string{"class", "port"} {
			parts = append(parts, Reshape(models.Call(scope, models.Embedding{Name: name, Vocab: 3, Units: 2}, in[name]), -1, 2))
		}
		return Concatenate(parts, -1)
	}, Layers: []models.Layer{models.Dense{Name: "out", Units: 2}}}, Config{FirstLook: true})
}

// again is the net of a kernel that was restarted: all that it knows is in the session.
func again(t *testing.T, n *Net) *Net {
	t.Helper()
	s, err := session.Config{Socket: server.socket, Space: n.session.Space(), NoStart: true}.Open()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	c := n.config
	c.Session = s
	m := n.model
	if n.inferred {
		m.Input = nil
	}
	return New(n.name, m, c)
}

// TestEncoder holds that the encoder of the training data goes with the net: also after a restart,
// in files and in an export, what it says of rows is what it says of the encoded set.
func TestEncoder(t *testing.T) {
	t.Parallel()
	s := open(t)
	rows := []data.Row{{"age": 30, "port": "Oslo", "class": 2, "survived": "yes", "more": true}, {"age": nil, "port": nil, "class": "1", "survived": nil}}
	asked := must((&data.Table{}).With(data.Column{Name: "class", Text: []string{"2", "1"}}, data.Column{Name: "port", Text: []string{"Oslo", ""}}, data.Column{Name: "age", Numbers: []float64{30, math.NaN()}},
		data.Column{Name: "survived", Text: []string{"yes", ""}}))
	for name, c := range map[string]struct {
		target string
		units  int
		loss   losses.Loss
	}{"softmax": {"survived", 2, nil}, "sigmoid": {"survived", 1, losses.BinaryCrossEntropy{}}, "largest": {"survived", 2, losses.MSE{}}, "scaled": {"age", 1, nil}} {
		t.Run(name, func(t *testing.T) {
			table := passengers()
			table.Columns[0].Numbers = slices.Clone(table.Columns[0].Numbers)
			for i, x := range table.Columns[0].Numbers {
				if x != x && c.target == "age" {
					table.Columns[0].Numbers[i] = 40
				}
			}
			e := must(table.Encoder(c.target))
			e.OneHot = true
			x := must(e.Encode(table))
			if name == "largest" {
				var y []float32
				for _, label := range x.Y.([]int32) {
					y = append(y, float32(1-label), float32(label))
				}
				x.Y = y
			}
			n := New(name, models.Net{Layers: []models.Layer{models.Dense{Units: 3}, models.Dense{Units: c.units}}}, Config{Session: s, Loss: c.loss, Seed: 3})
			train := load(t, n, name+"/train", x)
			if _, err := n.Predict(rows); err == nil || !strings.Contains(err.Error(), "want numbers, as the net was not trained on examples that data.Encoder.Encode made of a table") {
				t.Errorf("a net that is not trained: got %v", err)
			}
			if _, err := n.Fit(train, Train{Epochs: 2, Batch: 8}); err != nil {
				t.Fatal(err)
			}
			encoded := must(e.EncodeRows(rows...))
			want := must(n.Predict(encoded))
			switch {
			case c.target == "age" && (want.Names != nil || want.Values[0] != float64(want.Output[0])*e.Scale.Deviation+e.Scale.Mean):
				t.Errorf("got %v of %v", want, want.Output)
			case c.target != "age" && (len(want.Names) != 2 || want.Values != nil):
				t.Errorf("got %v", want.Names)
			}
			r := again(t, n)
			for _, question := range []any{rows, asked, *asked, must(asked.With(data.Column{Name: c.target, Text: []string{"other", ""}}))} {
				if got, err := r.Predict(question); err != nil || !reflect.DeepEqual(got, want) {
					t.Errorf("%T: got %+v, %v, want %+v", question, got, err, want)
				}
			}
			if got, err := r.Predict(rows[0]); err != nil || !reflect.DeepEqual(got.Output, want.Output[:c.units]) {
				t.Errorf("got %v, %v, want %v", got, err, want)
			}
			if got, err := r.Encoder(); err != nil || !reflect.DeepEqual(got, x.Encoder) {
				t.Errorf("got %v, %v, want %v", got, err, x.Encoder)
			}
			if got, err := r.Data(name + "/train"); err != nil || !reflect.DeepEqual(got.Encoder, x.Encoder) {
				t.Errorf("set: got %v, %v", got, err)
			}
			for text, bad := range map[string]data.Row{
				`row 1 has no port: want`:                               {"age": 30, "class": 2},
				`row 1: port is "Osl": want one of "Bergen", "Oslo"`:    {"age": 30, "class": 2, "port": "Osl", "survived": "no"},
				`row 1: class is 1.5: want one of "1", "2", or nil `:    {"age": 30, "class": 1.5, "port": nil, "survived": "no"},
				`fit: ` + name + `: data: row 1: class is a list: want`: {"age": 30, "class": []any{}, "port": nil, "survived": "no"},
			} {
				if _, err := r.Predict(bad); err == nil || !strings.Contains(err.Error(), text) {
					t.Errorf("got %v, want %q", err, text)
				}
			}

			// An export.
			dir := filepath.Join(t.TempDir(), name)
			if err := r.Export(dir); err != nil {
				t.Fatal(err)
			}
			m := must(portable.Open(os.DirFS(dir), must(gobackend.New(""))))
			inputs := must(m.ParseInputs([]byte(`{"rows": [{"age": 30, "port": "Oslo", "class": 2, "survived": "yes"}, {"age": null, "port": "", "class": "1", "survived": null}]}`)))
			out := must(m.Predict(inputs...))
			for i, a := range m.Answers(out) {
				for k, y := range a.Output {
					if math.Abs(float64(y-want.Output[i*c.units+k])) > 1e-4 {
						t.Errorf("row %d: got %v, want %v", i, out, want.Output)
					}
				}
				switch name {
				case "scaled":
					if math.Abs(a.Value-want.Values[i]) > 1e-2 {
						t.Errorf("row %d: got %g, want %g", i, a.Value, want.Values[i])
					}
				default:
					if a.Class != want.Names[i] || (name == "softmax") != (a.Probabilities["yes"] > 0 && math.Abs(a.Probabilities["yes"]-want.Probabilities(i)[c.units-1]) < 1e-4) {
						t.Errorf("row %d: got %+v, want %s of %v", i, a, want.Names[i], want.Output)
					}
				}
			}

			// Weights in a file: the encoder is with them.
			file := filepath.Join(t.TempDir(), "w.safetensors")
			if err := n.SaveWeights(file); err != nil {
				t.Fatal(err)
			}
			if err := r.Reset(); err != nil {
				t.Fatal(err)
			}
			if _, err := r.Encoder(); err == nil || !strings.Contains(err.Error(), "no encoder: the net was trained on arrays, or not yet") {
				t.Errorf("after Reset: got %v", err)
			}
			loaded := New(name+"2", models.Net{Input: []int{x.Encoder.Width()}, Layers: n.model.Layers}, Config{Session: s, Loss: c.loss})
			if _, err := loaded.LoadWeights(file); err != nil {
				t.Fatal(err)
			}
			if got, err := loaded.Predict(rows); err != nil || !reflect.DeepEqual(got, want) {
				t.Errorf("loaded: got %+v, %v, want %+v", got, err, want)
			}
		})
	}
}

// TestEncoderOfLast holds that a net has the encoder of what it was last trained on, or none, and
// that a set that is uploaded again has its new one.
func TestEncoderOfLast(t *testing.T) {
	t.Parallel()
	s := open(t)
	n := attach(t, s, "last", models.Net{Input: []int{2}, Layers: []models.Layer{models.Dense{Units: 2}}}, Config{FirstLook: true})
	names := func(of ...string) *data.Encoder { return &data.Encoder{Classes: of} }
	x, y := []float32{1, 2, 3, 4}, []int32{0, 1}
	for i, e := range []*data.Encoder{nil, names("a", "b"), names("c", "d"), names("c", "d"), nil, names("e", "f")} {
		d := Data{X: x, Y: y, Encoder: e}
		set := load(t, n, "set", d)
		if set.Fresh != (i == 0) || !reflect.DeepEqual(set.Encoder, e) || !reflect.DeepEqual(must(again(t, n).Data("set")).Encoder, e) {
			t.Errorf("%d: set: got %v, want %v", i, set.Encoder, e)
		}
		if _, err := n.Fit(set, Train{Quiet: true}); err != nil {
			t.Fatal(err)
		}
		p := must(n.Predict(x))
		if (e == nil) != (p.Names == nil) || e != nil && p.Names[0] != e.Classes[p.Classes[0]] {
			t.Errorf("%d: got %v, want of %v", i, p.Names, e)
		}
		if other := must(again(t, n).Predict(x)); !reflect.DeepEqual(other, p) {
			t.Errorf("%d: another process: got %v, want %v", i, other, p)
		}
	}
	if list := must(s.List("data/set/")); len(list) != 4 {
		t.Errorf("got %v, want x, y, sum and the encoder", list)
	}

	// Streams and jobs.
	stream := must(n.Stream("stream", data.Batches(2, func(int) (Data, error) { return Data{X: x, Y: y, Encoder: names("g", "h")}, nil }), 2))
	if _, err := n.Fit(stream, Train{Quiet: true, Batch: 2}); err != nil || must(n.Encoder()).Classes[0] != "g" {
		t.Errorf("stream: got %v, %v", must(n.Encoder()), err)
	}
	job := must(n.FitJob(load(t, n, "job", Data{X: x, Y: y, Encoder: names("i", "j")}), Train{}))
	if _, err := job.Follow(t.Context(), nil); err != nil || must(n.Encoder()).Classes[0] != "i" {
		t.Errorf("job: got %v, %v", must(n.Encoder()), err)
	}

	// A training that fails before its first step has ended, and files without an encoder.
	if _, err := n.Fit(load(t, n, "bad", Data{X: []float32{1, 2, 3, float32(math.Inf(1))}, Y: y, Encoder: names("k", "l")}), Train{Quiet: true}); err == nil || must(n.Encoder()).Classes[0] != "i" {
		t.Errorf("a training without a step: got %v, %v", must(n.Encoder()), err)
	}
	fails := Train{Quiet: true, OnStep: func(*Control) error { return fmt.Errorf("after a step") }}
	if _, err := n.Fit(load(t, n, "bad", Data{X: x, Y: y, Encoder: names("m", "n")}), fails); err == nil || must(n.Encoder()).Classes[0] != "m" {
		t.Errorf("a training of one step: got %v, %v", must(n.Encoder()), err)
	}
	file := filepath.Join(t.TempDir(), "w.safetensors")
	if err := attach(t, s, "plain", n.model, Config{FirstLook: true}).SaveWeights(file); err != nil {
		t.Fatal(err)
	}
	if _, err := n.LoadWeights(file); err != nil {
		t.Fatal(err)
	}
	if e, err := n.Encoder(); err == nil {
		t.Errorf("weights without an encoder: got %v", e)
	}

	// An encoder that does not make such examples, and one whose target is not what the net learns.
	e := encoderOf("survived", true)
	d := must(e.Encode(passengers()))
	if _, err := n.Upload("wrong", Data{X: make([]float32, 48), Y: d.Y, Encoder: d.Encoder}); err == nil || !strings.Contains(err.Error(), "fit: wrong: the examples have other inputs than their Encoder makes: got x of 2, want x of 5; for examples that were changed") {
		t.Errorf("got %v", err)
	}
	auto := attach(t, s, "auto", models.Net{Input: []int{5}, Layers: []models.Layer{models.Dense{Units: 5}}}, Config{FirstLook: true})
	d.Y = SameX
	if set := load(t, auto, "same", d); set.Encoder.Classes != nil || len(set.Encoder.Categories) != 2 {
		t.Errorf("got %v, want columns and no target", set.Encoder)
	}
}

// TestOtherEncoder holds that what was encoded in another way than the training data is refused:
// by Predict if it is about the inputs, by Evaluate, and by the validation of a training.
func TestOtherEncoder(t *testing.T) {
	t.Parallel()
	s := open(t)
	n := attach(t, s, "others", models.Net{Input: []int{encoderOf("survived", true).Width()}, Layers: []models.Layer{models.Dense{Name: "out", Units: 2}}}, Config{FirstLook: true})
	train := load(t, n, "train", must(encoderOf("survived", true).Encode(passengers())))
	if _, err := n.Fit(train, Train{Epochs: 1}); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		want    string // "": nothing is wrong
		target  bool   // only that is wrong
		examine func(e *data.Encoder)
	}{
		{"", false, func(*data.Encoder) {}},
		{"column age: got mean 36, deviation", false, func(e *data.Encoder) { e.Numbers[0].Mean++ }},
		{"column port: got [Bergen Rome], want [Bergen Oslo]", false, func(e *data.Encoder) {
			i := slices.IndexFunc(e.Categories, func(c data.Category) bool { return c.Name == "port" })
			e.Categories[i].Values = []string{"Bergen", "Rome"}
		}},
		{"classes: got [no yes zombie], want [no yes]", true, func(e *data.Encoder) { e.Classes = []string{"no", "yes", "zombie"} }},
	} {
		e := encoderOf("survived", true)
		tt.examine(e)
		d := must(e.Encode(passengers()))
		set := load(t, n, "validation", d)
		_, predicted := n.Predict(d)
		_, predictedSet := n.Predict(set)
		_, evaluated := n.Evaluate(set)
		_, fitted := n.Fit(train, Train{Validation: set})
		job, started := n.FitJob(train, Train{Validation: set})
		if started == nil {
			if _, err := job.Follow(t.Context(), nil); err != nil {
				t.Error(err)
			}
		}
		for what, err := range map[string]error{"Predict of examples": predicted, "Predict of a set": predictedSet, "Evaluate": evaluated, "Fit": fitted, "FitJob": started} {
			wrong := tt.want != "" && (!tt.target || !strings.HasPrefix(what, "Predict"))
			if (err != nil) != wrong || wrong && !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%q, %s: got %v", tt.want, what, err)
			}
		}
	}
}
