package data

import (
	"encoding/json"
	"fmt"
	"iter"
	"os"
)

// Names are the classes of labels, such as a prediction's; "" for labels without one.
func (e *Encoder) Names(labels []int32) []string { return namesOf(e.Classes, labels) }

func namesOf(classes []string, labels []int32) []string {
	l := make([]string, len(labels))
	for i, k := range labels {
		if k >= 0 && int(k) < len(classes) {
			l[i] = classes[k]
		}
	}
	return l
}

// Values are numbers that a net has returned, in the unit of the target.
func (e *Encoder) Values(output []float32) []float64 {
	l := make([]float64, len(output))
	for i, v := range output {
		l[i] = float64(v)*e.Scale.Deviation + e.Scale.Mean
	}
	return l
}

// Save writes the encoder to a file, as JSON.
func (e *Encoder) Save(path string) error {
	b, err := json.MarshalIndent(e, "", "\t")
	if err == nil {
		err = os.WriteFile(path, b, 0o644)
	}
	if err != nil {
		return fmt.Errorf("data: encoder: %w", err)
	}
	return nil
}

// ReadEncoder reads an encoder that was saved.
func ReadEncoder(path string) (*Encoder, error) {
	b, err := os.ReadFile(path)
	e := &Encoder{}
	if err == nil {
		err = json.Unmarshal(b, e)
	}
	if err != nil {
		return nil, fmt.Errorf("data: encoder of %s: %w", path, err)
	}
	if len(e.Numbers)+len(e.Categories) == 0 {
		return nil, fmt.Errorf("data: %s: no columns: want a file of Encoder.Save", path)
	}
	return e, nil
}

// Stream encodes tables one after the other, such as those of [CSV.Chunks], for package fit's
// Stream.
func (e *Encoder) Stream(tables iter.Seq2[*Table, error]) iter.Seq2[Examples, error] {
	return func(yield func(Examples, error) bool) {
		for t, err := range tables {
			x := Examples{}
			if err == nil {
				x, err = e.Encode(t)
			}
			if !yield(x, err) || err != nil {
				return
			}
		}
	}
}

// Windows makes examples of the rows of a time series, which are in order: X [n length
// width] is the numbers of so many rows, and Y the target of the row that many ahead of the
// last one. A target that is numbers is one of the numbers, too, the last.
func (e *Encoder) Windows(t *Table, length, ahead int) (Examples, error) {
	if e.Target == "" || t.Column(e.Target) == nil || len(e.Categories) > 0 && !e.OneHot {
		return Examples{}, t.errorf("windows: want an encoder with a target that the table has, and OneHot for categories")
	}
	n := t.Len() - length - ahead + 1
	if length < 1 || ahead < 0 || n < 1 {
		return Examples{}, t.errorf("windows of %d rows, the target %d ahead, of %d rows: want 1 or more, 0 or more ahead, and more rows", length, ahead, t.Len())
	}
	all, err := e.Encode(t)
	if err != nil {
		return all, err
	}
	a := all.X.(Array)
	from, width := a.Flat.([]float32), a.Dims[1]
	y, own := all.Y.([]float32)
	to := width
	if own {
		to++
	}
	x := make([]float32, 0, n*length*to)
	index := make([]int, n)
	for i := range n {
		for row := i; row < i+length; row++ {
			x = append(x, from[row*width:(row+1)*width]...)
			if own {
				x = append(x, y[row])
			}
		}
		index[i] = i + length - 1 + ahead
	}
	targets := Examples{X: all.Y, N: t.Len()}.pick(index)
	decoder := &Encoder{Target: e.Target, Classes: e.Classes, Scale: e.Scale} // a row is no window
	return Examples{X: Array{[]int{n, length, to}, x}, Y: targets.X, N: n, Encoder: decoder}, nil
}

// ClassWeights are weights for losses.CrossEntropy with which each class counts as much as
// the others, however many examples it has: n / (classes · count).
func ClassWeights(labels []int32) ([]float64, error) {
	var counts []int
	for i, k := range labels {
		if k < 0 || k > 1<<20 {
			return nil, fmt.Errorf("data: label %d is %d: want classes from 0", i, k)
		}
		for int(k) >= len(counts) {
			counts = append(counts, 0)
		}
		counts[k]++
	}
	l := make([]float64, len(counts))
	for k, n := range counts {
		if n == 0 {
			return nil, fmt.Errorf("data: class %d of %d has no examples: want some of each", k, len(counts))
		}
		l[k] = float64(len(labels)) / float64(len(counts)*n)
	}
	return l, nil
}
