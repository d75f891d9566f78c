package timing

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"gaiden/lib/sysinfo"
	"gaiden/lib/timing/stats"
	"gaiden/lib/timing/units"
)

// A Measurement is what a [Timer] found out about one case. It is data: a
// measurement can also be made of samples from elsewhere.
type Measurement struct {
	Name    string    `json:"name"`
	Samples []float64 `json:"samples"`    // seconds for one call, in the order measured
	Loops   int       `json:"loops"`      // calls in each sample
	First   float64   `json:"first_call"` // seconds of the first call, which is no sample
	Device  bool      `json:"device"`     // the device was waited for at both ends
	Partial bool      `json:"partial"`    // stopped before it was done

	// Turns is the same for measurements that were taken in turns, sample i of
	// each beside sample i of the others; 0 for one by itself.
	Turns uint64 `json:"turns,omitempty"`

	// Host is how long one call kept the host when the device was idle before
	// it, in seconds: what it costs to ask. 0 means that it is not known.
	Host float64 `json:"host"`

	Time time.Time `json:"time"` // when it began

	// Err says why there are no samples, or no more of them.
	Err error `json:"-"`
	// Warnings are doubts that do not make the samples useless.
	Warnings []error `json:"-"`
}

// A Warning is a doubt about a result, in words. It is a type that others can
// make, so that a notebook can keep the result from one cell to the next: one
// that holds what errors.New makes would be measured anew in each.
type Warning string

// Error implements error.
func (w Warning) Error() string { return string(w) }

// warningf makes a Warning.
func warningf(format string, args ...any) error { return Warning(fmt.Sprintf(format, args...)) }

// N is the number of samples.
func (m Measurement) N() int { return len(m.Samples) }

// Median is the middle sample in seconds, NaN if there is none.
func (m Measurement) Median() float64 { return stats.Median(m.Samples) }

// Best is the shortest sample in seconds.
func (m Measurement) Best() float64 { return stats.Min(m.Samples) }

// DispatchBound says that the device was not the limit: what the host does for
// a call takes as long as the call. The device's own time is hidden behind it
// then, and less than the median. Nobody needs a millisecond to ask: a longer
// call that keeps the host waits for its own result.
func (m Measurement) DispatchBound() bool {
	return m.Device && m.Median() < 1e-3 && m.Host > dispatchShare*m.Best()
}

const dispatchShare = 0.8

// alone takes in how long a block kept the host, if it was a single call: in
// longer ones the host may have waited until the device took more.
func (m *Measurement) alone(host float64) {
	if m.Loops == 1 && (m.Host == 0 || host < m.Host) {
		m.Host = host
	}
}

// copy is the measurement as it stands.
func (m *Measurement) copy() Measurement {
	c := *m
	c.Samples, c.Warnings = slices.Clone(m.Samples), slices.Clone(m.Warnings)
	return c
}

// Spread is half the distance of the quartiles as a share of the median.
func (m Measurement) Spread() float64 { return stats.Spread(m.Samples) }

// String is the measurement on a line, with a line for its error and for each
// warning.
func (m Measurement) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s   ", m.Name)
	if m.N() == 0 {
		b.WriteString("not measured")
	} else {
		fmt.Fprintf(&b, "%s ± %s   median of %s of %s", units.Seconds(m.Median()), percent(m.Spread()), units.Plural(m.N(), "block"), units.Count(m.Loops))
		if m.First > 0 {
			fmt.Fprintf(&b, "   first call %s, not counted", units.Seconds(m.First))
		}
	}
	if m.Partial {
		b.WriteString("   stopped: partial result")
	}
	if m.Err != nil {
		fmt.Fprintf(&b, "\nerror: %v", m.Err)
	}
	for _, w := range m.Warnings {
		fmt.Fprintf(&b, "\nwarning: %v", w)
	}
	return b.String()
}

// IPython is the result line of IPython's %timeit, in its words:
// "1.32 ms ± 12.3 µs per loop (mean ± std. dev. of 7 runs, 1,000 loops each)".
func (m Measurement) IPython() string { return m.IPythonDigits(3) }

// IPythonDigits is IPython with another number of digits, as %timeit's -p has
// it.
func (m Measurement) IPythonDigits(digits int) string {
	if m.N() == 0 {
		return "not measured"
	}
	return fmt.Sprintf("%s ± %s per loop (mean ± std. dev. of %s, %s each)", ipythonTime(stats.Mean(m.Samples), digits),
		ipythonTime(stats.StdDev(m.Samples), digits), units.Plural(m.N(), "run"), units.Plural(m.Loops, "loop"))
}

// ipythonTime is IPython's _format_time.
func ipythonTime(s float64, digits int) string {
	if s >= 60 {
		var parts []string
		left := s
		for _, u := range []struct {
			suffix string
			length float64
		}{{"d", 86400}, {"h", 3600}, {"min", 60}, {"s", 1}} {
			if value := math.Trunc(left / u.length); value > 0 {
				parts = append(parts, strconv.Itoa(int(value))+u.suffix)
				left = math.Mod(left, u.length)
			}
			if left < 1 {
				break
			}
		}
		return strings.Join(parts, " ")
	}
	order := 3
	if s > 0 {
		order = min(int(-math.Floor(math.Floor(math.Log10(s))/3)), 3)
	}
	scaled := s * math.Pow(1000, float64(order))
	// %g would write 1000 as 1e+03, which is what IPython shows as well.
	return fmt.Sprintf("%.*g %s", max(digits, 1), scaled, []string{"s", "ms", "µs", "ns"}[order])
}

