package result

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"gaiden/lib/timing/units"
)

// ArchitectureError says that the session has another net under this name, or
// that weights from elsewhere are of another net.
type ArchitectureError struct {
	Net, Model  string
	Weights     bool     // they are from elsewhere
	File        string   // which they are in; "" where they are in none
	Differences []string // one array a line
	// Of a file: the arrays that the net wants and that are not there, and those that are
	// there and that the net does not have, each with its shape.
	Missing, Surplus []string
}

func (e *ArchitectureError) Error() string {
	what := fmt.Sprintf("net %q in the session has another architecture than %s", e.Net, e.Model)
	next := "net.Reset() starts over with it, or give it a name of its own" // in the text: what a cell prints or panics with has no hint
	if e.Weights {
		what = fmt.Sprintf("%s: the weights are of another architecture than %s", e.Net, e.Model)
		next = "net.Weights() lists what it wants"
	}
	if e.File != "" {
		what = fmt.Sprintf("%s: the weights in %s are not those of %s", e.Net, e.File, e.Model)
		next = "nothing was changed; " + e.advice()
	}
	var parts []string
	for _, l := range []struct {
		what  string
		lines []string
		sep   string
	}{{"", e.Differences, "; "}, {"missing: ", e.Missing, ", "}, {"surplus: ", e.Surplus, ", "}} {
		const most = 8
		lines, more := l.lines, ""
		if len(lines) > most {
			lines, more = lines[:most], fmt.Sprintf(" and %d more", len(lines)-most)
		}
		if len(lines) > 0 {
			parts = append(parts, l.what+strings.Join(lines, l.sep)+more)
		}
	}
	return fmt.Sprintf("fit: %s: %s; %s", what, strings.Join(parts, "; "), next)
}

// advice is what to do about a file. Where all that is missing is there behind one prefix,
// as behind module. of DataParallel, or all that is surplus without one, it says so.
func (e *ArchitectureError) advice() string {
	names := func(lines []string) (l []string) {
		for _, line := range lines {
			name, _, _ := strings.Cut(line, " [")
			l = append(l, name)
		}
		return l
	}
	missing, surplus := names(e.Missing), names(e.Surplus)
	if prefix := prefixOf(missing, surplus); prefix != "" {
		return fmt.Sprintf("did you mean the names after %q? Write the file without that prefix, as of model.%s.state_dict()", prefix, strings.TrimRight(prefix, "./"))
	}
	if prefix := prefixOf(surplus, missing); prefix != "" {
		return fmt.Sprintf("did you mean a file whose names begin with %q? This one has them without", prefix)
	}
	if len(missing)+len(surplus) > 0 {
		return "weights.Map{Names: …} says which array each variable is, Only loads some layers, and Partial loads what fits"
	}
	return "net.Weights() lists what it wants"
}

// prefixOf is what stands before each of names among others; "" where there is none.
func prefixOf(names, others []string) string {
	if len(names) == 0 {
		return ""
	}
	for _, other := range others {
		prefix, is := strings.CutSuffix(other, names[0])
		if is && prefix != "" && !slices.ContainsFunc(names, func(s string) bool { return !slices.Contains(others, prefix+s) }) {
			return prefix
		}
	}
	return ""
}

// Hint says more about what to do.
func (e *ArchitectureError) Hint() string {
	if e.File != "" {
		return e.advice()
	}
	if e.Weights {
		return fmt.Sprintf("give weights that %s has saved; net.Weights() lists the names and shapes that it wants", e.Model)
	}
	return fmt.Sprintf("net.Reset() deletes the arrays %s/* of the other one; %%rollback undoes the cell that did so", e.Net)
}

// NotFiniteError says that the loss became infinite or no number. The net keeps
// the weights of the last good chunk.
type NotFiniteError struct {
	Net   string
	Loss  float64
	Epoch int    // in this run, from 1
	Step  int    // in that epoch, from 1
	Layer string // the first whose weights or results are not finite, "" when that was not found
	// Part is what of the layer is not finite, weights or output; examples or targets
	// where it is the data; loss where it is none of these; "" where nothing has
	// looked, as when the context ended.
	Part    string
	Data    string // the set's name, where it is the data
	Example int    // one of its examples, from 0
	// Kept is the step after which the weights were kept, and KeptEpoch its
	// epoch: the same but where epochs of a single step are done in one go.
	Kept, KeptEpoch int
}

