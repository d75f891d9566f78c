package profile

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"time"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"

	"gaiden/lib/engine/hlo"
	"gaiden/lib/engine/sealed"
	"gaiden/lib/engine/wire"
	"gaiden/lib/session"
	"gaiden/lib/sysinfo"
	"gaiden/lib/timing"
	"gaiden/lib/timing/units"
)

// Peaks are what a device can do at best, measured on it with programs that do
// nothing else. Real programs may come near, and none goes beyond except by
// what fits into a cache.
type Peaks struct {
	Device string `json:"device"`

	// Copy is the bandwidth of memory in bytes a second, read and written: an
	// array much larger than any cache is negated in place.
	Copy float64 `json:"copy"`

	// F32, TF32 and BF16 are matmuls of large square matrices, in FLOP/s: of
	// float32 at full precision, at the default one (TF32 on GPUs that have
	// it, else the same), and of bfloat16.
	F32  float64 `json:"f32"`
	TF32 float64 `json:"tf32"`
	BF16 float64 `json:"bf16"`

	// Dispatch is what a program of one addition costs in seconds when many
	// are requested without waiting; Latency is it when each is waited for.
	Dispatch float64 `json:"dispatch"`
	Latency  float64 `json:"latency"`

	// Busy says that something else ran while they were measured: they may be
	// too low then, and ReadPeaks measures them again.
	Busy bool      `json:"busy"`
	Time time.Time `json:"time"`
}

// String is the peaks in a line.
func (p Peaks) String() string {
	s := ""
	if p.Busy {
		s = " (the machine was busy then: they are measured again next time)"
	}
	on := ""
	if !p.Time.IsZero() {
		on = ", measured on " + p.Time.Format(time.DateOnly)
	}
	return fmt.Sprintf("%s%s: memory %s; matmuls f32 %s, default %s, bf16 %s; a program costs %s, one at a time %s",
		p.Device, on, units.ByteRate(p.Copy), units.FLOPRate(p.F32), units.FLOPRate(p.TF32), units.FLOPRate(p.BF16), units.Seconds(p.Dispatch), units.Seconds(p.Latency)) + s
}

// Share is how near a line comes to the peak that bounds it: the greater of
// its share of the matmuls' FLOP/s (of the type that it computes in) and of the memory's bandwidth, and
// which of them it is, "matmuls" or "memory". NaN where something is unknown, or
// cannot be: nothing is faster than the peak, but what is in a cache is faster than
// memory. Bound is then "cache" or "".
func (p Peaks) Share(l Line) (share float64, bound string) {
	seconds := l.Seconds()
	flops, bytes := l.FLOPs/seconds/p.matmuls(l.Narrow), l.Bytes/seconds/p.Copy
	switch {
	case math.IsNaN(flops) || math.IsInf(flops, 0) || math.IsNaN(bytes) || math.IsInf(bytes, 0) || l.Unclear() != "":
		return math.NaN(), ""
	case flops > possible:
		return math.NaN(), ""
	case bytes > possible && l.Bytes < cached:
		return math.NaN(), "cache"
	case bytes > possible:
		return math.NaN(), ""
	case flops > bytes:
		return min(flops, 1), "matmuls"
	}
	return min(bytes, 1), "memory"
}

const (
	possible = 1.1     // a share above it is a peak that was measured too low
	cached   = 1 << 26 // bytes that some cache may hold
)

// matmuls is the peak rate of matmuls, of a net that computes in bfloat16 or float16 or one
// that does not.
func (p Peaks) matmuls(narrow bool) float64 {
	if narrow {
		return max(p.BF16, p.TF32)
	}
	return p.TF32
}

// tooLow reports whether a line is faster than the peaks allow.
func (p Peaks) tooLow(l Line) bool {
	return l.Unclear() == "" && l.FLOPs/l.Seconds()/p.matmuls(l.Narrow) > possible
}

// Ridge is the FLOPs a byte at which matmuls begin to bound and memory ceases
// to: the corner of the roofline.
func (p Peaks) Ridge() float64 { return p.TF32 / p.Copy }

// ReadPeaks returns the peaks of the session's device: those measured before, or, if
// there are none or the machine was busy then, measured now and kept. progress is told, if it is not nil, that it takes a few
// seconds.
func ReadPeaks(ctx context.Context, s *session.Session, progress func(string)) (Peaks, error) {
	var p Peaks
	b, err := sealed.Read(peaksPath(s))
	if err == nil && json.Unmarshal(b, &p) == nil && p.valid() && !p.Busy {
		return p, nil
	}
	if progress != nil {
		progress("this device's peaks")
	}
	return MeasurePeaks(ctx, s)
}

