package fit

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"

	"gaiden/lib/data"
	"gaiden/lib/losses"
	"gaiden/lib/portable/tabular"
	"gaiden/lib/session"
)

// What examples were made of: an encoder goes from Data to the set, from there to the net that is
// trained on it, and with the net to those who predict.

// encoderName is an array of a set or of a net with its encoder, as JSON.
const encoderName = "encoder.json"

// Encoder is that of the set that the net was last trained on.
func (n *Net) Encoder() (*data.Encoder, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if err := n.connect(); err != nil {
		return nil, err
	}
	e, err := n.encoder()
	if err == nil && e == nil {
		err = fmt.Errorf("fit: %s: no encoder: the net was trained on arrays, or not yet: want Fit on examples of data.Encoder.Encode, or with Data.Encoder set", n.name)
	}
	return e, err
}

// encoder is the net's, nil where it has none.
func (n *Net) encoder() (e *data.Encoder, err error) {
	a, err := present(n.session, n.name+"/"+encoderName)
	if a != nil && err == nil {
		defer a.Finalize()
		e, err = encoderIn(a)
	}
	if err != nil {
		return nil, fmt.Errorf("fit: %s: encoder: %w", n.name, err)
	}
	return e, nil
}

// encoderIn is the encoder that an array holds.
func encoderIn(a *session.Array) (*data.Encoder, error) {
	shape, err := a.Shape()
	if err != nil {
		return nil, err
	}
	text := make([]byte, shape.Size())
	if err := a.Values(text); err != nil {
		return nil, err
	}
	e := &data.Encoder{}
	return e, json.Unmarshal(text, e)
}

// encoderArray is an encoder as one of a set's arrays.
func encoderArray(e *data.Encoder) (setArray, error) {
	text, err := json.Marshal(e)
	return setArray{encoderName, shapes.Make(dtypes.Uint8, len(text)), text, nil}, err
}

// bindEncoder puts an encoder under a name in place of the one there; nil: none.
func bindEncoder(of *session.Session, name string, there, e *data.Encoder) error {
	if reflect.DeepEqual(there, e) {
		return nil
	}
	if e == nil {
		_, err := of.Delete(name)
		return err
	}
	now, err := encoderArray(e)
	if err != nil {
		return err
	}
	a, err := of.Put(now.flat, now.shape, 0)
	if err != nil {
		return err
	}
	defer a.Finalize()
	return of.Bind([]string{name}, []*session.Array{a})
}

// learnsFrom makes the encoder of a set the net's: the one that the weights will fit.
func (n *Net) learnsFrom(s *Set) error {
	if n.whole != nil || !n.encoded && s.Encoder == nil {
		return nil
	}
	return n.setEncoder(s.Encoder)
}

func (n *Net) setEncoder(e *data.Encoder) error {
	there, err := n.encoder()
	if err == nil {
		err = bindEncoder(n.session, n.name+"/"+encoderName, there, e)
	}
	if err != nil {
		return fmt.Errorf("fit: %s: encoder: %w", n.name, err)
	}
	if now := e != nil; now != n.encoded {
		if n.encoded = now; now {
			n.arrayCount++
		} else {
			n.arrayCount--
		}
	}
	return nil
}

// suitsEncoder refuses examples that were not encoded as those that the net was trained on: what it
// returns for them would be wrong. With targets, these have to be encoded alike, too.
func (n *Net) suitsEncoder(name string, e *data.Encoder, targets bool) error {
	if e == nil || !n.encoded {
		return nil
	}
	own, err := n.encoder()
	if err != nil {
		return err
	}
	return n.encodedAlike(name, e, own, targets)
}

// encodedAlike is an error where examples were encoded in another way than those of the training.
func (n *Net) encodedAlike(name string, e, trained *data.Encoder, targets bool) error {
	if e == nil || trained == nil {
		return nil
	}
	what, got, want := "", "", ""
	differ := func(of string, a, b any) {
		if what == "" && !reflect.DeepEqual(a, b) {
			what, got, want = of, fmt.Sprintf("%v", a), fmt.Sprintf("%v", b)
		}
	}
	scale := func(n data.Normal) string { return fmt.Sprintf("mean %.4g, deviation %.4g", n.Mean, n.Deviation) }
	if columns := rowsOf(e).Columns(); len(columns) > 0 && len(rowsOf(trained).Columns()) > 0 {
		differ("columns", columns, rowsOf(trained).Columns())
		differ("OneHot", e.OneHot, trained.OneHot)
		for i := 0; what == "" && i < len(e.Numbers); i++ {
			differ("column "+e.Numbers[i].Name, scale(e.Numbers[i]), scale(trained.Numbers[i]))
		}
		for i := 0; what == "" && i < len(e.Categories); i++ {
			differ("column "+e.Categories[i].Name, e.Categories[i].Values, trained.Categories[i].Values)
		}
	}
	next := "encode them with the encoder of the training data, which net.Encoder() returns"
	if targets {
		differ("target "+trained.Target, scale(e.Scale), scale(trained.Scale))
		if what == "" && e.Target == "" && trained.Target == "" { // images or sounds
			next = "read them with the Classes of the training data"
		}
		differ("classes", e.Classes, trained.Classes)
	}
	if what == "" {
		return nil
	}
	return fmt.Errorf("fit: %s: %s is encoded in another way than the training data: %s: got %.100s, want %.100s: %s", n.name, name, what, got, want, next)
}

