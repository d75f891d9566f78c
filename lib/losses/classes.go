package losses

import (
	"fmt"
	"math"

	"github.com/gomlx/compute/dtypes"
	. "github.com/gomlx/gomlx/core/graph"
)

// CrossEntropy is -log of the probability of the right class, for logits [n … classes] and
// labels [n …]: one label an example, or one for each position of its output, of which it
// takes the mean. [gaiden/lib/fit.Net.Upload] makes labels of one-hot rows. The settings and
// their effect are those of PyTorch's CrossEntropyLoss.
type CrossEntropy struct {
	// Smoothing is the part of the probability that is spread over all classes: 0 or more,
	// and less than 1.
	Smoothing float64
	// IgnoreNegative gives labels below 0 no weight, as PyTorch's -100 have none.
	IgnoreNegative bool
	// ClassWeights has the weight of each class; default: 1.
	ClassWeights []float64
	// Gamma makes labels that are right already count less: focal loss (Lin et al., 2017); 0:
	// it does not.
	Gamma float64
}

func (CrossEntropy) Title() string { return "cross entropy" }

// Plain reports whether no setting is used.
func (l CrossEntropy) Plain() bool {
	return l.Smoothing == 0 && l.Gamma == 0 && !l.IgnoreNegative && l.ClassWeights == nil
}

func (l CrossEntropy) check(classes int) error {
	if !(l.Smoothing >= 0 && l.Smoothing < 1) {
		return fmt.Errorf("Smoothing is %g: want 0 or more, and less than 1", l.Smoothing)
	}
	if !(l.Gamma >= 0) || math.IsInf(l.Gamma, 0) {
		return fmt.Errorf("Gamma is %g: want 0 or more", l.Gamma)
	}
	sum := 0.0
	for i, w := range l.ClassWeights {
		if !(w >= 0) || math.IsInf(w, 0) {
			return fmt.Errorf("ClassWeights[%d] is %g: want 0 or more", i, w)
		}
		sum += w
	}
	if l.ClassWeights != nil && (classes > 0 && len(l.ClassWeights) != classes || sum == 0) {
		of := ""
		if classes > 0 {
			of = fmt.Sprintf(" of %d classes", classes)
		}
		return fmt.Errorf("ClassWeights has %d weights, %g in all: want one for each%s, and more than 0 in all", len(l.ClassWeights), sum, of)
	}
	return nil
}

// Rows are the losses […] of each label alone, of one that is Plain.
func (l CrossEntropy) Rows(logits, labels *Node) *Node {
	z := Sub(logits, StopGradient(ReduceAndKeep(logits, ReduceMax, -1)))
	right := OneHot(labels, logits.Shape().Dimensions[logits.Rank()-1], z.DType())
	return Sub(Log(ReduceSum(Exp(z), -1)), ReduceSum(Mul(z, right), -1))
}

// Examples are Apply's results for what Rows returns.
func (l CrossEntropy) Examples(rows, v *Node) (loss, weight *Node) {
	switch {
	case v != nil:
		return weighted(rows, v)
	case rows.Rank() > 1:
		return rowMeans(rows), nil
	}
	return rows, nil
}