// best joins two measurements of a device: a peak is the best that was seen.
func (p Peaks) best(old Peaks) Peaks {
	if !old.valid() || old.Device != p.Device {
		return p
	}
	p.Copy, p.F32, p.TF32, p.BF16 = max(p.Copy, old.Copy), max(p.F32, old.F32), max(p.TF32, old.TF32), max(p.BF16, old.BF16)
	p.Dispatch, p.Latency = min(p.Dispatch, old.Dispatch), min(p.Latency, old.Latency)
	if p.Busy && !old.Busy { // the peaks of a quiet machine stay good
		p.Busy, p.Time = false, old.Time
	}
	return p
}

func (p Peaks) valid() bool {
	for _, v := range []float64{p.Copy, p.F32, p.TF32, p.BF16, p.Dispatch, p.Latency} {
		if !(v > 0) || math.IsInf(v, 0) {
			return false
		}
	}
	return true
}

// peaksPath is the file of a device: another one, or another plugin, has
// another.
func peaksPath(s *session.Session) string {
	w, m := s.Welcome(), sysinfo.ReadMachine()
	h := sha256.New()
	fmt.Fprintln(h, w.Platform, w.PlatformVersion, deviceName(s), m.CPU, m.Cores, "v1")
	return filepath.Join(wire.CacheDir(), "peaks", hex.EncodeToString(h.Sum(nil)[:8])+".json")
}

// MeasurePeaks measures the peaks of the session's device and keeps the best that were
// seen for ReadPeaks. That they cannot be kept is no error.
func MeasurePeaks(ctx context.Context, s *session.Session) (Peaks, error) {
	m := peakMeter{ctx: ctx, s: s, cpu: s.Welcome().Platform == "cpu"}
	p := Peaks{Device: deviceName(s), Time: time.Now().UTC()}
	if p.Device == "cpu" {
		if c := sysinfo.ReadMachine(); c.CPU != "" {
			p.Device = fmt.Sprintf("%s, %d cores", c.CPU, c.Cores)
		}
	}
	p.Copy = m.copy()
	p.TF32 = m.product(dtypes.Float32, hlo.DefaultPrecision)
	p.F32 = p.TF32
	if !m.cpu { // a CPU's default is full precision
		p.F32 = m.product(dtypes.Float32, hlo.HighestPrecision)
	}
	p.BF16 = m.product(dtypes.BFloat16, hlo.DefaultPrecision)
	p.Dispatch, p.Latency = m.small()
	p.Busy = m.busy
	if m.err == nil && !p.valid() {
		m.err = fmt.Errorf("profile: peaks of %s: got %+v, want numbers above 0: measure again", p.Device, p)
	}
	if m.err != nil {
		return Peaks{}, m.err
	}
	return keepPeaks(peaksPath(s), p), nil
}

// keepPeaks keeps the best of peaks and of those that are kept, and returns it.
func keepPeaks(path string, p Peaks) Peaks {
	var old Peaks
	if b, err := sealed.Read(path); err == nil && json.Unmarshal(b, &old) == nil {
		p = p.best(old)
	}
	if b, err := json.Marshal(p); err == nil && os.MkdirAll(filepath.Dir(path), 0o700) == nil {
		_ = sealed.Write(path, b) // they are measured again, then
	}
	return p
}

// peakMeter measures one peak after the other, and nothing more after an error.
type peakMeter struct {
	ctx context.Context
	s   *session.Session
	cpu bool

	busy bool // the samples of some peak spread far
	err  error
}

// compile makes a program of one op or two; build panics with its error.
func (m *peakMeter) compile(name string, donate []bool, precision hlo.Precision, build func(f *hlo.Function) compute.Value) *session.Program {
	if m.err != nil {
		return nil
	}
	p, err := build1(name, precision, build)
	if err == nil {
		var x *session.Program
		if x, err = m.s.Compile(p, session.Options{Donate: donate, Origin: "profile"}); err == nil {
			return x
		}
	}
	m.err = fmt.Errorf("profile: peaks: %w", err)
	return nil
}

