package profile

import (
	"context"
	"errors"
	"runtime/debug"
	"strings"
	"testing"

	"gaiden/lib/models"
)

// TestLeaves holds that what is measured leaves next to nothing in the session, long
// before the garbage collector comes by, and that phases which are closed say so.
func TestLeaves(t *testing.T) {
	s := open(t)
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	n, set := attach(t, s, "leaves", models.SeedCNN())
	ctx := context.Background()
	held := func() int64 {
		t.Helper()
		if err := s.Wait(); err != nil {
			t.Fatal(err)
		}
		st, err := s.Status()
		if err != nil {
			t.Fatal(err)
		}
		return st.Space(s.Space()).Bytes
	}
	before := held()
	if _, err := Measure(ctx, n, set, quick); err != nil {
		t.Fatal(err)
	}
	if got := held() - before; got > 1<<16 {
		t.Errorf("Measure leaves %d bytes beside the %d that were there", got, before)
	}
	before = held()
	if _, err := SweepBatches(ctx, n, set, SweepOptions{Most: 4, Runs: 2}); err != nil {
		t.Fatal(err)
	}
	if got := held() - before; got > 1<<16 {
		t.Errorf("SweepBatches leaves %d bytes", got)
	}
	p, err := n.WithContext(ctx).Phases(set, 8)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(p.Next(), p.Forward(), p.Loss()); err != nil {
		t.Fatal(err)
	}
	p.Close()
	for what, do := range map[string]func() error{
		"Next": p.Next, "Forward": p.Forward, "Update": p.Update,
		"Layers": func() error { _, err := p.Layers(ctx); return err },
		"Value":  func() error { _, err := p.Value(); return err },
		"Output": func() error { _, err := p.Output(); return err },
	} {
		if err := do(); err == nil || what != "Value" && what != "Output" && !strings.Contains(err.Error(), "the phases are closed") {
			t.Errorf("%s of closed phases: got %v", what, err)
		}
	}
	p.Close()
	if _, err := n.WithContext(ctx).Evaluate(set); err != nil { // the data set is not the phases'
		t.Error(err)
	}
}
