package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"gaiden/kernels/internal/magic"
	"gaiden/lib/engine/wire"
	"gaiden/lib/session"
	"gaiden/lib/timing/units"
)

const snapshotArgs = "[NAME | list | delete NAME… | diff FROM [TO] | export FILE [NAME] | import FILE [PREFIX]]"

const snapshotMore = `
%snapshot                       take an automatic snapshot; the newest three are
                                kept
%snapshot NAME                  take a named snapshot; it is kept until you
                                delete it or take it again
%snapshot list                  list the snapshots
%snapshot delete NAME…          delete snapshots
%snapshot diff FROM [TO]        show which arrays differ, and by how much; TO
                                defaults to the current arrays
%snapshot export FILE [NAME]    write the current arrays, or those of a snapshot,
                                to a safetensors file
%snapshot import FILE [PREFIX]  load the arrays of a safetensors file; PREFIX is
                                prepended to their names
In place of a name you can use a snapshot's number, or last for the newest one.

Automatic snapshots are taken two seconds after the last change, after each epoch
of a job, and when the session stops. %rollback restores one. If three of them do
not fit on the disk or exceed 64 GiB, fewer are kept, but always the newest. A
snapshot that could not be restored when the notebook was reopened (out of memory,
disk error) is kept until %rollback restores it or %snapshot delete deletes it.`

const rollbackMore = `
%rollback                 undo the last cell that changed arrays
%rollback last            restore the newest snapshot
%rollback NAME [PREFIX]   restore that snapshot; with PREFIX, only the arrays
                          whose names begin with it
A second %rollback undoes the first. A cell can be undone until the next cell
changes arrays, as long as there is memory for the arrays that it replaced, at most
a quarter of the device's memory. Before it restores a snapshot, %rollback saves
the current arrays; if the disk is full, it only keeps them in memory for a second
%rollback.`

// asking runs f with a connection to the notebook's session, if one runs.
func asking(f func(*session.Session) error) error {
	s, err := inNotebook()
	if err != nil {
		return err
	}
	defer s.Close()
	return f(s)
}

// reviving runs f with a connection to the session, in the name space of a
// notebook, "" is the own one. Where none runs it starts one, which brings back
// what is on disk: snapshots and jobs.
func reviving(notebook string, f func(*session.Session) error) error {
	s, err := session.Config{Client: "kernel", Patience: answerLimit, Space: notebook}.Open()
	if err != nil {
		return err
	}
	defer s.Close()
	return f(s)
}

// asCell runs what changes arrays as a cell of its own: %rollback undoes it, and not
// what another cell has changed before or after it.
func asCell(s *session.Session, f func() error) error {
	if err := s.MarkCell(""); err != nil {
		return err
	}
	if err := f(); err != nil {
		return err
	}
	return s.MarkCell("")
}

func snapshotMagic(_ context.Context, h magic.Host, c magic.Command) error {
	word, rest := "", c.Args
	if len(rest) > 0 {
		word, rest = rest[0], rest[1:]
	}
	return reviving("", func(s *session.Session) error {
		switch {
		case word == "list" && len(rest) == 0:
			return showSnapshots(h, s)
		case word == "delete" && len(rest) > 0:
			return s.Discard(rest...)
		case word == "diff" && (len(rest) == 1 || len(rest) == 2):
			return showDiff(h, s, rest)
		case word == "export" && (len(rest) == 1 || len(rest) == 2):
			n, err := s.Export(rest[0], strings.Join(rest[1:], ""), "", nil)
			if err == nil {
				fmt.Fprintf(h.Stdout(), "%s in %s\n", units.Plural(n, "array"), rest[0])
			}
			return err
		case word == "import" && (len(rest) == 1 || len(rest) == 2):
			return asCell(s, func() error {
				l, err := s.Import(rest[0], strings.Join(rest[1:], ""))
				if err == nil {
					fmt.Fprintf(h.Stdout(), "%s from %s\n", units.Plural(len(l), "array"), rest[0])
				}
				return err
			})
		case len(rest) > 0:
			return magic.Usage(c)
		}
		switch word {
		case "delete", "diff", "export", "import":
			return magic.Usage(c)
		}
		i, err := s.Snapshot(word)
		if err != nil {
			return err
		}
		fmt.Fprintf(h.Stdout(), "snapshot %s: %s, %s, %s of it new, in %s\n", titleOf(i), units.Plural(i.Arrays, "array"), units.Bytes(float64(i.Bytes)), units.Bytes(float64(i.Written)), units.Clock(i.Took.Seconds()))
		return nil
	})
}

// titleOf is a snapshot's number and name.
func titleOf(i wire.SnapshotInfo) string {
	if i.Name == "" {
		return fmt.Sprint(i.Number)
	}
	return fmt.Sprintf("%d %q", i.Number, i.Name)
}

func showSnapshots(h magic.Host, s *session.Session) error {
	l, err := s.Snapshots()
	if err != nil {
		return err
	}
	if len(l) == 0 {
		fmt.Fprintf(h.Stdout(), "no snapshots of notebook %q\n", s.Space())
		return nil
	}
	rows := [][]string{{"number", "name", "of", "arrays", "size", "in its own file", ""}}
	for _, i := range l {
		rows = append(rows, []string{fmt.Sprint(i.Number), shownName(i.Name), ago(i.Time), fmt.Sprint(i.Arrays), units.Bytes(float64(i.Bytes)), units.Bytes(float64(i.Written)), cmp.Or(i.Damaged, i.Held)})
	}
	grid(h, rows)
	return nil
}

func showDiff(h magic.Host, s *session.Session, words []string) error {
	l, err := s.Diff(words[0], strings.Join(words[1:], ""), "")
	if err != nil {
		return err
	}
	if len(l) == 0 {
		fmt.Fprintln(h.Stdout(), "no difference")
		return nil
	}
	rows := [][]string{{"name", "type", "change", "elements", "largest", "relative"}}
	for _, d := range l {
		r := []string{shownName(d.Name), d.Type.String(), d.Change, "", "", ""}
		if d.Change == "changed" {
			r[3], r[4] = fmt.Sprintf("%d of %d", d.Changed, d.Elements), fmt.Sprintf("%.3g", d.Largest)
			if d.Relative >= 0 {
				r[5] = fmt.Sprintf("%.3g", d.Relative)
			}
		}
		rows = append(rows, r)
	}
	grid(h, rows)
	return nil
}

func rollbackMagic(_ context.Context, h magic.Host, c magic.Command) error {
	if len(c.Args) > 2 {
		return magic.Usage(c)
	}
	words := append(c.Args, "", "")
	return reviving("", func(s *session.Session) error {
		return asCell(s, func() error {
			if len(c.Args) == 0 {
				n, err := s.Undo()
				if err == nil {
					fmt.Fprintf(h.Stdout(), "undone: the last cell that changed arrays; %s as before it\n", units.Plural(n, "array"))
				}
				if !errors.Is(err, wire.NotFound) {
					return err
				}
			}
			i, err := s.Rollback(words[0], words[1])
			if err == nil {
				fmt.Fprintf(h.Stdout(), "back at snapshot %s of %s: %s\n", titleOf(i), i.Time.Local().Format(time.TimeOnly), units.Plural(i.Arrays, "array"))
				if i.Unsaved != "" {
					fmt.Fprintf(h.Stdout(), "what was there is not on disk: %s\na second %%rollback brings it back, until a cell changes arrays\n", i.Unsaved)
				}
			}
			return err
		})
	})
}
