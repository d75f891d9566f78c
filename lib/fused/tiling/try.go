package tiling

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"gaiden/lib/engine/triton/kernels"
	"gaiden/lib/engine/wire"
	"gaiden/lib/session"
)

// Options are what a search for tilings reports to, and waits for.
type Options struct {
	// Other, if not nil, is another session on the same devices: what counts is what was
	// measured while nobody asked that one for anything. Default: that of the trials.
	Other *session.Session
	// Before, if not nil, is called before each measurement or comparison, and may wait.
	// Its error ends the work.
	Before func() error
	// Found, if not nil, is told what was found.
	Found func(op kernels.Op, e Entry)
	// Wrong, if not nil, is told of a tiling that is fast enough and not kept, as its
	// numbers are not those of the plain form, or could not be compared.
	Wrong func(op kernels.Op, tile kernels.Tile, why error)
}

// Try measures the wanted ops and saves what it found after each: first XLA's
// own form of all of them and their usual tilings, then the others. A tiling
// that does not compile is no candidate, and one whose numbers are wrong is none: the
// usual one, and the fastest if that is another, are compared with the plain form, which
// compiles a program for each; where one is wrong it is the next fastest's turn. When ctx
// ends, the rest stays wanted. Where the session is lost, what was being tried counts as
// tried: it may have been the reason.
func (t *Table) Try(ctx context.Context, s *session.Session, look Options) error {
	if look.Other == nil {
		look.Other = s
	}
	l := looking{ctx, s, look, map[string]float64{}}
	keep := func(op kernels.Op, e Entry) error {
		e.Proposed = true
		t.Set(op.Key(), e)
		if look.Found != nil {
			look.Found(op, e)
		}
		return t.Save()
	}
	wanted := t.Wanted()
	for _, op := range wanted {
		e := t.Known(op.Key())
		if e.Tried > 0 {
			continue
		}
		var own, err error
		if e.Plain, own, err = l.measure(op, true); err == nil {
			err = own
		}
		if err != nil {
			return fmt.Errorf("tiling: %s: %w", op.Key(), err)
		}
		compared, err := l.try(op, &e, op.Tiles()[:1])
		if err != nil {
			return errors.Join(err, t.lost(op, e, err))
		}
		e.Wrong = compared > 0 && e.Micros == 0
		if err := keep(op, e); err != nil {
			return err
		}
	}
	for _, op := range wanted {
		e := t.Known(op.Key())
		tiles := op.Tiles()
		if _, err := l.try(op, &e, tiles[min(e.Tried, len(tiles)):]); err != nil {
			return errors.Join(err, t.lost(op, e, err))
		}
		if err := keep(op, e); err != nil {
			return err
		}
	}
	return nil
}

// lost saves how far an op's search had come when the session was lost.
func (t *Table) lost(op kernels.Op, e Entry, err error) error {
	if !errors.Is(err, wire.Lost) {
		return nil
	}
	e.Proposed = true
	t.Set(op.Key(), e)
	return t.Save()
}

// looking is a search for tilings at work.
type looking struct {
	ctx  context.Context
	s    *session.Session
	look Options
	// idle are the loops without the ops, by their keys: the least that they took. One that
	// is slow by chance would make a tiling look faster than it is.
	idle map[string]float64
}

// Wait is Before, if there is one, unless ctx is over.
func (l Options) Wait(ctx context.Context) error {
	if err := ctx.Err(); err != nil || l.Before == nil {
		return err
	}
	return l.Before()
}

func (l looking) before() error { return l.look.Wait(l.ctx) }

// measure is what measure finds when nobody else is at work meanwhile.
func (l looking) measure(op kernels.Op, plain bool) (micros float64, own, err error) {
	t, own, err := Alone(l.look.Other, l.before, func(alone func() error) (times, error) { return measure(l.s, op, plain, alone) })
	if errors.Is(own, wire.Lost) && l.look.Other != l.s {
		if _, _, gone := l.s.Pulse(); gone == nil { // it is the other one that is lost
			return 0, nil, own
		}
	}
	if own != nil || err != nil {
		return 0, own, err
	}
	if least, is := l.idle[op.Key()]; is {
		t.idle = min(t.idle, least)
	}
	l.idle[op.Key()] = t.idle
	return t.op(), nil, nil
}

// over is the error that ends the search, after err: nil if that is the tiling's own.
func (l looking) over(op kernels.Op, tile kernels.Tile, err error) error {
	if err == nil {
		err = l.ctx.Err() // the time ran out at the very end
	}
	if errors.Is(err, wire.Lost) || l.ctx.Err() != nil {
		return fmt.Errorf("tiling: %s %s: %w", op.Key(), tile, err)
	}
	return nil
}

// try measures an op's tilings, and makes the fastest whose numbers are right the
// entry's, if it is faster than that. It says how many it has compared.
func (l looking) try(op kernels.Op, e *Entry, tiles []kernels.Tile) (compared int, err error) {
	type candidate struct {
		tile   kernels.Tile
		micros float64
	}
	var all []candidate
	for _, tile := range tiles {
		micros, own, err := l.measure(op.With(tile), false)
		if err != nil {
			return compared, err
		}
		if errors.Is(own, wire.Lost) {
			e.Tried++
		}
		if over := l.over(op, tile, own); over != nil {
			return compared, over
		}
		e.Tried++
		if own == nil && (e.Micros == 0 || micros < e.Micros) {
			all = append(all, candidate{tile, micros})
		}
	}
	slices.SortFunc(all, func(a, b candidate) int { return cmp.Compare(a.micros, b.micros) })
	for _, c := range all {
		if err := l.before(); err != nil {
			return compared, err
		}
		err := l.compare(op.With(c.tile))
		if over := l.over(op, c.tile, err); over != nil {
			return compared, over
		}
		compared++
		if err == nil {
			e.Tile, e.Micros = c.tile, c.micros
			break
		}
		if l.look.Wrong != nil {
			l.look.Wrong(op, c.tile, err)
		}
	}
	return compared, nil
}

// compare returns an error where an op's numbers are not those of its plain form.
func (l looking) compare(op kernels.Op) error {
	f, err := FormOf(op)
	if err != nil {
		return err
	}
	in, err := f.Put(l.s)
	if err != nil {
		return err
	}
	d, err := f.Compare(l.s, op, in)
	if err == nil && d.Wrong() {
		err = fmt.Errorf("its numbers are not those of the plain form: %s, want %.0e or less", d, d.Mark)
	}
	return err
}
