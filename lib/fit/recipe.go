package fit

import (
	"encoding/json"
	"fmt"
	"reflect"

	"gaiden/lib/losses"
	"gaiden/lib/metrics"
	"gaiden/lib/models"
	"gaiden/lib/optim"
)

// recipe is a net that is there, for another process: what its programs are written from.
// The arrays are the session's, so what they began with is left out.
type recipe struct {
	Name     string
	Model    string
	Input    []int
	Integers bool `json:",omitempty"`
	Layers   []part
	LoRA     models.LoRA `json:",omitzero"`
	Int8     []string    `json:",omitempty"`

	Optimizer part
	Loss      part   `json:",omitzero"`
	Metrics   []part `json:",omitempty"`
	Seed      int64
	BF16      bool
	F16       bool `json:",omitempty"`
	Kernels   Kernels
	Flags     map[string]any `json:",omitempty"`
}

// part is a struct of a known type: the fields that are not zero.
type part struct {
	Type   string
	Fields map[string]json.RawMessage `json:",omitempty"`
}

// layers, optimizers, losses and metrics that recipes know, by the names of their types.
var (
	layersKnown = known[models.Layer](models.Activation{}, models.BatchNorm{}, models.Conv2D{}, models.Dense{}, models.Dropout{}, models.Flatten{}, models.LSTM{}, models.MaxPool2D{}, models.GlobalAvgPool{}, models.Residual{},
		models.Attention{}, models.AvgPool2D{}, models.Bidirectional{}, models.Concat{}, models.Conv1D{}, models.ConvTranspose2D{}, models.DepthwiseConv2D{}, models.Embedding{}, models.FeedForward{},
		models.GRU{}, models.GroupNorm{}, models.LastStep{}, models.AvgPool1D{}, models.AvgPool3D{}, models.Conv3D{}, models.GlobalMaxPool{}, models.InstanceNorm{}, models.Masking{}, models.MaxPool1D{}, models.MaxPool3D{}, models.PReLU{}, models.SinusoidalPositions{}, models.SpectralNorm{}, models.TimestepEncoding{}, models.LayerNorm{}, models.Positions{}, models.RMSNorm{}, models.RNN{}, models.Repeat{}, models.Sequential{}, models.TransformerBlock{}, models.Unflatten{}, models.Upsample2D{}, models.ClassToken{}, models.FirstStep{}, models.SoftCap{}, models.Tied{},
		models.ColorJitter{}, models.Cutout{}, models.MixUp{}, models.Normalize{}, models.RandomAffine{}, models.RandomCrop{}, models.RandomFlip{})
	optimizersKnown = known(append(optimizers(), optim.Scheduled{}, optim.Clipped{}, optim.Groups{}, optim.EMA{}, optim.SWA{}, optim.Muon{})...)
	groupsKnown     = known(optim.Group{})
	schedulesKnown  = known[optim.Schedule](optim.Exponential{}, optim.OneCycle{}, optim.StepDecay{}, optim.Warmup{}, optim.WarmupCosine{}, optim.WarmupLinear{})
	lossesKnown     = known[losses.Loss](losses.CTC{}, losses.Contrastive{}, losses.Cosine{}, losses.Hinge{}, losses.Poisson{}, losses.BinaryCrossEntropy{}, losses.CrossEntropy{}, losses.Huber{}, losses.KLDivergence{}, losses.MAE{}, losses.MSE{}, losses.Visibility{})
	metricsKnown    = known[metrics.Metric](metrics.AUC{}, metrics.Accuracy{}, metrics.F1{}, metrics.Func{}, metrics.MAE{}, metrics.Perplexity{}, metrics.Precision{}, metrics.R2{}, metrics.RMSE{}, metrics.Recall{}, metrics.TopK{})
)

func optimizers() (all []Optimizer) {
	for _, o := range optim.All() {
		all = append(all, o)
	}
	return all
}

func known[T any](all ...T) map[string]reflect.Type {
	m := map[string]reflect.Type{}
	for _, v := range all {
		t := reflect.TypeOf(v)
		m[t.Name()] = t
	}
	return m
}

// recipe writes the net down. Its error says what in it no other process can know: a
// function, a layer or an optimizer of one's own.
func (n *Net) recipe() (r recipe, err error) {
	c := n.config
	if c.Step != nil {
		return r, fmt.Errorf("fit: %s: no recipe for a net with Config.Step, which is a function", n.name)
	}
	if c.OneDNN || c.FirstLook || c.Devices > 1 {
		return r, fmt.Errorf("fit: %s: no recipe for a net with OneDNN, with FirstLook, or on several devices", n.name)
	}
	r = recipe{Name: n.name, Model: n.model.Name, Input: n.model.Input, Integers: n.model.Integers, LoRA: n.model.LoRA, Int8: n.model.Int8, Seed: c.Seed, BF16: c.BF16, F16: c.F16, Kernels: c.Kernels, Flags: c.Flags}
	if r.Layers, err = write(layersKnown, n.model.Layers...); err != nil {
		return r, err
	}
	p, err := write(optimizersKnown, c.Optimizer)
	if err != nil {
		return r, err
	}
	r.Optimizer = p[0]
	if c.Loss != nil {
		if p, err = write(lossesKnown, c.Loss); err == nil {
			r.Loss = p[0]
		}
	}
	if err == nil {
		r.Metrics, err = write(metricsKnown, c.Metrics...)
	}
	return r, err
}