// judge writes the warnings; clock is the seconds that reading it costs, of which
// a share is allowed.
func (m *Measurement) judge(clock, allowed float64) {
	if m.Partial && m.Err == nil && m.N() == 0 {
		m.Err = errStopped
	}
	if m.N() == 0 {
		return
	}
	warn := func(format string, args ...any) { m.Warnings = append(m.Warnings, warningf(format, args...)) }
	if share := clock / (m.Median() * float64(m.Loops)); share > 1.5*allowed {
		warn("reading the clock is %s of each sample; raise Timer.Loops (-n) above %s; if it was found, the machine was busy then", units.Percent(share), units.Count(m.Loops))
	}
	if m.DispatchBound() {
		warn("dispatch-bound: a call keeps the host for %s, so the device may have waited; put more work into one program, or ask for no result in the loop", units.Seconds(m.Host))
	}
	if m.N() < leastRuns {
		warn("%s cannot show how far they spread; raise Timer.Runs (-r)", units.Plural(m.N(), "sample"))
		return
	}
	// The limits are those of torch.utils.benchmark: quartiles a tenth and a
	// quarter of the median apart.
	switch spread := m.Spread(); {
	case spread > 0.125:
		warn("the samples spread %s: do not trust this figure; the machine is busy, or the work differs from call to call", percent(spread))
	case spread > 0.05:
		warn("the samples spread %s; raise Timer.Budget or Timer.Runs (-r), or quiet the machine, for a firmer answer", percent(spread))
	}
	if slowest := stats.Max(m.Samples) / m.Best(); slowest > 4 {
		warn("the slowest sample took %.2f times as long as the fastest; some calls may do other work, or find it cached", slowest)
	}
	if drift, proven := m.drift(); proven {
		warn("the second half took %+.0f%% of time against the first: the machine, or the work, changes while it is measured", 100*drift)
	}
}

// drift compares the two halves of the samples.
func (m *Measurement) drift() (change float64, proven bool) {
	half := m.N() / 2
	early, late := m.Samples[:half], m.Samples[half:]
	change = stats.Median(late)/stats.Median(early) - 1
	return change, half >= 5 && math.Abs(change) > 0.05 && stats.MannWhitney(early, late) < 0.001
}

// Benchstat is the measurements in the text format of Go's benchmarks, a line
// for each sample, which benchstat and other tools read.
func Benchstat(measurements ...Measurement) string {
	machine := sysinfo.ReadMachine()
	var b strings.Builder
	fmt.Fprintf(&b, "goos: %s\ngoarch: %s\npkg: gaiden\n", machine.OS, machine.Arch)
	if machine.CPU != "" {
		fmt.Fprintf(&b, "cpu: %s\n", machine.CPU)
	}
	for _, m := range measurements {
		for _, s := range m.Samples {
			fmt.Fprintf(&b, "Benchmark%s-%d\t%8d\t%s ns/op\n", benchName(m.Name), machine.Cores, m.Loops, strconv.FormatFloat(1e9*s, 'f', -1, 64))
		}
	}
	return b.String()
}

// benchName makes a name that is one word and starts like an exported one.
func benchName(name string) string {
	words := strings.FieldsFunc(name, func(r rune) bool { return r <= ' ' || r == 0x7f || r == '\u00a0' })
	joined := strings.Join(words, "_")
	if joined == "" {
		return "Unnamed"
	}
	if c := joined[0]; c >= 'a' && c <= 'z' {
		joined = string(c-'a'+'A') + joined[1:]
	}
	return joined
}

// A Record is one line of the benchmarks' JSON files.
type Record struct {
	Bench    string  `json:"bench"`
	Case     string  `json:"case"`
	Subject  string  `json:"subject"` // "gaiden", a variant of it, or a peer
	Unit     string  `json:"unit"`
	Median   float64 `json:"median"`
	Low      float64 `json:"low"`  // first quartile
	High     float64 `json:"high"` // third quartile
	N        int     `json:"n"`
	Machine  string  `json:"machine"`
	Versions string  `json:"versions"`
	Date     string  `json:"date"` // RFC 3339
}

// Record makes a benchmark's line of a measurement, in µs. There is none, and
// an error, where nothing was measured: JSON has no NaN.
func (m Measurement) Record(bench, name, subject string, info sysinfo.Info) (Record, error) {
	if m.N() == 0 {
		return Record{}, fmt.Errorf("timing: %s: no samples to record: %w", m.Name, errors.Join(m.Err))
	}
	machine := info.Machine.String()
	for _, g := range info.GPUs {
		machine += "; " + g.String()
	}
	return Record{
		Bench: bench, Case: name, Subject: subject, Unit: "µs",
		Median: 1e6 * m.Median(), Low: 1e6 * stats.Quantile(m.Samples, 0.25), High: 1e6 * stats.Quantile(m.Samples, 0.75), N: m.N(),
		Machine: machine, Versions: info.Versions.String(), Date: m.Time.Format(time.RFC3339),
	}, nil
}

// Sorted returns the measurements from the fastest median to the slowest;
// those without samples come last.
func Sorted(measurements []Measurement) []Measurement {
	s := slices.Clone(measurements)
	slices.SortStableFunc(s, func(a, b Measurement) int {
		switch x, y := a.Median(), b.Median(); {
		case x < y || math.IsNaN(y) && !math.IsNaN(x):
			return -1
		case x > y || math.IsNaN(x) && !math.IsNaN(y):
			return 1
		}
		return 0
	})
	return s
}

func percent(share float64) string {
	switch {
	case math.IsNaN(share):
		return "?%"
	case share < 0.0095:
		return fmt.Sprintf("%.1f%%", 100*share)
	}
	return fmt.Sprintf("%.0f%%", 100*share)
}
