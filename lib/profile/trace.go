package profile

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"slices"
)

// traceEvent is an event of the trace format of Chrome's about:tracing, which
// Perfetto reads as well.
type traceEvent struct {
	Name  string         `json:"name"`
	Phase string         `json:"ph"`           // X: a piece of time; M: a name of a process or thread
	Time  float64        `json:"ts,omitempty"` // µs
	Took  float64        `json:"dur,omitempty"`
	PID   int            `json:"pid"`
	TID   int            `json:"tid"`
	Kind  string         `json:"cat,omitempty"`
	Args  map[string]any `json:"args,omitempty"`
}

// WriteTrace writes the recording as a JSON trace, for ui.perfetto.dev or
// chrome://tracing: a process for each device with a thread for each stream,
// and one for the host.
func (r *Recording) WriteTrace(w io.Writer) error {
	t := struct {
		Unit   string       `json:"displayTimeUnit"`
		Events []traceEvent `json:"traceEvents"`
	}{Unit: "ns", Events: []traceEvent{}}
	var processes []string
	threads := map[string][]string{}
	place := func(process, thread string) (pid, tid int) {
		pid = slices.Index(processes, process)
		if pid < 0 {
			pid, processes = len(processes), append(processes, process)
			t.Events = append(t.Events, traceEvent{Name: "process_name", Phase: "M", PID: pid + 1, Args: map[string]any{"name": process}})
		}
		tid = slices.Index(threads[process], thread)
		if tid < 0 {
			tid, threads[process] = len(threads[process]), append(threads[process], thread)
			t.Events = append(t.Events, traceEvent{Name: "thread_name", Phase: "M", PID: pid + 1, TID: tid + 1, Args: map[string]any{"name": thread}})
		}
		return pid + 1, tid + 1
	}
	for _, k := range r.Kernels {
		name := cmp.Or(k.Label, k.Name)
		pid, tid := place(k.Device, k.Stream)
		args := map[string]any{"kernel": k.Name}
		for what, value := range map[string]string{"op": k.Op, "label": k.Label, "details": k.Details} {
			if value != "" {
				args[what] = value
			}
		}
		t.Events = append(t.Events, traceEvent{Name: name, Phase: "X", Time: 1e6 * k.Start, Took: 1e6 * k.Seconds, PID: pid, TID: tid, Kind: k.Phase(), Args: args})
	}
	for _, s := range r.Host {
		pid, tid := place("host", s.Thread)
		t.Events = append(t.Events, traceEvent{Name: s.Name, Phase: "X", Time: 1e6 * s.Start, Took: 1e6 * s.Seconds, PID: pid, TID: tid})
	}
	if err := json.NewEncoder(w).Encode(t); err != nil {
		return fmt.Errorf("profile: trace: %w", err)
	}
	return nil
}
