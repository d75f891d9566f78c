package report

import (
	"math"
	"strconv"

	"gaiden/lib/timing/units"
)

// An axis maps numbers to positions between 0 and 1.
type axis struct {
	log       bool
	low, high float64
	empty     bool
	whole     bool // names whole numbers alone, such as those of epochs
}

func newAxis(log bool) axis { return axis{log: log, empty: true} }

func (a *axis) shows(v float64) bool { return !a.log || v > 0 }

func (a *axis) include(v float64) {
	if a.empty {
		a.low, a.high, a.empty = v, v, false
	}
	a.low, a.high = min(a.low, v), max(a.high, v)
}

// widen leaves room at both ends, as a share of the whole, and makes a range
// of what is none.
func (a *axis) widen(share float64) {
	switch {
	case a.empty && a.log:
		a.low, a.high = 1, 10
	case a.empty:
		a.low, a.high = 0, 1
	case a.log:
		// In logarithms, because high/low may be too large for a float64.
		room := share * (math.Log(a.high) - math.Log(a.low))
		if room < 1e-4 {
			room = math.Ln2
		}
		low, high := math.Exp(math.Log(a.low)-room), math.Exp(math.Log(a.high)+room)
		if low > 0 && !math.IsInf(high, 0) {
			a.low, a.high = low, high
		}
	case a.high-a.low <= 1e-12*math.Max(math.Abs(a.low), math.Abs(a.high)):
		// One value, or several that a float64 hardly tells apart.
		room := math.Max(math.Abs(a.low)/20, 1e-300)
		if a.low == 0 {
			room = 1
		}
		a.low, a.high = a.low-room, a.high+room
	default:
		room := share * (a.high - a.low)
		a.low, a.high = a.low-room, a.high+room
	}
}

// place is the position of v: 0 at the low end, 1 at the high end.
func (a *axis) place(v float64) float64 {
	low, high := a.low, a.high
	if a.log {
		v, low, high = math.Log(v), math.Log(low), math.Log(high)
	}
	if !(low < high) { // numbers may differ where their logarithms do not
		return 0.5
	}
	return (v - low) / (high - low)
}

// A tick is a number that an axis names.
type tick struct {
	at    float64
	label string
}

// ticks returns about so many round numbers inside the range.
func (a *axis) ticks(about int) []tick {
	if a.log {
		if t := a.logTicks(about); len(t) >= 2 {
			return t
		}
	}
	step := niceStep((a.high - a.low) / float64(about))
	if a.whole && a.high-a.low >= 1 {
		step = max(step, 1)
	}
	// Either all numbers of an axis have a power of ten or none has.
	power := max(math.Abs(a.low), math.Abs(a.high)) >= 1e7 || step < 1e-5
	var all []tick
	for i := math.Ceil(a.low / step); i*step <= a.high && len(all) < 4*about; i++ {
		all = append(all, tick{i * step, tickLabel(i*step, step, power)})
		if i+1 == i {
			break // the range is finer than the numbers
		}
	}
	return all
}

// niceStep is the nearest number of 1, 2 or 5 times a power of ten.
func niceStep(rough float64) float64 {
	power := math.Pow(10, math.Floor(math.Log10(rough)))
	switch f := rough / power; {
	case f < math.Sqrt(2):
		return power
	case f < math.Sqrt(10):
		return 2 * power
	case f < math.Sqrt(50):
		return 5 * power
	}
	return 10 * power
}

// logTicks returns powers of ten, thinned out, with 2 and 5 times them where
// there are few.
func (a *axis) logTicks(about int) []tick {
	first, last := math.Floor(math.Log10(a.low)), math.Ceil(math.Log10(a.high))
	steps := []float64{1}
	if last-first <= 3 {
		steps = []float64{1, 2, 5}
	}
	every := math.Max(1, math.Ceil((last-first)/float64(about)))
	var all []tick
	plain := true // either all numbers of an axis are powers of ten or none is
	for e := math.Ceil(first/every) * every; e <= last; e += every {
		for _, s := range steps {
			if v := s * math.Pow(10, e); v >= a.low*(1-1e-9) && v <= a.high*(1+1e-9) && v > 0 {
				all = append(all, tick{at: v})
				plain = plain && e >= -3 && e <= 4
			}
		}
	}
	for i := range all {
		all[i].label = logLabel(all[i].at, plain)
	}
	return all
}

func logLabel(v float64, plain bool) string {
	switch e := int(math.Floor(math.Log10(v) + 1e-9)); {
	case !plain:
		return scientific(v, 1)
	case e >= 0:
		return units.Count(int(math.Round(v)))
	default:
		return strconv.FormatFloat(v, 'f', -e, 64)
	}
}

// tickLabel has just the digits that tell neighbours apart.
func tickLabel(v, step float64, power bool) string {
	if math.Abs(v) < step/1e6 {
		v = 0
	}
	decimal := math.Floor(math.Log10(step) + 1e-9)
	switch {
	case power && v == 0:
		return "0"
	case power:
		return scientific(v, int(min(max(math.Floor(math.Log10(math.Abs(v)))-decimal+1, 1), 17)))
	case decimal >= 0:
		return units.Count(int(math.Round(v)))
	}
	return strconv.FormatFloat(v, 'f', int(-decimal), 64)
}
