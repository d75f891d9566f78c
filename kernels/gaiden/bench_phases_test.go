package main

import (
	"encoding/json"
	"math"
	"os"
	"strings"
	"testing"

	"gaiden/lib/models"
	"gaiden/lib/timing"
)

// TestRecordedPhases holds what gaiden bench phases found on an H200: the phases
// and what belongs to none are a step, %timeit agrees with PyTorch and JAX, and
// FLOPs are those that XLA counts.
func TestRecordedPhases(t *testing.T) {
	var records []timing.Record
	for _, day := range []string{"2026-11-21", "2026-11-22"} {
		b, err := os.ReadFile("results/" + day + "-h200-phases.json")
		if err != nil {
			t.Fatal(err)
		}
		var some []timing.Record
		if err := json.Unmarshal(b, &some); err != nil {
			t.Fatal(err)
		}
		records = append(records, some...)
	}
	near := func(r timing.Record, want, within float64) {
		t.Helper()
		if math.Abs(r.Median/want-1) > within {
			t.Errorf("%s, %s: got %g, want %g within %.1f%%", r.Case, r.Subject, r.Median, want, 100*within)
		}
	}
	counted, ours, seen := map[string]float64{}, 0.0, 0
	for _, r := range records {
		what := r.Case[strings.LastIndexByte(r.Case, '/')+1:]
		switch {
		case what == "check step labels", // the kernels that no phase is known to need
			what == "check": // phases and what belongs to none, against the step
			near(r, 1, 0.03)
		case r.Case == "product-4096" && strings.HasPrefix(r.Subject, "gaiden"):
			ours = r.Median
			continue
		case r.Case == "product-4096":
			near(r, ours, 0.05)
		case what == "flops" && r.Subject == "counted":
			counted[r.Case] = r.Median
			continue
		case what == "flops" && (strings.Contains(r.Case, "/next/") || strings.Contains(r.Case, "/loss/")):
			continue // XLA counts a byte made a number as one, and an op in two fusions twice: half of these little phases
		case what == "flops" && !strings.HasPrefix(r.Case, "kerascnn"): // XLA counts nothing of cuDNN's convolutions
			near(r, counted[r.Case], 0.14)
		default:
			continue
		}
		seen++
	}
	if seen < 25 {
		t.Errorf("got %d records to look at, want 25 or more", seen)
	}
}

func TestPooled(t *testing.T) {
	before := models.SeedCNN()
	for _, c := range phasesCases()[:3] {
		pools := 0
		for i, l := range c.model.Layers {
			if p, is := l.(models.MaxPool2D); is {
				pools++
				if was := before.Layers[i].(models.MaxPool2D).Gradient; was != models.Mask {
					t.Errorf("the net itself has changed: %v", was)
				}
				want := map[string]models.Pooling{"seedcnn-mask-b8": models.Mask, "seedcnn-scatter-b8": models.SelectAndScatter, "seedcnn-fill-b8": models.IndexedFill}[c.name]
				if p.Gradient != want {
					t.Errorf("%s: got the gradient %v, want %v", c.name, p.Gradient, want)
				}
			}
		}
		if pools == 0 {
			t.Errorf("%s has no max pooling", c.name)
		}
	}
}
