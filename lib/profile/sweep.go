package profile

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"

	"gaiden/lib/engine/hlo"
	"gaiden/lib/session"
	"gaiden/lib/timing"
)

// A Sweep is an activation function φ over growing arrays, on the host and on
// the device: the question of notebook 06's article.
type Sweep struct {
	Activation string
	Device     string
	Points     []SweepPoint
	Partial    bool
}

// A SweepPoint is φ of N numbers.
type SweepPoint struct {
	N int
	// Awaited is a call on the device that is waited for, Pipelined one of
	// many that are not. Host is a plain Go loop on one core; it is empty
	// where it would have taken too long.
	Awaited, Pipelined, Host timing.Measurement
}

// activations are φ on the device and on the host.
var activations = map[string]struct {
	device func(f *hlo.Function, x compute.Value) compute.Value
	host   func(x float32) float32
}{
	"relu": {func(f *hlo.Function, x compute.Value) compute.Value {
		return must(f.Max(x, must(f.Constant([]float32{0}))))
	}, func(x float32) float32 { return max(x, 0) }},
	"sigmoid": {func(f *hlo.Function, x compute.Value) compute.Value { return must(f.Logistic(x)) },
		func(x float32) float32 { return float32(1 / (1 + math.Exp(-float64(x)))) }},
	"tanh": {func(f *hlo.Function, x compute.Value) compute.Value { return must(f.Tanh(x)) },
		func(x float32) float32 { return float32(math.Tanh(float64(x))) }},
}

// Activations are the names that SweepActivation knows.
func Activations() []string { return slices.Sorted(maps.Keys(activations)) }

// SweepActivation measures φ over 2^0, 2^1, … 2^most numbers. When ctx ends it
// returns what is known, marked Partial.
func SweepActivation(ctx context.Context, s *session.Session, name string, most int, progress func(string)) (*Sweep, error) {
	phi, ok := activations[name]
	if !ok {
		return nil, fmt.Errorf("profile: activation %q: want one of %s", name, strings.Join(Activations(), ", "))
	}
	if most < 0 || most > 30 {
		return nil, fmt.Errorf("profile: 2^%d numbers: want 2^0 to 2^30", most)
	}
	w := &Sweep{Activation: name, Device: deviceName(s)}
	m := peakMeter{ctx: ctx, s: s}
	hostTook := 0.0
	for log := 0; log <= most && ctx.Err() == nil; log++ {
		n := 1 << log
		if progress != nil {
			progress(fmt.Sprintf("2^%d", log))
		}
		p := m.compile("phi", nil, hlo.DefaultPrecision, func(f *hlo.Function) compute.Value {
			return phi.device(f, must(f.Parameter("x", shapes.Make(dtypes.Float32, n), nil)))
		})
		x := m.fill(dtypes.Float32, n)
		if m.err != nil {
			return nil, m.err
		}
		var last newest
		call := func() {
			out, err := p.Run(session.Call{Inputs: []*session.Array{x}})
			check(err)
			last.take(out[0])
		}
		timer := timing.Timer{Budget: 50 * time.Millisecond, Sync: waiting(s), Clock: 0.005}
		found := timer.Times(ctx, timing.Call("awaited", func() { call(); check(s.Wait()) }), timing.Call("pipelined", call))
		point := SweepPoint{N: n, Awaited: found[0], Pipelined: found[1]}
		if hostTook < 0.1 {
			in, out := make([]float32, n), make([]float32, n)
			point.Host = timing.Timer{Budget: 50 * time.Millisecond}.TimeContext(ctx, "host", func() {
				for i, v := range in {
					out[i] = phi.host(v)
				}
			})
			hostTook = point.Host.Median()
		}
		last.take(nil)
		x.Finalize()
		for _, r := range []timing.Measurement{point.Awaited, point.Pipelined, point.Host} {
			if r.Err != nil && ctx.Err() == nil {
				return nil, r.Err
			}
		}
		if ctx.Err() == nil {
			w.Points = append(w.Points, point)
		}
	}
	w.Partial = ctx.Err() != nil
	return w, nil
}

// Floor is the time under which no call comes, however small its array: that of
// the smallest ones, in seconds.
func (w *Sweep) Floor() float64 {
	least := math.NaN()
	for _, p := range w.Points {
		least = min(orInf(least), p.Awaited.Median())
	}
	return least
}

func orInf(v float64) float64 {
	if math.IsNaN(v) {
		return math.Inf(1)
	}
	return v
}

// Crossover is the number of elements from which on the device is faster than
// the loop on the host, the call being waited for; 0 if it never is.
func (w *Sweep) Crossover() int {
	from := 0
	for _, p := range w.Points {
		if p.Host.N() == 0 {
			break
		}
		if p.Awaited.Median() < p.Host.Median() {
			from = cmp.Or(from, p.N)
		} else {
			from = 0
		}
	}
	return from
}

// Throughput is the most elements a second that the device has done.
func (w *Sweep) Throughput() float64 {
	most := 0.0
	for _, p := range w.Points {
		most = max(most, float64(p.N)/p.Pipelined.Median())
	}
	return most
}
