package main

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"gaiden/kernels/internal/magic"
	"gaiden/lib/engine/wire"
	"gaiden/lib/session"
	"gaiden/lib/timing/units"
)

const programsArgs = "[all | pin|unpin HASH… | evict [-disk] [HASH…]]"

const programsMore = `
Of many programs, it lists those used last; all lists every one.
The first characters of a HASH are enough. pin keeps programs in memory. evict
drops programs from memory if no cell uses them; with -disk, it also deletes them
from the disk cache, which otherwise keeps them for the next session.`

func programsMagic(_ context.Context, h magic.Host, c magic.Command) error {
	return asking(func(s *session.Session) error {
		a, most := wire.AskBody{Verb: wire.Programs}, programsShown
		switch {
		case len(c.Args) == 1 && c.Args[0] == "all":
			most = math.MaxInt
		case len(c.Args) > 0:
			a.Names = c.Args[1:]
			switch c.Args[0] {
			case "pin":
				a.Verb, a.Start = wire.Pin, true
			case "unpin":
				a.Verb = wire.Pin
			case "evict":
				a.Verb = wire.Evict
				if len(a.Names) > 0 && a.Names[0] == "-disk" {
					a.Disk, a.Names = true, a.Names[1:]
				}
			default:
				return magic.Usage(c)
			}
		}
		ans, err := s.Ask(a)
		if err != nil {
			return err
		}
		if a.Verb != wire.Programs {
			fmt.Fprintln(h.Stdout(), units.Plural(ans.Count, "program"))
			return nil
		}
		showPrograms(h, ans, most)
		return nil
	})
}

// programsShown is how many of the other programs are listed.
const programsShown = 30

func showPrograms(h magic.Host, ans *wire.AnswerBody, most int) {
	rows := [][]string{{"hash", "name", "from", "compile time", "runs", "time per run", "code", "hits", "cells", "kept", "last use", "shapes", "origin"}}
	for _, p := range ans.Programs[:min(most, len(ans.Programs))] {
		size, pace, kept := "", "", "memory"
		if p.Bytes >= 0 {
			size = units.Bytes(float64(p.Bytes))
		}
		if p.Pace > 0 {
			pace = "≤ " + units.Seconds(p.Pace.Seconds())
		}
		if p.OnDisk {
			kept += ", disk"
		}
		if p.Pinned {
			kept += ", pinned"
		}
		rows = append(rows, []string{p.Hash, p.Name, p.From, units.Seconds(p.Compile.Seconds()), fmt.Sprint(p.Runs), pace, size, fmt.Sprint(p.Hits), fmt.Sprint(p.Clients), kept, ago(p.Used), p.Shapes, p.Origin})
	}
	if len(rows) > 1 {
		grid(h, rows)
	} else {
		fmt.Fprintln(h.Stdout(), "no programs in memory")
	}
	if more := len(ans.Programs) - most; more > 0 {
		fmt.Fprintf(h.Stdout(), "%s more in memory: %%programs all lists them\n", units.Count(more))
	}
	if ans.Cache != nil {
		fmt.Fprintln(h.Stdout(), cacheLine(*ans.Cache))
	}
}

// cacheLine describes the programs on disk.
func cacheLine(c wire.CacheInfo) string {
	if c.Off != "" {
		return "programs are not kept on disk: " + c.Off
	}
	return fmt.Sprintf("on disk: %s, %s of at most %s, in %s", units.Plural(c.Entries, "program"), units.Bytes(float64(c.Bytes)), units.Bytes(float64(c.Limit)), c.Dir)
}

const deviceArgs = "[quota SIZE|none]"

const deviceMore = `
%device quota 2GB   limits the memory of this notebook's arrays
%device quota none  removes the limit`

func deviceMagic(_ context.Context, h magic.Host, c magic.Command) error {
	return asking(func(s *session.Session) error {
		switch {
		case len(c.Args) == 0:
		case len(c.Args) == 2 && c.Args[0] == "quota":
			n, err := sizeOf(c.Args[1])
			if err != nil {
				return err
			}
			return setQuota(h, s, n)
		default:
			return magic.Usage(c)
		}
		st, err := s.Status()
		if err != nil {
			return err
		}
		for _, rows := range memoryTables(st) {
			grid(h, rows)
		}
		if !tellsMemory(st) {
			fmt.Fprintln(h.Stdout(), "the plugin does not report the memory in use: the table shows what arrays hold")
		}
		return nil
	})
}

