package fit

import (
	"encoding/json"
	"fmt"

	"gaiden/lib/data"
	"gaiden/lib/engine/files"
	"gaiden/lib/fit/statedict"
	"gaiden/lib/weights"
)

// SaveWeights writes the variables as Evaluate uses them, and the Encoder, to a safetensors file,
// with PyTorch's names and layouts or a map's. What PyTorch has no module for keeps its own, such as
// hidden/weights [in out]: what a Function or a layer of your own makes, SpectralNorm, a
// Bidirectional of anything but LSTM, GRU and RNN.
func (n *Net) SaveWeights(path string, how ...weights.Map) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if err := n.open(); err != nil {
		return err
	}
	if err := files.Check(path); err != nil {
		return fmt.Errorf("fit: %s: save: %w", n.name, err)
	}
	used, err := n.averaged()
	if err != nil {
		return err
	}
	all, err := n.weights(used)
	if err != nil {
		return err
	}
	of, err := n.stateDict()
	if err != nil {
		return err
	}
	if n.encoded && n.whole == nil {
		e, err := n.encoder()
		if err != nil {
			return err
		}
		text, err := json.Marshal(e)
		if err != nil {
			return fmt.Errorf("fit: %s: encoder: %w", n.name, err)
		}
		of.Metadata[encoderKey] = string(text)
	}
	return of.Save(path, all, how...)
}

// LoadWeights reads what SaveWeights, PyTorch or Hugging Face wrote: a file, the index of several,
// or a directory. A map says what other names there are, and what to read; without one, the net's
// Encoder is the file's or none. If an array does not fit, nothing changes. The optimizer is reset.
func (n *Net) LoadWeights(path string, how ...weights.Map) (weights.Table, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	none := weights.Table{}
	if err := n.assertFree(); err != nil {
		return none, err
	}
	of, err := n.stateDict()
	if err != nil {
		return none, err
	}
	all, table, err := of.Load(path, how...)
	if err != nil {
		return none, err
	}
	var e *data.Encoder
	if text := of.Metadata[encoderKey]; text != "" {
		if err := json.Unmarshal([]byte(text), &e); err != nil {
			return none, fmt.Errorf("fit: %s: load %s: encoder: %w", n.name, path, err)
		}
	}
	if err := n.setWeights(all); err != nil {
		return none, err
	}
	if len(how) > 0 || n.whole != nil || e == nil && !n.encoded { // with a map, the file may be another net's
		return table, nil
	}
	return table, n.setEncoder(e)
}

// encoderKey is the metadata of a file of weights with the net's encoder.
const encoderKey = "encoder"

// stateDict is what a file of weights is read and written by.
func (n *Net) stateDict() (of statedict.Net, err error) {
	s, err := n.summary()
	if err != nil {
		return of, err
	}
	of = statedict.Net{Name: n.name, Model: n.model, Layers: s.Layers, Metadata: map[string]string{}}
	for _, v := range n.floats() {
		of.Variables = append(of.Variables, statedict.Variable{Name: v.name, Dims: v.shape.Dimensions})
	}
	return of, nil
}