// Apply subtracts the largest logit first, so that nothing overflows.
func (l CrossEntropy) Apply(logits, labels, v *Node) (loss, weight *Node) {
	d := logits.Shape().Dimensions
	classes := d[len(d)-1]
	must(l, classes)
	if l.Plain() {
		return l.Examples(l.Rows(logits, labels), v)
	}
	z := Sub(logits, StopGradient(ReduceAndKeep(logits, ReduceMax, -1)))
	right := OneHot(labels, classes, z.DType()) // all 0 for a label that is none
	normal := Log(ReduceSum(Exp(z), -1))
	of := func(target *Node) *Node {
		return Sub(Mul(normal, ReduceSum(target, -1)), ReduceSum(Mul(z, target), -1))
	}
	counts := OnesLike(z) // how much each class counts
	if l.ClassWeights != nil {
		counts = BroadcastToDims(ExpandLeftToRank(ConvertDType(Const(z.Graph(), l.ClassWeights), z.DType()), z.Rank()), d...)
	}
	each := ReduceSum(Mul(right, counts), -1) // how much each label counts
	target := MulScalar(Mul(right, counts), 1-l.Smoothing)
	if l.Smoothing > 0 {
		known := ConvertDType(GreaterOrEqual(labels, ZerosLike(labels)), z.DType())
		spread := Mul(counts, BroadcastToDims(InsertAxes(known, -1), d...))
		target = Add(target, MulScalar(spread, l.Smoothing/float64(classes)))
	}
	loss = of(target)
	if l.Gamma > 0 { // of the probability of the label
		p := Exp(Sub(ReduceSum(Mul(z, right), -1), normal))
		loss = Mul(loss, Pow(MaxScalar(OneMinus(p), 1e-7), Scalar(z.Graph(), z.DType(), l.Gamma)))
	}
	if v != nil {
		v = Spread(v, each)
		loss, each = Mul(loss, v), Mul(each, v)
	}
	return rowSums(loss), StopGradient(rowSums(each))
}

// BinaryCrossEntropy is the cross entropy of numbers that are each a class of its own or
// not: out are logits, and y, of the same shape, says how probable each is, 0 to 1. It is
// PyTorch's BCEWithLogitsLoss.
type BinaryCrossEntropy struct {
	// Gamma makes what is right already count less: focal loss (Lin et al., 2017); 0: it does
	// not.
	Gamma float64
	// Positive is how much the classes that are there count, compared with those that are
	// not; default: 1.
	Positive float64
}

func (BinaryCrossEntropy) Title() string { return "binary cross entropy" }

func (l BinaryCrossEntropy) check(int) error {
	for name, v := range map[string]float64{"Gamma": l.Gamma, "Positive": l.Positive} {
		if !(v >= 0) || math.IsInf(v, 0) {
			return fmt.Errorf("%s is %g: want 0 or more", name, v)
		}
	}
	return nil
}

// Apply takes out and y of one shape [n …].
func (l BinaryCrossEntropy) Apply(out, y, v *Node) (loss, weight *Node) {
	must(l, 0)
	y = seen(y, v)
	softplus := func(x *Node) *Node { // log(1 + eˣ), without overflow
		more := Max(x, ZerosLike(x))
		return Add(more, Log1P(Exp(Sub(x, MulScalar(more, 2))))) // -|x|, with which the slope at 0 is 1/2
	}
	yes, no := softplus(Neg(out)), softplus(out) // -log of the probability of either
	if l.Positive > 0 {
		yes = MulScalar(yes, l.Positive)
	}
	loss = Add(Mul(y, yes), Mul(OneMinus(y), no))
	if l.Gamma > 0 {
		p := Sigmoid(out)
		wrong := Add(Mul(y, OneMinus(p)), Mul(OneMinus(y), p))
		loss = Mul(loss, Pow(MaxScalar(wrong, 1e-7), Scalar(out.Graph(), dtypes.Float32, l.Gamma)))
	}
	return weighted(loss, v)
}

// KLDivergence is the sum of y·(log y - log p), where p is the softmax of out along its last
// axis and y a distribution there: PyTorch's KLDivLoss of log-softmax, with "batchmean".
type KLDivergence struct{}

func (KLDivergence) Title() string { return "Kullback-Leibler divergence" }

// Apply takes out and y of one shape [n … classes].
func (KLDivergence) Apply(out, y, v *Node) (loss, weight *Node) {
	y = seen(y, v)
	z := Sub(out, StopGradient(ReduceAndKeep(out, ReduceMax, -1)))
	p := Sub(z, BroadcastToDims(Log(ReduceAndKeep(Exp(z), ReduceSum, -1)), z.Shape().Dimensions...))
	none := Equal(y, ZerosLike(y)) // 0·log 0 is 0
	entropy := Mul(y, Log(Where(none, OnesLike(y), y)))
	return weightedExamples(rowSums(Sub(entropy, Mul(y, p))), v)
}
