package fit

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"

	"gaiden/lib/losses"
	"gaiden/lib/metrics"
	"gaiden/lib/models"
	"gaiden/lib/optim"
)

// recipe is a net that is there, for another process: what its programs are written from.
// The arrays are the session's, so what they began with is left out.
type recipe struct {
	Name   string
	Model  models.Net
	Config Config // without Session, Origin and Tokenizer
}

// recipe writes the net down. Its error says what in it no other process can know: a
// function, a layer or an optimizer of your own.
func (n *Net) recipe() (recipe, error) {
	c := n.config
	if c.Step != nil {
		return recipe{}, fmt.Errorf("fit: %s: no recipe for a net with Config.Step, which is a function", n.name)
	}
	if c.OneDNN || c.FirstLook || c.Devices > 1 {
		return recipe{}, fmt.Errorf("fit: %s: no recipe for a net with OneDNN, with FirstLook, or on several devices", n.name)
	}
	c.Session, c.Origin, c.Tokenizer = nil, "", nil
	r := recipe{n.name, n.model, c}
	_, err := r.MarshalJSON()
	return r, err
}

func (r recipe) MarshalJSON() ([]byte, error) {
	v, err := plainOf(reflect.ValueOf(r))
	if err != nil {
		return nil, fmt.Errorf("fit: no recipe for %s: %w", r.Name, err)
	}
	return json.Marshal(v)
}

func (r *recipe) UnmarshalJSON(b []byte) error {
	if err := setPlain(b, reflect.ValueOf(r).Elem()); err != nil {
		return fmt.Errorf("fit: recipe: %w", err)
	}
	return nil
}

// knownKinds are the types that an interface in a recipe may hold, by names such as models.Dense.
var knownKinds = func() map[string]reflect.Type {
	m := map[string]reflect.Type{}
	for _, v := range slices.Concat(models.Kinds(), losses.Kinds(), metrics.Kinds(), optim.Kinds()) {
		t := reflect.TypeOf(v)
		m[t.String()] = t
	}
	return m
}()

// isKind says whether a value is of one of them.
func isKind(v any) bool {
	t := reflect.TypeOf(v)
	return t != nil && knownKinds[t.String()] == t
}

// named is what an interface in a recipe holds.
type named[V any] struct {
	Type  string
	Value V `json:",omitempty"`
}

// plainOf is a value as JSON has it: structs without fields that are zero, and activations by
// their names.
func plainOf(v reflect.Value) (any, error) {
	switch {
	case v.Type() == reflect.TypeFor[models.Act]():
		a, is := v.Interface().(models.Act).Activation()
		if !is {
			return nil, fmt.Errorf("a function of its own")
		}
		return a.Name(), nil
	case v.Kind() == reflect.Func:
		return nil, fmt.Errorf("a function")
	case v.Kind() == reflect.Interface:
		if !isKind(v.Interface()) {
			return nil, fmt.Errorf("a %s, which other processes do not know", v.Elem().Type())
		}
		value, err := plainOf(v.Elem())
		if err != nil {
			return nil, fmt.Errorf("%s: %w", v.Elem().Type(), err)
		}
		return named[any]{v.Elem().Type().String(), value}, nil
	case v.Kind() == reflect.Slice:
		if v.IsNil() {
			return nil, nil
		}
		l := make([]any, v.Len())
		for i := range l {
			var err error
			if l[i], err = plainOf(v.Index(i)); err != nil {
				return nil, err
			}
		}
		return l, nil
	case v.Kind() == reflect.Struct:
		fields := map[string]any{}
		for i := range v.NumField() {
			f := v.Type().Field(i)
			if !f.IsExported() || v.Field(i).IsZero() || f.Type == reflect.TypeFor[models.Init]() {
				continue
			}
			value, err := plainOf(v.Field(i))
			if err != nil {
				return nil, fmt.Errorf("%s: %w", f.Name, err)
			}
			fields[f.Name] = value
		}
		return fields, nil
	}
	return v.Interface(), nil
}

// setPlain sets a value to what was written.
func setPlain(b []byte, to reflect.Value) error {
	switch {
	case to.Type() == reflect.TypeFor[models.Act]():
		var name string
		if err := json.Unmarshal(b, &name); err != nil {
			return err
		}
		act, is := models.Acts[name]
		if !is {
			return fmt.Errorf("no activation %q", name)
		}
		to.Set(reflect.ValueOf(act))
	case to.Kind() == reflect.Interface && to.NumMethod() > 0:
		var n named[json.RawMessage]
		if err := json.Unmarshal(b, &n); err != nil {
			return err
		}
		t, is := knownKinds[n.Type]
		if !is || !t.Implements(to.Type()) {
			return fmt.Errorf("got a %q, want a %s: one of %v", n.Type, to.Type(), slices.Sorted(maps.Keys(knownKinds)))
		}
		v := reflect.New(t).Elem()
		if n.Value != nil {
			if err := setPlain(n.Value, v); err != nil {
				return fmt.Errorf("%s: %w", n.Type, err)
			}
		}
		to.Set(v)
	case to.Kind() == reflect.Slice:
		var l []json.RawMessage
		if err := json.Unmarshal(b, &l); err != nil {
			return err
		}
		if l == nil {
			return nil
		}
		to.Set(reflect.MakeSlice(to.Type(), len(l), len(l)))
		for i := range l {
			if err := setPlain(l[i], to.Index(i)); err != nil {
				return err
			}
		}
	case to.Kind() == reflect.Struct:
		var fields map[string]json.RawMessage
		if err := json.Unmarshal(b, &fields); err != nil {
			return err
		}
		for name, value := range fields {
			f := to.FieldByName(name)
			if !f.IsValid() || !f.CanSet() {
				return fmt.Errorf("got a field %q, want one that %s has", name, to.Type())
			}
			if err := setPlain(value, f); err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
		}
	default:
		return json.Unmarshal(b, to.Addr().Interface())
	}
	return nil
}
