package main

import (
	"fmt"
	"io"
	"slices"
	"text/tabwriter"

	"gaiden/lib/timing"
)

// find is the first record of a case and subject; nil if there is none.
func (b *bench) find(name, subject string) *timing.Record {
	i := slices.IndexFunc(b.records, func(r timing.Record) bool { return r.Case == name && r.Subject == subject })
	if i < 0 {
		return nil
	}
	return &b.records[i]
}

// printTrain prints a line for each net and way of training it. A dash is what
// could not be measured.
func (b *bench) printTrain(w io.Writer) {
	cell := func(format string, r *timing.Record) string {
		if r == nil {
			return "–"
		}
		return fmt.Sprintf(format, r.Median)
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "net\thow\tµs/step\tquartiles\tsamples/s\tkernels/step\tfirst call\tpeak memory\t")
	for _, c := range trainCases {
		for _, r := range b.records {
			if r.Case == c.name {
				fmt.Fprintf(t, "%s\t%s\t%.4g\t%.4g … %.4g\t%.3g\t%s\t%s\t%s\t\n", c.name, r.Subject, r.Median, r.Low, r.High, float64(c.batch)/r.Median*1e6,
					cell("%.1f", b.find(c.name+"-kernels", r.Subject)), cell("%.2f s", b.find(c.name+"-first", r.Subject)), cell("%.0f MB", b.find(c.name+"-memory", r.Subject)))
			}
		}
	}
	t.Flush()
}