// build1 is a program with one result.
func build1(name string, precision hlo.Precision, build func(f *hlo.Function) compute.Value) (p *hlo.Program, err error) {
	defer func() {
		if r := recover(); r != nil {
			err, _ = r.(error)
		}
	}()
	b := hlo.NewBuilder(nil, name, nil)
	b.Precision = precision
	f := b.Main().(*hlo.Function)
	if err := f.Return([]compute.Value{build(f)}, nil); err != nil {
		return nil, err
	}
	return b.Program()
}

var scalar = shapes.Make(dtypes.Float32)

// must hands a value on, and an error to build1.
func must(v compute.Value, err error) compute.Value {
	if err != nil {
		panic(err)
	}
	return v
}

// run runs a program and returns its result.
func (m *peakMeter) run(p *session.Program, in ...*session.Array) *session.Array {
	if m.err != nil {
		return nil
	}
	out, err := p.Run(session.Call{Inputs: in})
	if err != nil {
		m.err = err
		return nil
	}
	return out[0]
}

// seconds is the best time of a call, NaN after an error: a peak is what the
// device can do, not what it does while something else runs.
func (m *peakMeter) seconds(wait bool, f func()) float64 {
	if m.err != nil {
		return math.NaN()
	}
	timer := timing.Timer{Budget: 300 * time.Millisecond, Sync: waiting(m.s), Clock: 0.005}
	found := timer.TimeContext(m.ctx, "peak", func() {
		f()
		if wait && m.err == nil {
			m.err = m.s.Wait()
		}
	})
	m.err = errors.Join(m.err, found.Err, m.ctx.Err())
	m.busy = m.busy || found.Spread() > 0.125
	return found.Best()
}

// newest is the last result of a program that is run again and again. It is kept
// until there is a newer one: a session waits for results that somebody has.
type newest struct{ array *session.Array }

func (n *newest) take(a *session.Array) {
	if n.array != nil {
		n.array.Finalize()
	}
	n.array = a
}

// fill makes an array of numbers between 0 and 1 on the device.
func (m *peakMeter) fill(dtype dtypes.DType, dims ...int) *session.Array {
	p := m.compile("peak fill", nil, hlo.DefaultPrecision, func(f *hlo.Function) compute.Value {
		n := must(f.Iota(shapes.Make(dtypes.Float32, dims...), len(dims)-1))
		return must(f.ConvertDType(must(f.Abs(must(f.Sin(n)))), dtype))
	})
	return m.run(p)
}

func (m *peakMeter) copy() float64 {
	n := 1 << 26
	if m.cpu {
		n = 1 << 24
	}
	shape := shapes.Make(dtypes.Float32, n)
	p := m.compile("peak copy", []bool{true}, hlo.DefaultPrecision, func(f *hlo.Function) compute.Value {
		return must(f.Neg(must(f.Parameter("x", shape, nil))))
	})
	x := m.fill(dtypes.Float32, n)
	took := m.seconds(false, func() { x = m.run(p, x) })
	if x != nil {
		x.Finalize()
	}
	return 2 * float64(shape.ByteSize()) / took
}

func (m *peakMeter) product(dtype dtypes.DType, precision hlo.Precision) float64 {
	n := 8192
	switch {
	case m.cpu && dtype == dtypes.BFloat16: // most processors have no such instruction
		n = 512
	case m.cpu:
		n = 1024
	case precision == hlo.HighestPrecision:
		n = 4096
	}
	shape := shapes.Make(dtype, n, n)
	p := m.compile("peak product", nil, precision, func(f *hlo.Function) compute.Value {
		x, y := must(f.Parameter("x", shape, nil)), must(f.Parameter("y", shape, nil))
		return must(f.DotGeneral(x, []int{1}, nil, y, []int{0}, nil, compute.DotGeneralConfig{}))
	})
	x := m.fill(dtype, n, n)
	var last newest
	took := m.seconds(false, func() { last.take(m.run(p, x, x)) })
	last.take(nil)
	if x != nil {
		x.Finalize()
	}
	return 2 * float64(n) * float64(n) * float64(n) / took
}

func (m *peakMeter) small() (dispatch, latency float64) {
	p := m.compile("peak dispatch", []bool{true}, hlo.DefaultPrecision, func(f *hlo.Function) compute.Value {
		return must(f.Neg(must(f.Parameter("x", scalar, nil))))
	})
	var x *session.Array
	if m.err == nil {
		x, m.err = m.s.Put([]float32{1}, scalar, 0)
	}
	next := func() { x = m.run(p, x) }
	return m.seconds(false, next), m.seconds(true, next)
}
