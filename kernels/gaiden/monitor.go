package main

import (
	"context"
	"fmt"
	"html"
	"slices"
	"strconv"
	"strings"
	"time"

	"gaiden/kernels/internal/magic"
	"gaiden/lib/engine/wire"
	"gaiden/lib/report"
	"gaiden/lib/session"
	"gaiden/lib/sysinfo"
	"gaiden/lib/timing/units"
)

const monitorArgs = "[SECONDS]"

const monitorMore = `
%monitor      shows once: CPU, GPUs (utilisation, memory, temperature, power), the
              session's processes, the memory of all notebooks, jobs, and the bar and
              curves of what trains in this notebook, also after the page was reloaded
%monitor 60   updates it every second for a minute; Stop ends it
While a cell of this notebook is busy, run it in a subshell: right-click the notebook,
New Subshell Console.`

const (
	monitorEvery = time.Second
	monitorFirst = 300 * time.Millisecond // the share of a CPU is that of some time
)

func monitorMagic(ctx context.Context, h magic.Host, c magic.Command) error {
	seconds := 0.0
	if len(c.Args) == 1 {
		var err error
		if seconds, err = strconv.ParseFloat(c.Args[0], 64); err != nil || !(seconds > 0 && seconds <= 1e6) {
			return fmt.Errorf("%%monitor: got %q, want a number of seconds, such as %%monitor 60", c.Args[0])
		}
	} else if len(c.Args) > 1 {
		return magic.Usage(c)
	}
	m := &monitor{host: h}
	m.machine.CPU()
	show, wait := h.Live(), monitorFirst
	for end := time.Now().Add(time.Duration(seconds * float64(time.Second))); ; wait = monitorEvery {
		more := time.Now().Before(end)
		select {
		case <-ctx.Done(): // Stop
			more = false
		case <-h.Left():
			more = false
		case <-time.After(wait):
		}
		m.look(context.WithoutCancel(ctx))
		if show(m.last, more); !more {
			return nil
		}
	}
}

// A monitor looks at the machine and the session again and again.
type monitor struct {
	host    magic.Host
	machine sysinfo.Meter
	when    time.Time
	session sysinfo.ProcessUsage
	last    map[string]any
}

// look makes the forms of what there is to see.
func (m *monitor) look(ctx context.Context) {
	var text, page []string
	add := func(asText, asHTML string) { text, page = append(text, asText), append(page, asHTML) }
	say := func(line string) { add(line, "<div>"+html.EscapeString(line)+"</div>") }
	now, usage := time.Now(), m.machine.Read(ctx)
	gpus := usage.GPUs
	usage.GPUs = nil
	say(now.Format(time.TimeOnly) + " · " + report.Usage(usage))
	if len(gpus) > 0 {
		add(layout(gpuRows(gpus)))
	}
	for _, p := range m.host.Progress() {
		t, _ := p["text/plain"].(string)
		h, ok := p["text/html"].(string)
		if !ok {
			h = "<pre>" + html.EscapeString(t) + "</pre>"
		}
		add(t, h)
	}
	status, err := func() (st *wire.Status, err error) {
		err = asking(func(s *session.Session) error { st, err = s.Status(); return err })
		return st, err
	}()
	if err != nil {
		say("session: " + err.Error())
	} else {
		say(m.processes(now, status))
		tables := memoryTables(status)
		if !tellsMemory(status) {
			tables = tables[1:]
		}
		for _, rows := range tables {
			add(layout(rows))
		}
		running := slices.DeleteFunc(status.Jobs, func(i wire.JobInfo) bool { return i.State.Over() })
		names := brief(running, func(i wire.JobInfo) string { return i.Space })
		for i := range running {
			running[i].Space = names[running[i].Space]
		}
		if rows := jobRows(running, true); len(rows) > 1 {
			add(layout(rows))
		}
	}
	m.last = map[string]any{"text/plain": strings.Join(text, "\n\n"), "text/html": strings.Join(page, "\n")}
}

// processes is a line such as: session 4711: CPU 160 % of a core, 2.10 GB, 3 programs, 2 clients.
func (m *monitor) processes(now time.Time, st *wire.Status) string {
	u := sysinfo.ReadProcesses(st.PID)
	cpu := ""
	if !m.when.IsZero() {
		cpu = fmt.Sprintf("CPU %.0f %% of a core, ", 100*u.Since(m.session).Seconds()/now.Sub(m.when).Seconds())
	}
	m.when, m.session = now, u
	return fmt.Sprintf("session %d: %s%s, %s, %s", st.PID, cpu, units.Bytes(float64(u.Memory)), units.Plural(st.Programs, "program"), units.Plural(len(slices.Compact(slices.Sorted(slices.Values(st.Clients)))), "client"))
}

func gpuRows(gpus []sysinfo.GPUUsage) [][]string {
	rows := [][]string{{"GPU", "name", "busy", "memory", "of", "temperature", "power"}}
	known := func(v float64, format string) string {
		if v < 0 {
			return ""
		}
		return fmt.Sprintf(format, v)
	}
	for i, g := range gpus {
		busy := ""
		if g.Busy >= 0 {
			busy = units.Percent(g.Busy)
		}
		rows = append(rows, []string{fmt.Sprint(i), g.Name, busy, known(float64(g.Used)/(1<<30), "%.1f GiB"), known(float64(g.Total)/(1<<30), "%.1f GiB"), known(g.Temperature, "%.0f °C"), known(g.Power, "%.0f W")})
	}
	return rows
}
