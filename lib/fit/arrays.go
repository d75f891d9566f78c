package fit

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sort"
	"strings"
	"time"

	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/ml/model"

	"gaiden/lib/engine/wire"
	"gaiden/lib/fit/result"
	"gaiden/lib/optim"
	"gaiden/lib/session"
	"gaiden/lib/timing/units"
)

// attach finds the net's arrays in the session, or makes them.
func (n *Net) attach(ctx context.Context) error {
	store, err := n.buildLayout()
	if err != nil {
		return err
	}
	if n.whole != nil {
		return n.attachPart()
	}
	there, err := n.arrayTypes()
	if err != nil {
		return err
	}
	n.arrayCount = len(n.layout.all())
	if _, is := there[inputName]; is || n.inferred {
		n.arrayCount++
	}
	if _, n.encoded = there[encoderName]; n.encoded {
		n.arrayCount++
	}
	missing := n.incomplete(there)
	if n.readOnly {
		return missing
	}
	var stale []string
	if len(there) > 0 {
		if stale, err = n.differences(there); err != nil {
			return err
		}
		if _, is := there[inputName]; missing == nil && len(stale) == 0 && (is || !n.inferred) {
			return nil
		}
	}
	// One at a time: of two that make a net, the second one's first values would replace
	// what the first has learned meanwhile.
	done, err := n.lockUnlessTraining(ctx, "makes")
	if err != nil {
		return err
	}
	defer done()
	if there, err = n.arrayTypes(); err != nil {
		return err
	}
	if len(there) == 0 {
		return n.withSize(n.create(store))
	}
	if stale, err = n.differences(there); err != nil {
		return err
	}
	return n.withSize(n.complete(there, stale))
}

// creationTime is how long one that makes the net's arrays is waited for.
var creationTime = 10 * time.Second

// arrayTypes are the net's arrays in the session, by their names without the net's.
func (n *Net) arrayTypes() (map[string]wire.Type, error) {
	list, err := n.session.List(n.name + "/")
	if err != nil {
		return nil, err
	}
	there := map[string]wire.Type{}
	for _, a := range list {
		there[strings.TrimPrefix(a.Name, n.name+"/")] = a.Type
	}
	return there, nil
}

// differences is an error where the arrays that the session has are another net's, and
// else names what another optimizer left.
func (n *Net) differences(there map[string]wire.Type) (stale []string, err error) {
	wrong := &result.ArchitectureError{Net: n.name, Model: n.model.Name}
	for _, v := range n.layout.variables {
		t, is := there[v.name]
		if is && sameType(t, v.shape) || n.recreated(v.name) {
			continue
		}
		got := "nothing"
		if is {
			got = t.String()
		}
		wrong.Differences = append(wrong.Differences, fmt.Sprintf("%s is %s, want %s", v.name, got, typeOf(v.shape)))
	}
	known := map[string]bool{"rng": true, inputName: true, encoderName: true}
	for _, s := range n.layout.all() {
		known[s.name] = true
	}
	for name := range there {
		switch {
		case known[name]:
		case n.isMoment(name) || n.recreated(name):
			stale = append(stale, n.name+"/"+name)
		default:
			wrong.Differences = append(wrong.Differences, fmt.Sprintf("%s is %s, want nothing", name, there[name]))
		}
	}
	if len(wrong.Differences) > 0 {
		sort.Strings(wrong.Differences)
		return nil, wrong
	}
	return stale, nil
}

// incomplete is an error where the session does not have the whole net as it is laid out.
func (n *Net) incomplete(there map[string]wire.Type) error {
	for _, s := range n.layout.all() {
		if t, is := there[s.name]; !is || !sameType(t, s.shape) {
			return fmt.Errorf("fit: %s: the session has no %s of %s: the net has been removed, or changed", n.name, s.name, typeOf(s.shape))
		}
	}
	return nil
}

// isMoment says whether an array is the state of some optimizer.
func (n *Net) isMoment(name string) bool {
	all := append(slices.Clone(n.layout.optimizer), n.config.Optimizer, optim.Muon{})
	for _, o := range append(all, optim.All()...) {
		if title, _ := optim.Title(o); strings.HasPrefix(name, title+"/") {
			return true
		}
	}
	return name == "rng" || name == "step"
}

// ofAnother says whether a stale array is the state of an optimizer that the net no longer has: one
// without state, such as SGD, also begins again.
func (n *Net) ofAnother(stale string) bool {
	name := strings.TrimPrefix(stale, n.name+"/")
	return n.isMoment(name) && name != "rng" && name != "step" && !slices.ContainsFunc(n.layout.optimizer, func(o optim.Optimizer) bool {
		title, _ := optim.Title(o)
		return strings.HasPrefix(name, title+"/")
	})
}

// recreated says whether a variable is recreated where there is none that fits: it
// says nothing about the architecture.
func (n *Net) recreated(name string) bool {
	return name == "rng" || name == lossScale || slices.Contains(n.model.States(), name)
}