// net is the net that was saved; its config has no session.
func (r recipe) net() (m models.Net, c Config, err error) {
	m = models.Net{Name: r.Model, Input: r.Input, Integers: r.Integers, LoRA: r.LoRA, Int8: r.Int8}
	c = Config{Seed: r.Seed, BF16: r.BF16, F16: r.F16, Kernels: r.Kernels, Flags: r.Flags}
	if m.Layers, err = readAll[models.Layer](layersKnown, r.Layers); err != nil {
		return m, c, err
	}
	if c.Optimizer, err = read[Optimizer](optimizersKnown, r.Optimizer); err != nil {
		return m, c, err
	}
	if c.Metrics, err = readAll[metrics.Metric](metricsKnown, r.Metrics); err != nil {
		return m, c, err
	}
	if r.Loss.Type != "" {
		c.Loss, err = read[losses.Loss](lossesKnown, r.Loss)
	}
	return m, c, err
}

// write takes structs apart.
func write[T any](known map[string]reflect.Type, all ...T) ([]part, error) {
	var parts []part
	for _, one := range all {
		v := reflect.ValueOf(one)
		t := v.Type()
		if known[t.Name()] != t {
			return nil, fmt.Errorf("fit: no recipe for a %s", t)
		}
		p := part{Type: t.Name(), Fields: map[string]json.RawMessage{}}
		for i := range t.NumField() {
			f := t.Field(i)
			if !f.IsExported() || v.Field(i).IsZero() || f.Type == reflect.TypeFor[models.Init]() {
				continue
			}
			value := v.Field(i).Interface()
			var err error
			switch x := value.(type) {
			case models.Act:
				value, err = actName(x)
			case []models.Layer:
				value, err = write(layersKnown, x...)
			case [][]models.Layer:
				branches := make([][]part, len(x))
				for k := 0; k < len(x) && err == nil; k++ {
					branches[k], err = write(layersKnown, x[k]...)
				}
				value = branches
			case models.Layer:
				value, err = writeOne(layersKnown, x)
			case Optimizer:
				value, err = writeOne(optimizersKnown, x)
			case []optim.Group:
				value, err = write(groupsKnown, x...)
			case optim.Schedule:
				value, err = writeOne(schedulesKnown, x)
			}
			if err == nil {
				p.Fields[f.Name], err = json.Marshal(value)
			}
			if err != nil {
				return nil, fmt.Errorf("fit: no recipe for a %s with its %s: %w", t, f.Name, err)
			}
		}
		parts = append(parts, p)
	}
	return parts, nil
}

func writeOne[T any](known map[string]reflect.Type, one T) (p part, err error) {
	parts, err := write(known, one)
	if err == nil {
		p = parts[0]
	}
	return p, err
}

func actName(a models.Act) (string, error) {
	if k, known := a.Activation(); known {
		return k.Name(), nil
	}
	return "", fmt.Errorf("a function of its own")
}

// read puts a struct together again.
func read[T any](known map[string]reflect.Type, p part) (one T, err error) {
	t, is := known[p.Type]
	if !is {
		return one, fmt.Errorf("fit: recipe with a %q: want one of %v", p.Type, reflect.ValueOf(known).MapKeys())
	}
	v := reflect.New(t).Elem()
	for name, raw := range p.Fields {
		f := v.FieldByName(name)
		if !f.IsValid() || !f.CanSet() {
			return one, fmt.Errorf("fit: recipe of a %s with a field %q: want one that it has", p.Type, name)
		}
		switch f.Type() {
		case reflect.TypeFor[models.Act]():
			var act string
			if err = json.Unmarshal(raw, &act); err == nil && models.Acts[act] == nil {
				err = fmt.Errorf("no activation %q", act)
			}
			f.Set(reflect.ValueOf(models.Acts[act]))
		case reflect.TypeFor[[]models.Layer]():
			var parts []part
			var l []models.Layer
			if err = json.Unmarshal(raw, &parts); err == nil {
				l, err = readAll[models.Layer](layersKnown, parts)
			}
			f.Set(reflect.ValueOf(l))
		case reflect.TypeFor[[][]models.Layer]():
			var branches [][]part
			err = json.Unmarshal(raw, &branches)
			all := make([][]models.Layer, len(branches))
			for k := 0; k < len(branches) && err == nil; k++ {
				all[k], err = readAll[models.Layer](layersKnown, branches[k])
			}
			f.Set(reflect.ValueOf(all))
		case reflect.TypeFor[models.Layer]():
			err = readOne[models.Layer](layersKnown, raw, f)
		case reflect.TypeFor[optim.Optimizer]():
			err = readOne[optim.Optimizer](optimizersKnown, raw, f)
		case reflect.TypeFor[[]optim.Group]():
			var parts []part
			var l []optim.Group
			if err = json.Unmarshal(raw, &parts); err == nil {
				l, err = readAll[optim.Group](groupsKnown, parts)
			}
			f.Set(reflect.ValueOf(l))
		case reflect.TypeFor[optim.Schedule]():
			err = readOne[optim.Schedule](schedulesKnown, raw, f)
		default:
			err = json.Unmarshal(raw, f.Addr().Interface())
		}
		if err != nil {
			return one, fmt.Errorf("fit: recipe of a %s: %s: %w", p.Type, name, err)
		}
	}
	if one, is = v.Interface().(T); !is {
		return one, fmt.Errorf("fit: recipe with a %s: want a %s", p.Type, reflect.TypeFor[T]())
	}
	return one, nil
}

// readOne sets an interface to the struct that was written.
func readOne[T any](known map[string]reflect.Type, raw json.RawMessage, to reflect.Value) error {
	var p part
	if err := json.Unmarshal(raw, &p); err != nil {
		return err
	}
	one, err := read[T](known, p)
	if err == nil {
		to.Set(reflect.ValueOf(one))
	}
	return err
}

func readAll[T any](known map[string]reflect.Type, parts []part) (all []T, err error) {
	for _, p := range parts {
		one, err := read[T](known, p)
		if err != nil {
			return nil, err
		}
		all = append(all, one)
	}
	return all, nil
}
