package report

import (
	"fmt"
	"math"

	"gaiden/lib/profile"
	"gaiden/lib/timing/units"
)

// Roofline returns a roofline plot (Williams, Waterman and Patterson, "Roofline",
// 2009): the FLOP/s of each line over its FLOPs per byte, under the limits of the
// device's memory bandwidth and matmul rate. A table gives the figures of all lines
// whose work is known, including those that are not plotted: without FLOPs, or with a
// time that could not be measured.
func Roofline(title string, peaks profile.Peaks, lines ...profile.Line) Rich {
	ridge := peaks.Ridge()
	low, high := ridge/64, ridge*16
	t := Table{Head: []string{"", "FLOPs a byte", "FLOP/s", "B/s", "of peak"}}
	groups := []Series{{Name: "phases", Points: true}, {Name: "layers, forward", Points: true}, {Name: "layers, backward", Points: true}, {Name: "ops", Points: true}}
	for _, l := range lines {
		share, bound := peaks.Share(l)
		intensity, rate := l.FLOPs/l.Bytes, l.FLOPs/l.Seconds()
		if math.IsNaN(intensity) || math.IsInf(intensity, 0) { // no program, or one that touches no memory
			continue
		}
		row := []string{l.Path(), fmt.Sprintf("%.3g", intensity), "", "", ofPeak(share, bound)}
		measured := !math.IsNaN(share) || bound != ""
		if measured {
			row[2], row[3] = units.FLOPRate(rate), units.ByteRate(l.Bytes/l.Seconds())
		}
		t.Rows = append(t.Rows, row)
		if measured && intensity > 0 {
			low, high = min(low, intensity/2), max(high, intensity*2)
			g := &groups[group(l)]
			g.X, g.Y = append(g.X, intensity), append(g.Y, rate)
		}
	}
	roof := func(name string, flops float64) Series {
		corner := flops / peaks.Copy
		return Series{Name: name, X: []float64{low, corner, max(high, corner)}, Y: []float64{low * peaks.Copy, flops, flops}}
	}
	p := Plot{Title: title, X: "FLOPs a byte", Y: "FLOP/s", LogX: true, LogY: true, Height: 420}
	p.Series = append(p.Series, roof(fmt.Sprintf("%s, %s", units.ByteRate(peaks.Copy), units.FLOPRate(peaks.TF32)), peaks.TF32))
	if peaks.BF16 > 1.1*peaks.TF32 {
		p.Series = append(p.Series, roof("bfloat16 "+units.FLOPRate(peaks.BF16), peaks.BF16))
	}
	if peaks.F32 < 0.9*peaks.TF32 {
		p.Series = append(p.Series, roof("full float32 "+units.FLOPRate(peaks.F32), peaks.F32))
	}
	for _, g := range groups {
		if len(g.Y) > 0 {
			p.Series = append(p.Series, g)
		}
	}
	if len(t.Rows) == 0 {
		return p
	}
	return column{t, p}
}

// group is the colour of a line's point: more than four could not be told apart.
func group(l profile.Line) int {
	switch {
	case l.Level == profile.Operation:
		return 3
	case l.Level == profile.Layer && l.Phase == "backward":
		return 2
	case l.Level == profile.Layer:
		return 1
	}
	return 0
}

// Peaks returns a table of the peak rates of a device.
func Peaks(p profile.Peaks) Table {
	return Table{Title: "Peaks of " + p.Device, Head: []string{"", "measured"}, Rows: [][]string{
		{"memory, read and written", units.ByteRate(p.Copy)},
		{"matmuls of float32, full precision", units.FLOPRate(p.F32)},
		{"matmuls of float32, default precision", units.FLOPRate(p.TF32)},
		{"matmuls of bfloat16", units.FLOPRate(p.BF16)},
		{"a small program, many in flight", units.Seconds(p.Dispatch)},
		{"a small program, one at a time", units.Seconds(p.Latency)},
		{"FLOPs a byte at the ridge", number(math.Round(10*p.Ridge()) / 10)},
	}, Notes: busy(p)}
}

// busy says when peaks were measured, and whether to believe them.
func busy(p profile.Peaks) []string {
	notes := []string{"measured " + p.Time.Format("2006-01-02 15:04 MST")}
	if p.Busy {
		notes = append(notes, "the machine was busy then: the figures may be too low, and are measured again next time")
	}
	return notes
}
