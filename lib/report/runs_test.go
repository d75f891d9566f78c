package report

import (
	"strings"
	"testing"
	"time"

	"gaiden/lib/runs"
)

// Runs shows the settings in which runs differ, and means of many steps.
func TestRuns(t *testing.T) {
	run := func(name, batch string, steps int) *runs.Run {
		r := &runs.Run{Name: name, Net: "net", State: runs.Done, To: steps, Settings: map[string]string{"Batch": batch, "Seed": "1"},
			Results: map[string]runs.Number{"loss": 0.25, "validation/loss": 0.5}, Epochs: []runs.Epoch{{Epoch: 1, Step: steps, Validation: map[string]runs.Number{"loss": 0.5}}},
			Began: time.Unix(1e9, 0), Ended: time.Unix(1e9+90, 0), Code: "net.Fit(<x>)"}
		for i := range steps {
			r.Steps = append(r.Steps, runs.Step{Step: i + 1, Loss: runs.Number(i % 2)})
		}
		return r
	}
	two := Runs{Runs: []*runs.Run{run("a", "8", 1000), run("b", "16", 10), {Name: "job", Net: "net"}}}
	text := two.String()
	for _, want := range []string{"Batch", "16", "1m30s", "validation/loss", "0.5"} {
		if !strings.Contains(text, want) {
			t.Errorf("got %q, want %q in it", text, want)
		}
	}
	if strings.Contains(text, "Seed") {
		t.Errorf("got %q, want no setting that is the same of all", text)
	}
	p := two.plot()
	if len(p.Series) != 2 || len(p.Series[0].Y) != 100 || p.Series[0].Y[0] != 0.5 || p.Series[0].X[99] != 1000 || len(p.Series[1].Y) != 10 {
		t.Errorf("got %d series of %+v", len(p.Series), p.Series)
	}
	two.Curve = "validation/loss"
	if p := two.plot(); len(p.Series) != 2 || p.Series[0].Y[0] != 0.5 {
		t.Errorf("validation/loss: got %+v", p.Series)
	}
	wellFormed(t, two.HTML())
	sheet := RunSheet{two.Runs[0]}
	if text, page := sheet.String(), sheet.HTML(); !strings.Contains(text, "net.Fit(<x>)") || !strings.Contains(page, "net.Fit(&lt;x&gt;)") {
		t.Errorf("got %q and %q, want the code", text, page)
	}
	if text := strings.TrimSpace((Runs{}).String()); text != `no runs: fit.Train{Log: "runs/first"} keeps one` {
		t.Errorf("got %q", text)
	}
	wellFormed(t, (Runs{}).HTML())
	wellFormed(t, sheet.HTML())
}