func tellsMemory(st *wire.Status) bool {
	return slices.ContainsFunc(st.Devices, func(d wire.DeviceInfo) bool { return d.InUse >= 0 })
}

// memoryTables are the memory of the devices and of the notebooks.
func memoryTables(st *wire.Status) [][][]string {
	devices := [][]string{{"device", "host", "kind", "in use", "peak", "limit", "pool", "largest free"}}
	for _, d := range st.Devices {
		r := []string{fmt.Sprint(d.ID), d.Host, d.Kind}
		for _, n := range []int64{d.InUse, d.Peak, d.Limit, d.Pool, d.LargestFree} {
			if n < 0 { // a CPU does not say
				r = append(r, "")
			} else {
				r = append(r, units.Bytes(float64(n)))
			}
		}
		devices = append(devices, r)
	}
	names := brief(st.Spaces, func(i wire.SpaceInfo) string { return i.Space })
	notebooks := [][]string{{"notebook", "arrays", "size", "kept for %rollback", "quota", "saved", ""}}
	for _, i := range st.Spaces {
		quota := ""
		if i.Quota > 0 {
			quota = units.Bytes(float64(i.Quota))
		}
		notebooks = append(notebooks, []string{names[i.Space], units.Count(i.Arrays), units.Bytes(float64(i.Bytes)), units.Bytes(float64(i.Undo)), quota, ago(i.Saved), i.Note})
	}
	notebooks = append(notebooks, []string{"all", "", units.Bytes(float64(st.Bytes)), "", "", "", ""})
	return [][][]string{devices, notebooks}
}

// setQuota bounds the notebook's arrays, and says what it has of them.
func setQuota(h magic.Host, s *session.Session, bytes int64) error {
	if err := s.Quota(bytes); err != nil {
		return err
	}
	st, err := s.Status()
	if err != nil {
		return err
	}
	own, quota := st.Space(s.Space()), "no quota"
	if own.Quota > 0 {
		quota = "a quota of " + units.Bytes(float64(own.Quota))
	}
	fmt.Fprintf(h.Stdout(), "notebook %q has %s, and arrays of %s\n", own.Space, quota, units.Bytes(float64(own.Bytes)))
	return nil
}

// sizeOf reads 2GB, 500 MB, 1.5GiB or none.
func sizeOf(word string) (int64, error) {
	if word == "none" {
		return -1, nil
	}
	at := strings.LastIndexAny(word, "0123456789.") + 1
	v, err := strconv.ParseFloat(word[:at], 64)
	scale, known := map[string]float64{"": 1, "B": 1, "KB": 1e3, "MB": 1e6, "GB": 1e9, "KIB": 1 << 10, "MIB": 1 << 20, "GIB": 1 << 30}[strings.ToUpper(strings.TrimSpace(word[at:]))]
	if err != nil || !known || v < 0 || v*scale > 1<<50 {
		return 0, fmt.Errorf("%%device: size is %q: want one such as 500MB, 2GB, 1.5GiB, or none", word)
	}
	return int64(v * scale), nil
}

// statusTail is what %session shows below the state of the processes.
func statusTail(h magic.Host) error {
	return asking(func(s *session.Session) error {
		st, err := s.Status()
		if err != nil {
			return err
		}
		w := h.Stdout()
		fmt.Fprintf(w, "cache       %s\n", cacheLine(st.Cache))
		for _, i := range st.Spaces {
			held := units.Bytes(float64(i.Bytes))
			if i.Undo > 0 {
				held += fmt.Sprintf(" (%s kept for %%rollback)", units.Bytes(float64(i.Undo)))
			}
			if i.Note != "" {
				held += ", " + i.Note
			}
			fmt.Fprintf(w, "notebook    %s: %s, %s, saved %s\n", wire.Shown(i.Space), units.Plural(i.Arrays, "name"), held, ago(i.Saved))
		}
		for _, j := range st.Jobs {
			fmt.Fprintf(w, "job         %s of %s: %s, progress %d of %d, since %s\n", shownName(j.Name), wire.Shown(j.Space), j.State, j.Place.Turn/j.Period, j.Turns/j.Period, j.Started.Local().Format(time.TimeOnly))
		}
		if st.Trouble != "" {
			fmt.Fprintf(w, "not saved   %s\n", st.Trouble)
		}
		return nil
	})
}