// create makes the net's arrays.
func (n *Net) create(store *model.Store) error {
	if d := n.session.Welcome().Devices[0]; d.Memory > 0 && n.stateBytes() > d.Memory { // else the first layers would be drawn, for minutes
		return wire.Errorf(wire.OutOfMemory, "%s has %s in all", d.Kind, units.Bytes(float64(d.Memory)))
	}
	if err := store.SetRNGStateFromSeed(n.config.Seed); err != nil {
		return err
	}
	rest, err := n.draw(store, append(append([]slot{}, n.layout.moments...), n.layout.step))
	if err != nil {
		return fmt.Errorf("fit: %s: first values: %w", n.name, err)
	}
	if err := store.InitializeVariables(n.session.Backend(), nil); err != nil {
		return fmt.Errorf("fit: %s: first values: %w", n.name, err)
	}
	var arrays []*session.Array
	for _, v := range n.layout.variables {
		a, err := n.valueOf(store.GetVariable(v.path))
		if err != nil {
			return fmt.Errorf("fit: %s: first value of %s: %w", n.name, v.name, err)
		}
		arrays = append(arrays, a)
	}
	slots, arrays := n.layout.all(), append(arrays, rest...)
	if n.inferred {
		s, a, err := n.inputArray()
		if err != nil {
			return err
		}
		slots, arrays = append(slots, s), append(arrays, a)
	}
	return n.bindNew(slots, arrays)
}

// bindNew gives names to arrays that were just requested, once all are there, and takes
// stale names away: a part of a net would pass for another one.
func (n *Net) bindNew(slots []slot, arrays []*session.Array, stale ...string) error {
	defer free(arrays...) // their names hold them
	if err := n.session.Wait(); err != nil {
		return fmt.Errorf("fit: %s: first values: %w", n.name, err)
	}
	return n.session.Replace(n.names(slots), arrays, stale...)
}

// complete adds to variables that exist what else is wanted: another
// optimizer's state, or random numbers.
func (n *Net) complete(there map[string]wire.Type, stale []string) error {
	var missing []slot
	optimizer := append(append([]slot{}, n.layout.moments...), n.layout.step)
	for _, s := range optimizer {
		if t, is := there[s.name]; !is || !sameType(t, s.shape) {
			missing = optimizer // a new one counts from its own beginning
		}
	}
	if slices.ContainsFunc(stale, n.ofAnother) {
		missing = optimizer
	}
	var arrays []*session.Array
	if len(missing) > 0 {
		var err error
		if arrays, err = n.zeros(missing); err != nil {
			return err
		}
	}
	for _, v := range n.layout.variables {
		if t, is := there[v.name]; v.name != "rng" && n.recreated(v.name) && (!is || !sameType(t, v.shape)) {
			zero, err := n.zeros([]slot{v})
			if err != nil {
				return err
			}
			missing, arrays = append(missing, v), append(arrays, zero...)
		} else if v.name == "rng" && (!is || !sameType(t, v.shape)) {
			state, err := RNGStateFromSeed(n.config.Seed)
			if err != nil {
				return err
			}
			b, err := state.Buffer(n.session.Backend(), 0)
			if err != nil {
				return err
			}
			missing, arrays = append(missing, v), append(arrays, b.(*session.Array))
		}
	}
	if _, is := there[inputName]; n.inferred && !is {
		s, a, err := n.inputArray()
		if err != nil {
			return err
		}
		missing, arrays = append(missing, s), append(arrays, a)
	}
	if len(missing)+len(stale) == 0 {
		return nil
	}
	return n.bindNew(missing, arrays, stale...)
}

// zeros makes arrays of zeros with one program.
func (n *Net) zeros(slots []slot) ([]*session.Array, error) {
	x, err := n.made("zeros", func(t *trace) []*Node { return t.zeros(shapesOf(slots)) })
	if err != nil {
		return nil, err
	}
	return x.Run(session.Call{})
}

func (t *trace) zeros(all []shapes.Shape) (out []*Node) {
	for _, s := range all {
		out = append(out, Zeros(t.g, s))
	}
	return out
}

func shapesOf(slots []slot) (all []shapes.Shape) {
	for _, s := range slots {
		all = append(all, s.shape)
	}
	return all
}

// bind gives arrays their names, all at once.
func (n *Net) bind(slots []slot, arrays []*session.Array) error {
	done, err := n.lockUnlessTraining(context.Background(), "changes")
	if err != nil {
		return err
	}
	defer done()
	return n.session.Bind(n.names(slots), arrays)
}

// state looks the net's arrays up, all of one moment. A rollback or an import may
// have changed them since the net was opened, or added some: they are compared again
// then, and what another optimizer left is replaced.
func (n *Net) state(slots []slot) ([]*session.Array, error) {
	arrays, held, err := n.session.ArraysUnder(n.name+"/", n.names(slots)...)
	if errors.Is(err, wire.NotFound) {
		l, err := n.session.List(n.name + "/")
		if err != nil {
			return nil, err
		}
		if len(l) == 0 { // first values would pass for trained ones
			return nil, wire.Errorf(wire.NotFound, "fit: net %q has no arrays in the session: they were deleted, or a rollback took them away", n.name).
				WithHint("net.Reset() starts over; %%rollback undoes the last cell, or brings back a snapshot")
		}
	} else if err != nil || held == n.arrayCount && n.sameShapes(arrays, slots) {
		return arrays, err
	}
	free(arrays...)
	if err := n.attach(context.Background()); err != nil {
		return nil, err
	}
	arrays, n.arrayCount, err = n.session.ArraysUnder(n.name+"/", n.names(slots)...)
	return arrays, err
}

// sameShapes says whether arrays have the shapes of their slots.
func (n *Net) sameShapes(arrays []*session.Array, slots []slot) bool {
	for i, s := range slots {
		if shape, err := arrays[i].Shape(); err != nil || !shape.Equal(s.shape) {
			return false
		}
	}
	return true
}

func typeOf(s shapes.Shape) wire.Type {
	return wire.Type{DType: wire.DType(s.DType), Dims: s.Dimensions}
}

func sameType(t wire.Type, s shapes.Shape) bool { return t.Equal(typeOf(s)) }
