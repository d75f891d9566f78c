package fit

import (
	"context"
	"errors"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/gomlx/compute/dtypes"
	. "github.com/gomlx/gomlx/core/graph"

	"gaiden/lib/fit/result"
	"gaiden/lib/fit/step"
	"gaiden/lib/losses"
	"gaiden/lib/lower/plan"
	"gaiden/lib/models"
	"gaiden/lib/optim"
)

// TestStepIsUsual holds that a step of your own that minimizes the loss of the net is the
// step without it: the same losses and weights, in a call and in a job.
func TestStepIsUsual(t *testing.T) {
	t.Parallel()
	s := open(t)
	usual := func(s *step.Step) { s.Minimize(losses.Mean(losses.CrossEntropy{}, s.Forward(s.X), s.Y)) }
	net := body()
	net.Layers = append(net.Layers[:2:2], models.Dropout{Name: "drop", Rate: 0.2}, net.Layers[2])
	for _, c := range []Config{{Seed: 3}, {Seed: 3, BF16: true}, {Seed: 3, Devices: 2, AllDevices: true}, {Seed: 4}} {
		a := attach(t, s, "usual", net, c)
		train := load(t, a, "bars", digits(72, []int{6}, 1))
		want, err := a.Fit(train, Train{Epochs: 2, Batch: 16})
		if err != nil {
			t.Fatal(err)
		}
		score, err := a.Evaluate(train)
		if err != nil {
			t.Fatal(err)
		}
		c.Step = usual
		b := attach(t, s, "own", net, c)
		if c.Seed == 4 {
			b.loop = plan.SingleSteps
		}
		got, err := b.Fit(train, Train{Epochs: 2, Batch: 16})
		if err != nil {
			t.Fatal(err)
		}
		for i := range want.Losses {
			if d := math.Abs(float64(got.Losses[i] - want.Losses[i])); d > 1e-5 {
				t.Errorf("%+v: loss %d is %v, want %v", c, i, got.Losses[i], want.Losses[i])
			}
		}
		mine, err := b.Evaluate(train)
		if err != nil || math.Abs(mine.Loss-score.Loss) > 1e-4*score.Loss || mine.Labels {
			t.Errorf("%+v: Evaluate: got %v, %v, want a loss of %v", c, mine, err, score.Loss)
		}
		if c.Devices == 0 && !c.BF16 && c.Seed == 3 {
			for _, n := range []*Net{a, b} {
				j, err := n.FitJob(train, Train{Epochs: 1, Batch: 16, Validation: train})
				if err != nil {
					t.Fatal(err)
				}
				h, err := j.Follow(context.Background(), nil)
				if err != nil || len(h.Losses) != 5 {
					t.Fatalf("job: %v, %v", h, err)
				}
			}
		}
		x, y := weightsOf(t, a), weightsOf(t, b)
		for name := range x {
			for i := range x[name] {
				if d := math.Abs(float64(x[name][i] - y[name][i])); d > 1e-5 {
					t.Errorf("%+v: number %d of %s is %v, want %v", c, i, name, y[name][i], x[name][i])
				}
			}
		}
		for _, n := range []*Net{a, b} {
			if err := n.Reset(); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// gan is a generator of points on a line, and its critic.
func gan() (models.Net, Config) {
	generator := models.Net{Name: "generator", Input: []int{4}, Layers: []models.Layer{models.Dense{Units: 16, Act: models.ReLU}, models.Dense{Name: "out", Units: 2}}}
	critic := models.Net{Name: "critic", Input: []int{2}, Layers: []models.Layer{models.Dense{Units: 16, Act: models.ReLU}, models.Dense{Name: "out", Units: 1}}}
	return models.Parts("gan", []int{2}, generator, critic), Config{Seed: 1,
		Optimizer: optim.Groups{Optimizer: optim.Adam{LearningRate: 1e-3, Beta1: 0.5}, Groups: []optim.Group{{Names: []string{"critic/*"}, Rate: 4}}},
		Step: func(s *step.Step) {
			n := s.X.Shape().Dimensions[0]
			fake := s.Apply("generator", s.Normal(n, 4))
			bce := func(points *Node, real float64) *Node {
				logits := s.Apply("critic", points)
				return losses.Mean(losses.BinaryCrossEntropy{}, logits, AddScalar(ZerosLike(logits), real))
			}
			loss := Add(bce(s.X, 1), bce(StopGradient(fake), 0))
			s.Minimize(loss, "critic")
			s.Report("critic", loss)
			s.Minimize(bce(fake, 1), "generator")
		}}
}

// TestGAN holds that two nets with two losses learn: what the generator makes comes to lie
// where the examples do; twice alike from one seed; and that a part predicts by itself.
func TestGAN(t *testing.T) {
	t.Parallel()
	s := open(t)
	points := make([]float32, 2*256)
	for i := range 256 {
		points[2*i], points[2*i+1] = 3+float32(i%16)/16, -2
	}
	var first []float32
	for run := range 2 {
		m, c := gan()
		n := attach(t, s, "gan", m, c)
		train := load(t, n, "points", Data{X: points})
		h, err := n.Fit(train, Train{Epochs: 60, Batch: 32})
		if err != nil {
			t.Fatal(err)
		}
		if run == 0 {
			first = h.Losses
			score, err := n.Evaluate(train)
			if err != nil {
				t.Fatal(err)
			}
			j, err := n.FitJob(train, Train{Epochs: 1, Batch: 32, Validation: train})
			if err != nil {
				t.Fatal(err)
			}
			after, err := j.Follow(context.Background(), nil)
			if err != nil || math.IsNaN(after.Last().Train.Metric("critic")) || math.IsNaN(after.Last().Validation.Metric("critic")) {
				t.Errorf("job: got %v, %v, want the critic's loss", after, err)
			}
			for what, got := range map[string]Score{"Fit": h.Last().Train, "Evaluate": *score} {
				if v := got.Metric("critic"); !(v > 0 && v < got.Loss) {
					t.Errorf("%s reports a loss of %v of the critic: want more than 0 and less than that of both, %v", what, v, got.Loss)
				}
			}
			p, err := n.Part("generator").Predict([]float32{1, 0, 0.5, -1, 0, 1, -0.5, 1})
			if err != nil {
				t.Fatal(err)
			}
			for i := range 2 {
				if x, y := float64(p.Output[2*i]), float64(p.Output[2*i+1]); math.Abs(x-3.5) > 1.5 || math.Abs(y+2) > 1 {
					t.Errorf("point %d is at %v, %v: want it near 3.5, -2", i, x, y)
				}
			}
			w, err := n.Part("critic").Weights()
			if err != nil || len(w) != 4 || w[0].Name != "critic/dense/weights" {
				t.Errorf("weights of the critic: got %v, %v", w, err)
			}
			for what, err := range map[string]error{"fit": second(n.Part("critic").Fit(train, Train{})), "reset": n.Part("critic").Reset(), "whole": second(n.Predict(points)), "none": second(n.Part("judge").Predict(points)),
				"phases": second(n.Phases(train, 8)), "recipe": second(n.recipe())} {
				want := map[string]string{"fit": "does not change by itself", "reset": "does not change by itself", "whole": "net of parts", "none": `no part "judge"`, "phases": "Config.Step", "recipe": "Config.Step"}[what]
				if err == nil || !strings.Contains(err.Error(), want) {
					t.Errorf("%s: got %v, want %q", what, err, want)
				}
			}
		} else if !slices.Equal(h.Losses, first) {
			t.Error("the same seed gave other losses")
		}
		if err := n.Reset(); err != nil {
			t.Fatal(err)
		}
	}
}

func second[T any](_ T, err error) error { return err }

// TestPhysics holds that second derivatives by the net's input train it: u″ = -u with
// u(0) = 0 and u′(0) = 1 has the solution sin.
func TestPhysics(t *testing.T) {
	t.Parallel()
	s := open(t)
	net := models.Net{Name: "u", Input: []int{1}, Layers: []models.Layer{models.Dense{Units: 24, Act: Tanh}, models.Dense{Units: 24, Act: Tanh}, models.Dense{Name: "u", Units: 1}}}
	n := attach(t, s, "pinn", net, Config{Seed: 1, Optimizer: optim.Adam{LearningRate: 5e-3}, Step: func(s *step.Step) {
		slope := func(x *Node) (u, du *Node) {
			u = s.Forward(x)
			return u, Gradient(ReduceAllSum(u), x)[0]
		}
		u, du := slope(s.X)
		ddu := Gradient(ReduceAllSum(du), s.X)[0]
		u0, du0 := slope(Zeros(s.X.Graph(), s.X.Shape()))
		s.Minimize(Add(ReduceAllMean(Square(Add(ddu, u))), Add(ReduceAllMean(Square(u0)), ReduceAllMean(Square(AddScalar(du0, -1))))))
	}})
	x := make([]float32, 64)
	for i := range x {
		x[i] = float32(i) / 32
	}
	train := load(t, n, "line", Data{X: x})
	if _, err := n.Fit(train, Train{Epochs: 400, Batch: 64}); err != nil {
		t.Fatal(err)
	}
	p, err := n.Predict([]float32{0.5, 1, 1.5})
	if err != nil {
		t.Fatal(err)
	}
	for i, x := range []float64{0.5, 1, 1.5} {
		if d := math.Abs(float64(p.Output[i]) - math.Sin(x)); d > 0.05 {
			t.Errorf("u(%v) is %v: want %v", x, p.Output[i], math.Sin(x))
		}
	}
}

// TestFollow holds that a frozen part takes its share of another one's new weights in each
// step, the means of its batch norms too, and that Evaluate changes nothing.
func TestFollow(t *testing.T) {
	t.Parallel()
	s := open(t)
	part := func(name string) models.Net {
		return models.Net{Name: name, Input: []int{6}, Layers: []models.Layer{models.Dense{Name: "dense", Units: 3}, models.BatchNorm{Name: "norm"}}}
	}
	frozen := optim.Groups{Optimizer: optim.SGD{LearningRate: 0.1}, Groups: []optim.Group{{Names: []string{"teacher/*"}, Frozen: true}}}
	n := attach(t, s, "follow", models.Parts("follow", []int{6}, part("student"), part("teacher")), Config{Seed: 1, Optimizer: frozen, Step: func(s *step.Step) {
		s.Minimize(ReduceAllMean(Square(Sub(s.Apply("student", s.X), StopGradient(s.Apply("teacher", s.X))))), "student")
		s.Follow("teacher", "student", 0.75)
	}})
	train := load(t, n, "x", Data{X: digits(16, []int{6}, 1).X})
	before := weightsOf(t, n)
	if _, err := n.Evaluate(train); err != nil {
		t.Fatal(err)
	}
	if _, err := n.Fit(train, Train{Steps: 1, Batch: 16}); err != nil {
		t.Fatal(err)
	}
	after := weightsOf(t, n)
	for name, was := range before {
		of, is := strings.CutPrefix(name, "teacher/")
		for i := range was {
			if !is {
				break
			}
			if want := 0.75*was[i] + 0.25*after["student/"+of][i]; math.Abs(float64(after[name][i]-want)) > 1e-6 {
				t.Errorf("%s[%d]: got %v, want %v", name, i, after[name][i], want)
			}
		}
	}
	if slices.Equal(before["student/dense/weights"], after["student/dense/weights"]) || slices.Equal(before["teacher/norm/mean"], after["teacher/norm/mean"]) {
		t.Errorf("got weights %v as before", after)
	}
}

// TestPartsOfInputs holds that a net of parts takes examples of several arrays, integers among them.
func TestPartsOfInputs(t *testing.T) {
	t.Parallel()
	s := open(t)
	one := func(name string) models.Net {
		return models.Net{Name: name, Input: []int{2}, Layers: []models.Layer{models.Dense{Name: "w", Units: 3, Init: models.Fill(0.5)}}}
	}
	m := models.Parts("agent", nil, one("actor"), one("critic"))
	m.Inputs = []models.Input{{Name: "action", Integers: true, Vocab: 3}, {Name: "state", Dims: []int{2}}}
	n := attach(t, s, "agent", m, Config{Optimizer: optim.SGD{LearningRate: 1}, Step: func(s *step.Step) {
		chosen := OneHot(s.In["action"], 3, dtypes.Float32)
		s.Minimize(Neg(ReduceAllMean(Mul(chosen, s.Apply("actor", s.In["state"])))), "actor")
		s.Minimize(ReduceAllMean(s.Apply("critic", s.In["state"])), "critic")
	}})
	set := load(t, n, "played", Data{X: Inputs{"action": []int32{2, 0}, "state": []float32{6, 0, 0, 12}}})
	if _, err := n.Fit(set, Train{Steps: 1, Batch: 2}); err != nil {
		t.Fatal(err)
	}
	if _, err := n.Summary(); err != nil {
		t.Error(err)
	}
	got := weightsOf(t, n)
	for name, want := range map[string][]float32{"actor/w/weights": {0.5, 0.5, 1.5, 2.5, 0.5, 0.5}, "critic/w/weights": {-0.5, -0.5, -0.5, -1.5, -1.5, -1.5}} {
		for i := range want {
			if math.Abs(float64(got[name][i]-want[i])) > 1e-6 {
				t.Errorf("%s: got %v, want %v", name, got[name], want)
				break
			}
		}
	}
	for name, want := range map[string]float64{"actor": 5.5 + 1./6, "critic": -3.5 - 1./3} {
		if p, err := n.Part(name).Predict([]float32{1, 2, 3, 4}); err != nil || len(p.Output) != 6 || math.Abs(float64(p.Output[0])-want) > 1e-5 {
			t.Errorf("Predict of %s: got %v, %v, want %v first", name, p, err, want)
		}
	}
}

// TestStepCounts holds that an optimizer that is used several times in a step counts its own
// steps, as PyTorch's do: two of Adam in one step are two.
func TestStepCounts(t *testing.T) {
	t.Parallel()
	s := open(t)
	net := models.Net{Name: "w", Input: []int{1}, Layers: []models.Layer{models.Dense{Name: "w", Units: 1}}}
	loss := func(s *step.Step) *Node { return ReduceAllMean(Square(Sub(s.Forward(s.X), s.Y))) }
	data := Data{X: []float32{1, 2}, Y: []float32{3, -1}}
	twice := attach(t, s, "twice", net, Config{Seed: 1, Step: func(s *step.Step) { s.Minimize(loss(s)); s.Minimize(loss(s)) }})
	once := attach(t, s, "once", net, Config{Seed: 1, Step: func(s *step.Step) { s.Minimize(loss(s)) }})
	if _, err := twice.Fit(load(t, twice, "two", data), Train{Epochs: 3, Batch: 2, InOrder: true}); err != nil {
		t.Fatal(err)
	}
	if _, err := once.Fit(load(t, once, "two", data), Train{Epochs: 6, Batch: 2, InOrder: true}); err != nil {
		t.Fatal(err)
	}
	a, b := weightsOf(t, twice), weightsOf(t, once)
	for name := range a {
		if math.Abs(float64(a[name][0]-b[name][0])) > 1e-7 {
			t.Errorf("%s: two Minimize in 3 steps give %v, one in 6 %v", name, a[name], b[name])
		}
	}
}

// TestStepNotFinite holds that a step of your own whose loss is no number ends the run, with the
// example that is to blame and the weights from before.
func TestStepNotFinite(t *testing.T) {
	t.Parallel()
	s := open(t)
	m, c := gan()
	n := attach(t, s, "gan", m, c)
	points := make([]float32, 2*64)
	points[2*40] = float32(math.NaN())
	train := load(t, n, "points", Data{X: points})
	_, err := n.Fit(train, Train{Batch: 16, InOrder: true})
	var wrong *result.NotFiniteError
	if !errors.As(err, &wrong) || wrong.Data != "points" || wrong.Example != 40 {
		t.Errorf("got %v, want example 40 of points", err)
	}
	for name, w := range weightsOf(t, n) {
		if slices.ContainsFunc(w, func(x float32) bool { return x != x }) {
			t.Errorf("%s has numbers that are none", name)
		}
	}
	for what, d := range map[string]Data{"3 targets": {X: points, Y: []int32{1, 2, 3}}, "3 weights in V": {X: points, Y: make([]int32, 64), V: []float32{1, 2, 3}}, "65 weights in V": {X: points, V: make([]float32, 65)}} {
		if _, err := n.Upload("wrong", d); err == nil || !strings.Contains(err.Error(), what) {
			t.Errorf("got %v, want %q", err, what)
		}
	}
}

// TestStepValues holds that V has numbers of any sign for a step of your own, such as rewards of at
// most 0, one or several an example, with targets or without, also in a set that is found.
func TestStepValues(t *testing.T) {
	t.Parallel()
	s := open(t)
	for width := 1; width <= 2; width++ {
		net := models.Net{Input: []int{1}, Layers: []models.Layer{models.Dense{Name: "d", Units: width, NoBias: true, Init: models.Fill(0)}}}
		n := attach(t, s, "net"+itoa(width), net, Config{FirstLook: true, Optimizer: optim.SGD{LearningRate: 1}, Step: func(s *step.Step) {
			s.Minimize(ReduceAllSum(Mul(Reshape(s.V, s.Forward(s.X).Shape().Dimensions...), s.Forward(s.X))))
		}})
		for k, d := range []Data{{V: []float32{-1, 0, -2, 0}[:2*width]}, {V: make([]float32, 2*width)}, {Y: make([]int32, 2*width), V: []float32{-1, 0, -2, 0}[:2*width]}} {
			d.X = []float32{1, 1}
			load(t, n, "values", d)
			set, err := attach(t, s, n.name, net, n.config).Data("values")
			if err != nil {
				t.Fatal(err)
			}
			if err := n.Reset(); err != nil {
				t.Fatal(err)
			}
			if _, err := n.Fit(set, Train{Quiet: true}); err != nil {
				t.Errorf("%d values, case %d: %v", width, k, err)
				continue
			}
			want := -(d.V[0] + d.V[width])
			if got := weightsOf(t, n)["d/weights"][0]; got != want {
				t.Errorf("%d values, case %d: got a weight of %g, want %g", width, k, got, want)
			}
		}
	}
}

// TestStepRefused holds what is said of a step that means nothing, before anything is trained.
func TestStepRefused(t *testing.T) {
	t.Parallel()
	s := open(t)
	for name, tt := range map[string]struct {
		of   func(*step.Step)
		want string
	}{
		"nothing":  {func(*step.Step) {}, "Config.Step minimizes nothing"},
		"vector":   {func(s *step.Step) { s.Minimize(s.X) }, "Step.Minimize: got (Float32)[8, 6], want a float32 scalar"},
		"layer":    {func(s *step.Step) { s.Minimize(ReduceAllMean(s.X), "boddy") }, `Step.Minimize of "boddy": want layers or parts of body: body, relu, head`},
		"apply":    {func(s *step.Step) { s.Apply("hed", s.X) }, `Step.Apply of "hed"`},
		"weights":  {func(s *step.Step) { s.Minimize(ReduceAllMean(s.X), "relu") }, "got no weights that are trained"},
		"follow":   {func(s *step.Step) { s.Follow("body", "head", 0.9) }, `the second has no dense/`},
		"decay":    {func(s *step.Step) { s.Follow("body", "body", 1) }, "Step.Follow: decay is 1"},
		"nobody":   {func(s *step.Step) { s.Follow("relu", "body", 0) }, `Step.Follow of "relu": want a part with weights`},
		"name":     {func(s *step.Step) { s.Report("loss", ReduceAllMean(s.X)) }, `Step.Report of "loss"`},
		"twice":    {func(s *step.Step) { s.Report("a", ReduceAllMean(s.X)); s.Report("a", ReduceAllMean(s.X)) }, `Step.Report of "a"`},
		"building": {func(s *step.Step) { s.Minimize(ReduceAllMean(Add(s.X, Ones(s.X.Graph(), s.Forward(s.X).Shape())))) }, "fit: refused: program step"},
	} {
		n := attach(t, s, "refused", body(), Config{Step: tt.of})
		train := load(t, n, "bars", digits(8, []int{6}, 1))
		if _, err := n.Fit(train, Train{}); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: got %v, want %q", name, err, tt.want)
		}
		if err := n.Reset(); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := Attach(s, "both", body(), Config{Step: func(*step.Step) {}, Loss: losses.MSE{}}); err == nil || !strings.Contains(err.Error(), "Config.Step is set with Config.Loss") {
		t.Errorf("a step and a loss: got %v", err)
	}
	two := attach(t, s, "two", body(), Config{Step: func(s *step.Step) { ownStep("body")(s); s.Minimize(ReduceAllMean(s.Forward(s.X)), "head") }})
	if _, err := two.Fit(load(t, two, "bars", digits(8, []int{6}, 1)), Train{Batch: 8, Accumulate: 2}); err == nil || !strings.Contains(err.Error(), "calls Minimize 2 times") {
		t.Errorf("parts of a batch for two losses: got %v", err)
	}
	m, _ := gan()
	if _, err := Attach(s, "parts", m, Config{}); err == nil || !strings.Contains(err.Error(), "no Config.Step") {
		t.Errorf("parts without a step: got %v", err)
	}
}

// TestMinimizeTwice holds that a loss after a step of others sees their new weights, and has no
// gradient by way of that step.
func TestMinimizeTwice(t *testing.T) {
	t.Parallel()
	s := open(t)
	one := func(name string, weight float64) models.Net {
		return models.Net{Name: name, Input: []int{1}, Layers: []models.Layer{models.Dense{Name: "d", Units: 1, NoBias: true, Init: models.Fill(weight)}}}
	}
	n := attach(t, s, "twice", models.Parts("twice", []int{1}, one("a", 3), one("b", 2)), Config{Optimizer: optim.SGD{LearningRate: 0.1}, Step: func(s *step.Step) {
		product := func() *Node { return s.Apply("b", s.Apply("a", s.X)) }
		s.Minimize(ReduceAllMean(Square(product())), "a") // a - 0.1·2·a·b² = 0.6
		s.Minimize(ReduceAllMean(product()), "b")         // b - 0.1·a = 1.94
	}})
	if _, err := n.Fit(load(t, n, "one", Data{X: []float32{1}}), Train{Batch: 1}); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]float32{"a/d/weights": 0.6, "b/d/weights": 1.94} {
		if got := weightsOf(t, n)[name][0]; math.Abs(float64(got-want)) > 1e-5 {
			t.Errorf("%s is %v, want %v", name, got, want)
		}
	}
}

// TestPartOfList holds that the layers of a list, one after the other, are the net.
func TestPartOfList(t *testing.T) {
	t.Parallel()
	s := open(t)
	net := models.Net{Name: "list", Input: []int{5}, Layers: []models.Layer{
		models.Embedding{Name: "tokens", Vocab: 7, Units: 6}, models.LSTM{Name: "lstm", Units: 4}, models.LastStep{}, models.BatchNorm{Name: "norm"}, models.Dense{Name: "head", Units: 3}}}
	n := attach(t, s, "list", net, Config{Seed: 1, Optimizer: optim.EMA{Decay: 0.5, Optimizer: optim.Adam{}}})
	ids := []int{1, 2, 3, 4, 5, 6, 0, 1, 2, 3}
	train := load(t, n, "ids", Data{X: ids, Y: []int{0, 2}})
	if _, err := n.Fit(train, Train{Epochs: 3}); err != nil {
		t.Fatal(err)
	}
	want, err := n.Predict(ids)
	if err != nil {
		t.Fatal(err)
	}
	var x any = ids
	for _, name := range n.model.Names() {
		p, err := n.Part(name).Predict(x)
		if err != nil {
			t.Fatal(err)
		}
		x = p.Output
	}
	if !slices.Equal(x.([]float32), want.Output) {
		t.Errorf("got %v of the layers, want %v", x, want.Output)
	}
	if w, err := n.Part("head").Weights(); err != nil || len(w) != 2 {
		t.Errorf("got %v, %v of the last layer, want two arrays", w, err)
	}
	if _, err := n.Part("hed").Predict(ids); err == nil || !strings.Contains(err.Error(), `no part "hed": want one of tokens, lstm, laststep, norm, head`) {
		t.Errorf("got %v", err)
	}
}
