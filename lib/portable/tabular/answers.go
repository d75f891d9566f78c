package tabular

import (
	"encoding/json"
	"math"
)

// Reading says how the numbers that a net returns for an example are read.
type Reading string

const (
	Softmax Reading = "softmax" // a number for each class, the logarithms of their odds
	Largest Reading = "largest" // a number for each class, of which the largest counts
	Sigmoid Reading = "sigmoid" // one number, the logarithm of the odds of the second of two classes
	Scaled  Reading = "scaled"  // one number, normalized as the target is
)

// Answer is what a net says of an example.
type Answer struct {
	Class         string             // the most likely one; "" where the target is numbers, or the output NaN
	Probabilities map[string]float64 // of the classes; nil where the loss gives none
	Value         float64            // in the unit of the target, where that is numbers
	Output        []float32          // what the net returned
	reading       Reading
}

// Answers read what a net returns for so many examples. An output that no Reading fits is in
// Answer.Output only.
func (e *Encoder) Answers(how Reading, outputs []float32, examples int) []Answer {
	l := make([]Answer, examples)
	for i := range l {
		width := len(outputs) / examples
		l[i] = e.answer(how, outputs[i*width:(i+1)*width:(i+1)*width])
	}
	return l
}

// answer reads one example's numbers.
func (e *Encoder) answer(how Reading, out []float32) Answer {
	a := Answer{Output: out, reading: how}
	x := make([]float64, len(out))
	best := 0
	for k, y := range out {
		if x[k] = float64(y); math.IsNaN(x[k]) {
			a.Value = math.NaN()
			return a
		}
		if y > out[best] {
			best = k
		}
	}
	switch how {
	case Scaled:
		a.Value = x[0]*e.Scale.Deviation + e.Scale.Mean
		return a
	case Sigmoid:
		x, best = []float64{0, x[0]}, 0
		if x[1] > 0 {
			best = 1
		}
	case Softmax, Largest:
	default:
		return a
	}
	if a.Class = e.class(best); how == Largest {
		return a
	}
	sum := 0.0
	top := x[best]
	for k := range x {
		x[k] = math.Exp(x[k] - top)
		sum += x[k]
	}
	a.Probabilities = map[string]float64{}
	for k, p := range x {
		if name := e.class(k); name != "" {
			a.Probabilities[name] = p / sum
		}
	}
	return a
}

// class is the name of a label; "" where it has none.
func (e *Encoder) class(label int) string {
	if label < len(e.Classes) {
		return e.Classes[label]
	}
	return ""
}

// MarshalJSON is {"class": …, "probabilities": {…}} or {"value": …}; what is not finite is null.
func (a Answer) MarshalJSON() ([]byte, error) {
	if a.reading == Scaled {
		value := &a.Value
		if math.IsNaN(a.Value) || math.IsInf(a.Value, 0) {
			value = nil
		}
		return json.Marshal(struct {
			Value *float64 `json:"value"`
		}{value})
	}
	class := &a.Class
	if a.Class == "" {
		class = nil
	}
	probabilities := a.Probabilities
	for _, p := range probabilities {
		if math.IsNaN(p) {
			probabilities = nil // infinite outputs
			break
		}
	}
	return json.Marshal(struct {
		Class         *string            `json:"class"`
		Probabilities map[string]float64 `json:"probabilities,omitempty"`
	}{class, probabilities})
}
