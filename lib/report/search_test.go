package report

import (
	"encoding/xml"
	"errors"
	"io"
	"math"
	"strings"
	"testing"

	"gaiden/lib/fit"
	"gaiden/lib/search"
)

// TestSearchPlots holds that a search is a line for each trial, and that what has no result
// has none; and that a range test is plotted over a logarithmic axis.
func TestSearchPlots(t *testing.T) {
	r, err := search.Run(search.Grid(map[string][]float64{"rate": {1e-3, 1e-1}, "units": {8, 64}}), "loss", func(s search.Settings) (*fit.History, error) {
		if s["rate"] > 0.01 && s["units"] == 8 {
			return nil, errors.New("<no> memory")
		}
		return &fit.History{Epochs: []fit.Epoch{{Number: 1, Train: fit.Score{Loss: s["rate"] * s["units"]}}}}, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	p := Parallel(r)
	html := p.HTML()
	for d := xml.NewDecoder(strings.NewReader(html)); ; {
		if _, err := d.Token(); err == io.EOF {
			break
		} else if err != nil {
			t.Fatalf("%v in\n%s", err, html)
		}
	}
	if got := strings.Count(html, "<polyline"); got != 3 || strings.Contains(html, "NaN") || !strings.Contains(html, ">rate</text>") || !strings.Contains(html, "the best: rate 0.001, units 8") {
		t.Errorf("got %d lines, want 3\n%s", got, html)
	}
	for i := range r.Trials { // results that are nearly the same: labels would lie on each other
		r.Trials[i].Value = 1 + 0.001*float64(i)
	}
	r.Trials[3].Value = 2
	if html := Parallel(r).HTML(); !strings.Contains(html, ">1</text>") || strings.Contains(html, ">1.001</text>") || !strings.Contains(html, ">2</text>") {
		t.Errorf("got labels on each other, or too few\n%s", html)
	}
	if text := p.String(); !strings.Contains(text, "failed: <no> memory") {
		t.Errorf("got\n%s", text)
	}
	if got := Parallel(nil).HTML() + Parallel(nil).String(); !strings.Contains(got, "no trials") {
		t.Errorf("nothing: got %s", got)
	}
	c := &search.RateCurve{Rates: []float64{1e-3, 1e-2}, Losses: []float64{2, 1}, Smooth: []float64{2, 1.5}, Suggestion: 1e-3}
	if got := RateCurve(c); !got.LogX || !got.LogY || len(got.Series) != 2 || !strings.Contains(got.Title, "0.001") {
		t.Errorf("got %+v", got)
	}
	if got := RateCurve(nil); strings.Contains(got.HTML(), "NaN") || !math.IsNaN((&search.RateCurve{Suggestion: math.NaN()}).Suggestion) {
		t.Errorf("nothing: got %s", got.HTML())
	}
}
