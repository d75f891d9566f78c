package search

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	random "math/rand/v2"
	"slices"
	"strings"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	"github.com/gomlx/gomlx/core/graph"

	"gaiden/lib/fit"
	"gaiden/lib/session"
)

// Fold is a part of a set to validate with, and the others to train on.
type Fold struct {
	Number            int // from 1
	Train, Validation *fit.Set
}

// KFold is cross-validation: it divides the examples of a set, shuffled by seed, into k parts
// and calls train with each of them as the validation. The parts are copied on the device,
// one fold at a time; nothing is uploaded. train should begin with a net of its own, or with
// Reset:
//
//	histories, err := search.KFold(net, data, 5, 1, func(f search.Fold) (*fit.History, error) {
//		if err := net.Reset(); err != nil {
//			return nil, err
//		}
//		return net.Fit(f.Train, fit.Train{Epochs: 3, Validation: f.Validation, Quiet: true})
//	})
//
// It ends at the first error or panic, or where the context of net ends, and returns the
// histories before.
func KFold(net *fit.Net, data *fit.Set, k int, seed int64, train func(Fold) (*fit.History, error)) ([]*fit.History, error) {
	if err := net.Suits(data); err != nil {
		return nil, err
	}
	if k < 2 || k > data.N {
		return nil, fmt.Errorf("search: %d folds of the %d examples of %s: want 2 or more, and no more than there are", k, data.N, data.Name)
	}
	if train == nil {
		return nil, errors.New("search: train is nil: want a function that trains on a fold")
	}
	s, err := net.Session()
	if err != nil {
		return nil, err
	}
	order := make([]int32, data.N)
	for i, v := range random.New(random.NewPCG(uint64(seed), 0x666f6c64)).Perm(data.N) {
		order[i] = int32(v)
	}
	var all []*fit.History
	for i := range k {
		if err := context.Cause(net.Context()); err != nil {
			return all, err
		}
		from, to := i*data.N/k, (i+1)*data.N/k
		h, err := fold(net, s, data.Name, i, slices.Clone(order[from:to]), slices.Concat(order[:from], order[to:]), train)
		if err != nil {
			return all, fmt.Errorf("search: fold %d of %d: %w", i+1, k, err)
		}
		all = append(all, h)
	}
	return all, nil
}

// fold calls train with two parts of a set, which are gone afterwards.
func fold(net *fit.Net, s *session.Session, name string, number int, validation, rest []int32, train func(Fold) (*fit.History, error)) (*fit.History, error) {
	id := rand.Text()[:8]
	config := net.Config()
	config.Session = s
	holder := fit.New(net.Name()+"-"+id, net.Model(), config) // so that no net that stays holds the arrays
	f := Fold{Number: number + 1}
	for part, index := range map[**fit.Set][]int32{&f.Train: rest, &f.Validation: validation} {
		slices.Sort(index)
		to := fmt.Sprintf("%s-%s-%d", name, id, len(index))
		if part == &f.Validation {
			to += "-validation"
		}
		defer s.Delete("data/" + to + "/*")
		if err := pick(s, name, to, index); err != nil {
			return nil, err
		}
		var err error
		if *part, err = holder.Data(to); err != nil {
			return nil, err
		}
	}
	if err := holder.Reset(); err != nil {
		return nil, err
	}
	return tried(train, f)
}

// pick copies examples of a set to another one, on the device.
func pick(s *session.Session, from, to string, index []int32) error {
	prefix := "data/" + from + "/"
	list, err := s.List(prefix)
	if err != nil {
		return err
	}
	var names []string
	var arrays, out []*session.Array
	for _, a := range list {
		part := strings.TrimPrefix(a.Name, prefix)
		if part == "sum" { // of all examples
			continue
		}
		x, err := s.Array(a.Name)
		if err != nil {
			return err
		}
		if part == "dims" || part == "encoder.json" { // of each example
			if err := s.Bind([]string{"data/" + to + "/" + part}, []*session.Array{x}); err != nil {
				return err
			}
			continue
		}
		names, arrays = append(names, "data/"+to+"/"+part), append(arrays, x)
	}
	if len(arrays) == 0 {
		return fmt.Errorf("%s is a stream or was deleted, and the session has no examples of it: want a set from Upload", from)
	}
	at, err := s.Put(index, shapes.Make(dtypes.Int32, len(index), 1), 0)
	if err != nil {
		return err
	}
	for _, x := range arrays {
		shape, err := x.Shape()
		if err != nil {
			return err
		}
		g := graph.NewGraph(s.Backend(), "fold")
		source, where := graph.Parameter(g, "x", shape), graph.Parameter(g, "index", shapes.Make(dtypes.Int32, len(index), 1))
		if err := g.Compile(graph.Gather(source, where)); err != nil {
			return err
		}
		p, err := s.Compile(g.Executable().(*session.Executable).Program(), session.Options{Origin: "search.KFold"})
		if err != nil {
			return err
		}
		y, err := p.Run(session.Call{Inputs: []*session.Array{x, at}})
		if err != nil {
			return err
		}
		out = append(out, y...)
	}
	if err := s.Wait(); err != nil { // names are for arrays that are there
		return err
	}
	return s.Bind(names, out)
}