func (e *NotFiniteError) Error() string {
	where := ""
	switch {
	case e.Data != "":
		where = fmt.Sprintf("; the %s of %s are not finite at number %d", e.Part, e.Data, e.Example)
	case e.Layer != "":
		where = fmt.Sprintf("; first in the %s of layer %s", e.Part, e.Layer)
	}
	kept := fmt.Sprintf("after step %d", e.Kept)
	switch {
	case e.KeptEpoch != e.Epoch:
		kept = fmt.Sprintf("after epoch %d", e.KeptEpoch)
	case e.Kept == 0:
		kept = "with which that epoch began"
	}
	return fmt.Sprintf("fit: %s: loss is %v at step %d of epoch %d%s; kept the weights %s", e.Net, e.Loss, e.Step, e.Epoch, where, kept)
}

// Hint says what to do about it.
func (e *NotFiniteError) Hint() string {
	if e.Data != "" {
		return fmt.Sprintf("give example %d of %s other numbers, or leave it out", e.Example, e.Data)
	}
	hint := "a smaller learning rate often helps; look at the data for numbers that are not finite"
	switch {
	case e.Epoch == 1 && e.Step == 1: // before a weight has changed
		hint = "the initial weights or the data are too large, or ids that the net computes are out of the range of an Embedding: %rollback undoes the last cell, net.Reset() starts over"
	case e.Layer != "" && (e.KeptEpoch == e.Epoch && e.Step == e.Kept+1 || e.KeptEpoch+1 == e.Epoch && e.Step == 1): // found with those that were kept
		hint = "the weights that were kept have this loss: %rollback undoes the cell, net.Reset() starts over; a smaller learning rate often helps"
	}
	if e.Part == "" {
		hint += "; Fit, from the weights that were kept, names the layer or the example too"
	}
	return hint
}

// ShapeError says that data do not fit a net.
type ShapeError struct {
	Net, Data string
	What      string // examples, targets, …
	Got, Want string
}

func (e *ShapeError) Error() string {
	return fmt.Sprintf("fit: %s: %s of %s: got %s, want %s", e.Net, e.What, e.Data, e.Got, e.Want)
}

// MemoryError says that training, or the net itself, did not fit into the device's
// memory. The net keeps the weights of the last good chunk.
type MemoryError struct {
	Net   string
	Batch int // 0: it is the net's weights and its optimizer's moments
	// Step is what a step needs in addition to the net's arrays and the data: a second
	// copy of the state, and what the forward pass keeps for the gradients. Without
	// a batch it is what the net's arrays need.
	// Free is what the device had for it, -1 where that is not known. Bytes.
	Step, Free int64
	Fits       int // a batch that is expected to fit, or worth a try where Free is not known; 0: none
	// Settings are others that need less memory, such as "Train.Accumulate: 2".
	Settings []string
	Err      error // the session's, whose hint lists the largest arrays
}

func (e *MemoryError) Error() string {
	s := fmt.Sprintf("fit: %s: out of memory: a step of %d examples needs about %s", e.Net, e.Batch, units.Bytes(float64(e.Step)))
	if e.Batch == 0 {
		s = fmt.Sprintf("fit: %s: out of memory: its weights and its optimizer's moments need %s", e.Net, units.Bytes(float64(e.Step)))
	}
	if e.Free >= 0 {
		s += fmt.Sprintf(" and %s are free", units.Bytes(float64(e.Free)))
	}
	return s + ": " + e.Err.Error()
}

// Unwrap is the session's error.
func (e *MemoryError) Unwrap() error { return e.Err }

// Hint says what to do about it: a batch that should fit, and the largest
// arrays.
func (e *MemoryError) Hint() string {
	s := "not even one example fits into the memory that is left"
	switch {
	case e.Batch == 0:
		s = "smaller layers, or an optimizer with fewer moments: SGD has none; Reset of another net makes room, and %arrays lists what there is"
	case e.Fits > 0 && e.Free >= 0:
		s = fmt.Sprintf("a batch of %d should fit", e.Fits)
	case e.Fits > 0:
		s = fmt.Sprintf("a batch of %d may fit", e.Fits)
	}
	for i, setting := range e.Settings {
		if i == 0 && e.Fits == 0 {
			s += ": want " + setting
		} else {
			s += ", or " + setting
		}
	}
	var h interface{ Hint() string }
	if errors.As(e.Err, &h) && h.Hint() != "" {
		s += "; " + h.Hint()
	}
	return s
}
