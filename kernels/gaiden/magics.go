package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"gaiden/kernels/internal/magic"
	"gaiden/lib/engine/wire"
	"gaiden/lib/session"
	"gaiden/lib/timing/units"
)

// sessionMagics are the magics that ask the session.
func sessionMagics() magic.Table {
	return magic.Table{
		{Name: "%info", Help: "shows the machine, its devices and the versions", Run: func(_ context.Context, h magic.Host, c magic.Command) error {
			if len(c.Args) > 0 {
				return magic.Usage(c)
			}
			return infoMain(nil, h.Stdout(), h.Stderr())
		}},
		{Name: "%session", Args: "[status | start | stop | reset [-disk]]", Help: "controls the process that owns the devices; reset clears them, not the kernel; -disk also clears snapshots and the disk cache", Run: sessionMagic},
		{Name: "%arrays", Args: "[prefix]", Help: "lists the notebook's arrays on the device", Run: arraysMagic},
		{Name: "%programs", Args: programsArgs, Help: "lists the compiled programs, in memory and on disk", More: programsMore, Run: programsMagic},
		{Name: "%device", Args: deviceArgs, Help: "shows device memory, by device and by notebook", More: deviceMore, Run: deviceMagic},
		{Name: "%hosts", Args: hostsArgs, Help: "lists the machines whose GPUs the session has, and lets others join or leave", More: hostsMore, Run: hostsMagic},
		{Name: "%monitor", Args: monitorArgs, Help: "shows how busy the machine, its GPUs and the session are, and what trains", More: monitorMore, Run: monitorMagic},
		{Name: "%snapshot", Args: snapshotArgs, Help: "saves the notebook's arrays; compares, exports and imports them", More: snapshotMore, Run: snapshotMagic},
		{Name: "%rollback", Args: "[last | NAME [PREFIX]]", Help: "undoes the last cell that changed arrays, or restores a snapshot", More: rollbackMore, Run: rollbackMagic},
		{Name: "%jobs", Aliases: []string{"%job"}, Args: jobsArgs, Help: "lists and controls training that runs in the session", More: jobsMore, Run: jobsMagic},
		{Name: "%%job", Args: "[NAME]", Role: magic.Body, Help: "runs nothing; explains how to start training in the session", Run: jobCell},
	}
}

func sessionMagic(_ context.Context, h magic.Host, c magic.Command) error {
	args := c.Args
	if len(args) == 0 {
		args = []string{"status"}
	}
	switch strings.Join(args, " ") {
	case "status":
		if err := sessionMain(args, h.Stdout(), h.Stderr()); err != nil {
			return err
		}
		return statusTail(h)
	case "start", "stop", "reset", "reset -disk", "reset --disk":
		return sessionMain(args, h.Stdout(), h.Stderr())
	}
	return magic.Usage(c)
}

// inNotebook connects to a session that runs, in the notebook's name space.
func inNotebook() (*session.Session, error) {
	return session.Config{Client: "kernel", NoStart: true, Patience: answerLimit}.Open()
}

func arraysMagic(_ context.Context, h magic.Host, c magic.Command) error {
	if len(c.Args) > 1 {
		return magic.Usage(c)
	}
	s, err := inNotebook()
	if err != nil {
		return err
	}
	defer s.Close()
	prefix := strings.Join(c.Args, "")
	l, err := s.List(prefix)
	if err != nil {
		return err
	}
	if len(l) == 0 {
		begin := ""
		if prefix != "" {
			begin = fmt.Sprintf(" that begin with %.80q", prefix)
		}
		fmt.Fprintf(h.Stdout(), "no arrays%s in notebook %q\n", begin, s.Space())
		if prefix == "" {
			fmt.Fprintf(h.Stdout(), "    a notebook that was renamed or moved has those of its old path after %%env GAIDEN_SPACE=PATH, without .ipynb\n")
		}
		return nil
	}
	rows := [][]string{{"name", "type", "size", "device", "owner", "last use", "generation", "saved"}}
	total, cut := int64(0), 0
	// What is the same of all says nothing.
	several := func(of func(wire.ArrayInfo) string) func(wire.ArrayInfo) string {
		if !slices.ContainsFunc(l, func(a wire.ArrayInfo) bool { return of(a) != of(l[0]) }) {
			return func(wire.ArrayInfo) string { return "" }
		}
		return of
	}
	device := several(func(a wire.ArrayInfo) string { return fmt.Sprint(a.Device) })
	generation := several(func(a wire.ArrayInfo) string { return fmt.Sprint(a.Generation) })
	owners := brief(l, func(a wire.ArrayInfo) string { return a.Owner })
	for i, a := range l {
		if total += a.Bytes; i >= mostArrays {
			continue
		}
		title := shownName(a.Name)
		if title != wire.Shown(a.Name) {
			if len(l) == 1 || a.Name == prefix { // who asks for one wants to see all of it
				title = wire.Shown(a.Name)
			} else {
				cut++
			}
		}
		rows = append(rows, []string{title, a.Type.String(), units.Bytes(float64(a.Bytes)), device(a), owners[a.Owner], ago(a.Used), generation(a), savedIn(a)})
	}
	rows = append(rows, []string{units.Plural(len(l), "array"), "", units.Bytes(float64(total)), "", "", "", "", ""})
	grid(h, rows)
	if more := len(l) - mostArrays; more > 0 {
		fmt.Fprintf(h.Stdout(), "%d more: %%arrays with the beginning of their names shows them\n", more)
	}
	if cut > 0 {
		fmt.Fprintf(h.Stdout(), "%s cut: %%arrays with the beginning of one shows it whole\n", units.Plural(cut, "long name"))
	}
	return nil
}

// mostArrays is how many arrays a table shows.
const mostArrays = 1000

// nameWidth is how much of a name a table shows, in characters.
const nameWidth = 64

// shownName is a name as tables show it.
func shownName(name string) string {
	if name == "" {
		return ""
	}
	return wire.ShownBriefly(name, nameWidth)
}

// savedIn is the snapshot whose file has an array's data.
func savedIn(a wire.ArrayInfo) string {
	switch {
	case a.Copy:
		return "a copy"
	case a.Saved == 0:
		return "not yet"
	}
	return fmt.Sprint("snapshot ", a.Saved)
}

func ago(t time.Time) string {
	if t.IsZero() {
		return "never"
	}
	switch d := time.Since(t); {
	case d < time.Second: // or the clock has been set back
		return "now"
	case d < time.Minute:
		return fmt.Sprintf("%d s ago", d/time.Second)
	default:
		return units.Clock(d.Seconds()) + " ago"
	}
}
