package fit

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"gaiden/lib/engine/triton/kernels"
	"gaiden/lib/engine/wire"
	"gaiden/lib/fused/tiling"
	"gaiden/lib/session"
)

// tables are what is known of kernels' tilings, one for each session of this
// process.
var tables struct {
	sync.Mutex
	of map[*session.Session]*tiling.Table
}

// tilings is the table of the net's device. One that cannot be read is empty.
func (n *Net) tilings() *tiling.Table {
	if n.table != nil {
		return n.table
	}
	tables.Lock()
	defer tables.Unlock()
	if t := tables.of[n.session]; t != nil {
		return t
	}
	t, err := tiling.Open(n.session)
	if err != nil {
		t = &tiling.Table{}
	}
	if tables.of == nil {
		tables.of = map[*session.Session]*tiling.Table{}
	}
	tables.of[n.session] = t
	return t
}

// stepKey names the training step of a net in the table. Of Flags it has what JSON makes
// of them, as a recipe has.
func (n *Net) stepKey(batch int) string {
	layers := sha256.New()
	for i, l := range n.model.Layers {
		title, kind := l.Title()
		fmt.Fprintf(layers, "%d %s %s;", i, title, kind)
	}
	for _, v := range n.layout.variables {
		fmt.Fprintf(layers, "%s %s;", v.name, v.shape)
	}
	key := fmt.Sprintf("step %s %x b%d %T%+v bf16 %t", n.model.Name, layers.Sum(nil)[:6], batch, n.config.Optimizer, n.config.Optimizer, n.config.BF16)
	if l := n.config.Loss; l != nil {
		key += " " + l.Title()
	}
	if len(n.config.Flags) > 0 {
		flags, _ := json.Marshal(n.config.Flags) // those it cannot write compile no program
		key += " " + string(flags)
	}
	return key
}

// Tune measures which kernels and tilings make the steps of Fit fastest on the session's
// GPU, and keeps the result. tell, if not nil, gets a line for each.
func (n *Net) Tune(data *Set, t Train, tell func(string)) error {
	if err := n.refuseStream(data, "tuning"); err != nil {
		return err
	}
	ctx := n.Context()
	if tell == nil {
		tell = func(string) {}
	}
	if _, err := n.Session(); err != nil {
		return err
	}
	return n.tune(ctx, data, t, tiling.Options{}, tell)
}

// tune is Tune.
func (n *Net) tune(ctx context.Context, data *Set, t Train, look tiling.Options, tell func(string)) error {
	if err := look.Wait(ctx); err != nil {
		return err
	}
	look.Other = n.session
	key, err := n.choices(ctx, data, t, tell)
	if err != nil || key == "" {
		return err
	}
	began := time.Now()
	table := n.tilings()
	usual := table.Known(key)
	if unmeasured(usual) {
		if usual, err = n.timeInSandbox(ctx, data, t, look, tell); err != nil {
			return err
		}
		table.Set(key, usual)
		if err := table.Save(); err != nil || unmeasured(usual) {
			return err
		}
	}
	// Time is left for the comparison at the end.
	some := ctx
	if end, limited := ctx.Deadline(); limited {
		var cancel context.CancelFunc
		some, cancel = context.WithDeadline(ctx, end.Add(-min(time.Since(began), time.Until(end)/3)))
		defer cancel()
	}
	var found []kernels.Op
	look.Found = func(op kernels.Op, e tiling.Entry) {
		found = append(found, op)
		tell(fmt.Sprintf("%s: %.2f µs with %s, %.2f µs otherwise", op.Key(), e.Micros, e.Tile, e.Plain))
	}
	look.Wrong = func(op kernels.Op, tile kernels.Tile, why error) {
		tell(fmt.Sprintf("%s: not with %s: %v", op.Key(), tile, why))
	}
	err = n.try(some, look)
	if len(found) == 0 || err != nil && !(errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil) {
		return err // what was found stays proposed
	}
	table.UseProposed(true)
	tried, err := n.timeInSandbox(ctx, data, t, look, tell)
	table.UseProposed(false)
	if err == nil && !faster(usual.Micros, tried.Micros) { // the time that was known may be that of a less busy hour
		if usual, err = n.timeInSandbox(ctx, data, t, look, tell); err == nil && !unmeasured(usual) {
			table.Set(key, usual)
		}
	}
	switch {
	case ctx.Err() != nil || errors.Is(err, wire.Lost) || errors.Is(err, errNoSandbox):
		return err
	case err == nil && faster(usual.Micros, tried.Micros):
		table.Accept(found...)
		table.Set(key, tried)
	default:
		tell(fmt.Sprintf("%s: the usual tilings stay", n.name))
		table.Reset(found...)
	}
	return errors.Join(err, table.Save())
}

// try tries the kernels whose best tilings are not known.
func (n *Net) try(ctx context.Context, look tiling.Options) error {
	table := n.tilings()
	if len(table.Wanted()) == 0 {
		return nil
	}
	if err := look.Wait(ctx); err != nil {
		return err
	}
	a, err := startSandbox(n.session, false)
	if err != nil {
		return err
	}
	defer a.end()
	return a.explain(table.Try(ctx, a.Session, look))
}
