// Package units formats numbers with units for people: 1.42 ms, 3.10 TFLOP/s, 188 MB.
//
// Inside Gaiden, quantities are plain float64 values in seconds, bytes and FLOPs;
// they are scaled only for printing, to three significant digits:
//
//	units.Seconds(0.00142)    // "1.42 ms"
//	units.FLOPRate(3.1e12)    // "3.10 TFLOP/s"
//	units.Bytes(188_160_000)  // "188 MB"
//	units.Count(60_000)       // "60,000"
//
// Prefixes are powers of ten, as in the data sheets of GPUs; there are no binary
// prefixes such as GiB. Nothing fails: NaN and infinities are printed as such.
package units

import (
	"math"
	"strconv"
)

// Seconds formats a time in seconds: "57.3 ns", "1.42 ms", "2.31 s", "2m05s",
// "3h20m".
func Seconds(s float64) string {
	switch a := math.Abs(s); {
	case !(a >= 59.95) || math.IsInf(a, 0) || a > 1e9:
		// Small, or not a time that a clock would show.
		return Prefixed(s, "s")
	case a < 3599.5:
		whole := int(math.Round(a))
		return sign(s) + strconv.Itoa(whole/60) + "m" + two(whole%60) + "s"
	default:
		whole := int(math.Round(a / 60))
		return sign(s) + strconv.Itoa(whole/60) + "h" + two(whole%60) + "m"
	}
}

// Clock formats how long something takes for one who waits: "0.4 s", "12 s", "2m05s",
// "3h20m". Below a tenth of a second it is [Seconds].
func Clock(s float64) string {
	switch a := math.Abs(s); {
	case a >= 0.095 && a < 9.95:
		return number(s, 1) + " s"
	case a >= 9.95 && a < 59.5:
		return number(s, 0) + " s"
	case a >= 59.5 && a < 60:
		return sign(s) + "1m00s"
	}
	return Seconds(s)
}

// Bytes formats a number of bytes: "188 MB".
func Bytes(n float64) string { return whole(n, "B") }

// ByteRate formats a bandwidth in bytes per second: "4.80 TB/s".
func ByteRate(n float64) string { return Prefixed(n, "B/s") }

// FLOPs formats a number of floating-point operations: "8.40 GFLOP".
func FLOPs(n float64) string { return whole(n, "FLOP") }

// FLOPRate formats a number of floating-point operations per second: "3.10 TFLOP/s".
func FLOPRate(n float64) string { return Prefixed(n, "FLOP/s") }

// Percent formats a share as a percentage: 0.936 is "93.6 %". Small shares keep one
// digit.
func Percent(share float64) string {
	switch a := math.Abs(share); {
	case math.IsNaN(share) || math.IsInf(share, 0):
		return number(share, 0) + " %"
	case a != 0 && a < 0.0005:
		return strconv.FormatFloat(100*share, 'g', 1, 64) + " %"
	default:
		return strconv.FormatFloat(100*share, 'f', 1, 64) + " %"
	}
}

// Count formats a whole number with commas: "61,706".
func Count(n int) string {
	s := strconv.Itoa(n)
	for i := len(s) - 3; i > 0 && s[i-1] != '-'; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// Plural formats a number of things: "1 block", "1,024 blocks".
func Plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return Count(n) + " " + noun + "s"
}

var prefixes = []struct {
	name  string
	value float64
}{{"n", 1e-9}, {"µ", 1e-6}, {"m", 1e-3}, {"", 1}, {"k", 1e3}, {"M", 1e6}, {"G", 1e9}, {"T", 1e12}, {"P", 1e15}, {"E", 1e18}}

// Prefixed formats a value of any unit with three significant digits and a prefix
// from nano to exa that leaves one to three digits before the point. Seconds get no
// prefix above one.
func Prefixed(value float64, unit string) string {
	if value == 0 || math.IsNaN(value) || math.IsInf(value, 0) {
		return number(value, 0) + " " + unit
	}
	last := len(prefixes) - 1
	if unit == "s" {
		last = 3
	}
	for i, p := range prefixes[:last+1] {
		scaled := value / p.value
		// 999.6 µs rounds to 1000 µs, which is 1.00 ms.
		if math.Abs(scaled) < 999.5 || i == last {
			return number(scaled, digits(scaled)) + " " + p.name + unit
		}
	}
	return number(value, 0) + " " + unit
}

// whole is Prefixed for what comes in whole numbers: no 12.0 B.
func whole(n float64, unit string) string {
	if math.Abs(n) < 1000 && n == math.Trunc(n) {
		return number(n, 0) + " " + unit
	}
	return Prefixed(n, unit)
}

// digits behind the point that make three in all.
func digits(v float64) int {
	switch a := math.Abs(v); {
	case a < 9.995:
		return 2
	case a < 99.95:
		return 1
	}
	return 0
}

func number(v float64, digits int) string {
	switch {
	case math.IsNaN(v):
		return "NaN"
	case math.IsInf(v, 1):
		return "∞"
	case math.IsInf(v, -1):
		return "-∞"
	case math.Abs(v) >= 1e6:
		return strconv.FormatFloat(v, 'g', 3, 64)
	}
	return strconv.FormatFloat(v, 'f', digits, 64)
}

func sign(v float64) string {
	if v < 0 {
		return "-"
	}
	return ""
}

func two(n int) string {
	if n < 10 {
		return "0" + strconv.Itoa(n)
	}
	return strconv.Itoa(n)
}
