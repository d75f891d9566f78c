package profile

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"

	"gaiden/lib/engine/wire"
	"gaiden/lib/fit"
)

// Sets finds data to measure a net on: the set called name and the test set
// next to it. With no name it is the largest set of the session that fits the net,
// of those whose names say that they are for training if there are any; there may
// be none, and no error.
func Sets(net *fit.Net, name string) (train, test *fit.Set, err error) {
	s, err := net.Session()
	if err != nil {
		return nil, nil, err
	}
	list, err := s.List("data/")
	if err != nil {
		return nil, nil, err
	}
	slices.SortStableFunc(list, func(a, b wire.ArrayInfo) int { return cmp.Compare(b.Bytes, a.Bytes) })
	var names []string
	for _, a := range list {
		if n, ok := strings.CutSuffix(strings.TrimPrefix(a.Name, "data/"), "/x"); ok {
			names = append(names, n)
		}
	}
	if name != "" {
		if train, err = net.Data(name); err != nil {
			return nil, nil, err
		}
	} else {
		for _, want := range []string{"train", ""} {
			for _, n := range names {
				if train == nil && strings.Contains(n, want) {
					train = fitting(net, n)
				}
			}
		}
	}
	if train == nil {
		return nil, nil, nil
	}
	if other := strings.Replace(train.Name, "train", "test", 1); other != train.Name {
		for _, n := range names {
			if n == other {
				test = fitting(net, n)
			}
		}
	}
	return train, test, nil
}

// fitting is the set if it fits the net, else nil.
func fitting(net *fit.Net, name string) *fit.Set {
	set, err := net.Data(name)
	if err != nil {
		return nil
	}
	if net.Suits(set) != nil {
		return nil
	}
	return set
}

// Synthetic makes n examples of noise for a net that has no data yet. They
// teach nothing, but take as long as others. They stay in the session as
// data/noise until they are deleted.
func Synthetic(net *fit.Net, n int) (*fit.Set, error) {
	if n < 1 {
		return nil, fmt.Errorf("profile: %s: got %d examples of noise, want 1 or more", net.Name(), n)
	}
	summary, err := net.Summary()
	if err != nil {
		return nil, err
	}
	r := rand.New(rand.NewPCG(1, 2))
	size := 1
	for _, d := range net.Model().Input {
		size *= d
	}
	x := make([]byte, n*size)
	for i := range x {
		x[i] = byte(r.Uint32())
	}
	out := summary.Rows[len(summary.Rows)-1].Output
	if len(out) == 1 && out[0] > 1 {
		y := make([]int32, n)
		for i := range y {
			y[i] = int32(r.IntN(out[0]))
		}
		return net.Upload("noise", fit.Data{X: x, Y: y})
	}
	width := 1
	for _, d := range out {
		width *= d
	}
	y := make([]float32, n*width)
	for i := range y {
		y[i] = r.Float32()
	}
	return net.Upload("noise", fit.Data{X: x, Y: y})
}
