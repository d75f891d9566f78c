package fit

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"math"
	"testing"

	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/ml/model"

	"gaiden/lib/losses"
	"gaiden/lib/models"
	"gaiden/lib/optim"
)

//go:embed testdata/trainings.json
var trainingsJSON []byte

// trainingCase is one of testdata/trainings.py.
type trainingCase struct {
	Settings struct {
		Labels, Norm, Ignore, Groups, EachEpoch      bool
		Steps, Accumulate                            int
		Decay, Smoothing, Gamma, ClipNorm, ClipValue float64
		ClassWeights                                 []float64
		Weights, Optimizer, Average, Schedule        string
	}
	Losses, Validation, Predicted []float64
	Weights                       map[string][]float64
}

// decaying is a layer whose weights add to the loss.
type decaying struct {
	models.Dense
	by float64
}

func (l decaying) Apply(scope *model.Scope, x *Node) *Node {
	y := l.Dense.Apply(scope, x)
	if l.by > 0 {
		models.AddLoss(MulScalar(ReduceAllSum(Square(scope.GetVariable("weights").NodeValue(x.Graph()))), l.by))
	}
	return y
}

func (c trainingCase) net() models.Net {
	net := models.Net{Name: "net", Input: []int{3}, Layers: []models.Layer{models.Dense{Name: "l1", Units: 6, Act: models.Act(Tanh)}}}
	if c.Settings.Steps > 0 {
		net.Input = []int{c.Settings.Steps, 3}
	}
	if c.Settings.Norm {
		net.Layers = append(net.Layers, models.BatchNorm{Name: "bn"})
	}
	net.Layers = append(net.Layers, decaying{models.Dense{Name: "l2", Units: 4}, c.Settings.Decay})
	return net
}

func (c trainingCase) loss() losses.Loss {
	if x := c.Settings; x.Labels {
		return losses.CrossEntropy{Smoothing: x.Smoothing, IgnoreNegative: x.Ignore, ClassWeights: x.ClassWeights, Gamma: x.Gamma}
	}
	return losses.MSE{}
}

func (c trainingCase) optimizer() optim.Optimizer {
	o := map[string]optim.Optimizer{"momentum": optim.SGD{LearningRate: 0.05, Momentum: 0.9, WeightDecay: 0.01}, "adam": optim.Adam{LearningRate: 0.05, WeightDecay: 0.01},
		"adamw": optim.AdamW{LearningRate: 0.05, WeightDecay: 0.1}}[c.Settings.Optimizer]
	if c.Settings.Groups {
		o = optim.Groups{Optimizer: o, Groups: []optim.Group{{Names: []string{"l1/biases"}, Frozen: true}, {Names: []string{"l2/weights"}, Rate: 0.5, NoDecay: true}, {Names: []string{"*"}, Decay: 3}}}
	}
	if s := map[string]optim.Schedule{"cosine": optim.WarmupCosine{Warmup: 2, Steps: 7, End: 0.1}, "one cycle": optim.OneCycle{Steps: 9}, "step": optim.StepDecay{Every: 2, By: 0.5}}[c.Settings.Schedule]; s != nil {
		o = optim.Scheduled{Optimizer: o, Schedule: s}
	}
	if c.Settings.ClipNorm+c.Settings.ClipValue > 0 {
		o = optim.Clipped{Optimizer: o, Norm: c.Settings.ClipNorm, Value: c.Settings.ClipValue}
	}
	switch c.Settings.Average {
	case "EMA":
		o = optim.EMA{Optimizer: o, Decay: 0.8}
	case "SWA":
		o = optim.SWA{Optimizer: o, Start: 2, Every: 3}
	}
	return o
}

func (c trainingCase) data(name string, n int) Data {
	positions := max(1, c.Settings.Steps)
	d := Data{X: formula(name+"/x", n*positions*3)}
	targets := n * positions
	if c.Settings.Labels {
		labels := make([]int32, targets)
		ignored := formula(name+"/ignored", targets)
		for i, y := range formula(name+"/y", targets) {
			if labels[i] = int32((float64(y) + 0.5) * 4); c.Settings.Ignore && ignored[i] < -0.2 {
				labels[i] = -100
			}
		}
		d.Y = labels
	} else {
		targets *= 4
		d.Y = formula(name+"/y", targets)
	}
	if c.Settings.Weights != "" {
		if c.Settings.Weights == "examples" {
			targets = n
		}
		for _, v := range formula(name+"/v", targets) {
			d.V = append(d.V, max(0, v+0.25))
		}
	}
	return d
}

// TestTrainings holds whole trainings to PyTorch's, with random settings that act on each other:
// weights of examples and of targets, labels and classes that do not count, parts of a batch, a
// smaller last batch, clipping, schedules, groups, averages and additions to the loss.
func TestTrainings(t *testing.T) {
	t.Parallel()
	var cases []trainingCase
	if err := json.Unmarshal(trainingsJSON, &cases); err != nil {
		t.Fatal(err)
	}
	s := open(t)
	for i, c := range cases {
		n := attach(t, s, "net", c.net(), Config{Optimizer: c.optimizer(), Loss: c.loss(), FirstLook: true})
		weights := formulaWeights(n)
		if c.Settings.Groups {
			weights = append(weights, Tensor{Name: "l1/biases", Dims: []int{6}, Data: formula("l1/biases", 6)}) // which is frozen
		}
		if err := n.SetWeights(weights); err != nil {
			t.Fatal(err)
		}
		train, test := load(t, n, fmt.Sprint("train", i), c.data("train", 22)), load(t, n, fmt.Sprint("test", i), c.data("test", 7))
		near := func(what string, got, want float64) {
			t.Helper()
			if !(math.Abs(got-want) <= 2e-4*(1+math.Abs(want))) {
				t.Errorf("case %d, %+v: %s is %v, want %v", i, c.Settings, what, got, want)
			}
		}
		settings := Train{Epochs: 3, Batch: 8, Accumulate: c.Settings.Accumulate, InOrder: true, Validation: test}
		if c.Settings.EachEpoch {
			settings.Epochs = 1
		}
		for epoch := 0; epoch < 3; epoch += settings.Epochs {
			h, err := n.Fit(train, settings)
			if err != nil {
				t.Fatal(err)
			}
			for k, x := range h.Losses {
				near(fmt.Sprintf("loss %d of epoch %d", k, epoch), float64(x), c.Losses[3*epoch+k])
			}
			for k, e := range h.Epochs {
				near(fmt.Sprintf("validation %d", epoch+k), e.Validation.Loss, c.Validation[epoch+k])
			}
		}
		for name, w := range weightsOf(t, n) {
			for k, x := range w {
				near(fmt.Sprintf("number %d of %s", k, name), float64(x), c.Weights[name][k])
			}
		}
		p, err := n.Predict(test)
		if err != nil {
			t.Fatal(err)
		}
		for k, x := range p.Output {
			near(fmt.Sprintf("prediction %d", k), float64(x), c.Predicted[k])
		}
		if err := n.Reset(); err != nil {
			t.Fatal(err)
		}
	}
}