// encoderOf is the encoder of data that are checked as a set. One that does not make such inputs
// is an error: predictions of rows would be wrong.
func (n *Net) encoderOf(d Data, s *Set) (*data.Encoder, error) {
	e := d.Encoder
	if e == nil {
		return nil, nil
	}
	if _, same := d.Y.(data.Same); same { // the net does not return the target
		own := *e
		own.Target, own.Classes, own.Scale = "", nil, data.Normal{}
		e = &own
	}
	if len(rowsOf(e).Columns()) == 0 {
		return e, nil
	}
	want, got := rowsOf(e).Sizes(), map[string]int{}
	for _, a := range s.inputs() {
		got[a.input()] = a.shape.Size() / s.N
	}
	if !maps.Equal(want, got) {
		return nil, fmt.Errorf("fit: %s: the examples have other inputs than their Encoder makes: got %s, want %s; for examples that were changed after Encode, Data.Encoder nil", s.Name, sizesText(got), sizesText(want))
	}
	return e, nil
}

// rowsOf is an encoder as the package of rows has it.
func rowsOf(e *data.Encoder) *tabular.Encoder { return (*tabular.Encoder)(e) }

func sizesText(sizes map[string]int) string {
	text := ""
	for _, name := range slices.Sorted(maps.Keys(sizes)) {
		text += fmt.Sprintf(", %s of %d", name, sizes[name])
	}
	return text[min(2, len(text)):]
}

// encode is what Predict got, as examples: rows and tables as the net's encoder encodes them.
func (n *Net) encode(x any) (any, error) {
	var rows []data.Row
	table, _ := x.(*data.Table)
	switch x := x.(type) {
	case data.Table:
		table = &x
	case data.Row:
		rows = []data.Row{x}
	case []data.Row:
		if rows = x; rows == nil {
			rows = []data.Row{}
		}
	}
	if table == nil && rows == nil {
		return x, nil
	}
	if err := n.connect(); err != nil {
		return nil, err
	}
	e, err := n.encoder()
	if err != nil {
		return nil, err
	}
	if e == nil || len(rowsOf(e).Columns()) == 0 {
		return nil, fmt.Errorf("fit: %s: rows of a table: want numbers, as the net was not trained on examples that data.Encoder.Encode made of a table", n.name)
	}
	var d Data
	if table == nil {
		d, err = e.EncodeRows(rows...)
	} else {
		if table.Column(e.Target) != nil { // an answer that is known is no question
			if table, err = table.Without(e.Target); err != nil {
				return nil, err
			}
		}
		d, err = e.Encode(table)
	}
	if err != nil {
		return nil, fmt.Errorf("fit: %s: %w", n.name, err)
	}
	return d.X, nil
}

// reading is how the net's output is read with an encoder; "" where the loss does not say.
func (n *Net) reading(e *data.Encoder) tabular.Reading {
	width := n.classes()
	if len(n.output) != 1 {
		return ""
	}
	_, categories := n.config.Loss.(losses.CrossEntropy)
	_, distribution := n.config.Loss.(losses.KLDivergence)
	_, binary := n.config.Loss.(losses.BinaryCrossEntropy)
	switch {
	case n.freeLabels():
	case e.Classes != nil && width > 1 && (categories || distribution || n.config.Loss == nil && n.config.Step == nil):
		return tabular.Softmax
	case len(e.Classes) == 2 && width == 1 && binary:
		return tabular.Sigmoid
	case e.Classes != nil && width == len(e.Classes):
		return tabular.Largest
	case e.Classes == nil && e.Target != "" && width == 1 && n.config.Step == nil:
		switch n.config.Loss.(type) {
		case nil, losses.MSE, losses.MAE, losses.Huber:
			return tabular.Scaled
		}
	}
	return ""
}

// named adds to a prediction what the net's encoder says of it.
func (n *Net) named(p *Prediction) error {
	if !n.encoded {
		return nil
	}
	e, err := n.encoder()
	if e == nil || err != nil {
		return err
	}
	switch n.reading(e) {
	case tabular.Softmax, tabular.Largest:
		p.Names = e.Names(p.Classes)
	case tabular.Sigmoid:
		labels := make([]int32, len(p.Output))
		for i, x := range p.Output {
			if x > 0 {
				labels[i] = 1
			}
		}
		p.Names = e.Names(labels)
	case tabular.Scaled:
		p.Values = e.Values(p.Output)
	}
	return nil
}
