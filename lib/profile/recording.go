package profile

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"gaiden/lib/engine/hlo"
	"gaiden/lib/engine/pjrt/xspace"
	"gaiden/lib/engine/wire"
	"gaiden/lib/session"
	"gaiden/lib/timing"
)

// ErrNoProfiler reports a device whose plugin has no profiler: XLA's CPU plugin
// has none.
var ErrNoProfiler = errors.New("profile: this device's plugin has no profiler (XLA's has one for CUDA); %phases NET, or profile.Measure, measures phases and ops from outside")

// A Recording is what the devices did while something ran.
type Recording struct {
	Kernels []Kernel // in the order of their beginning
	// Host are the steps of XLA's own threads.
	Host []Step
	// Devices describe the devices by name: core_count, memory_size, …
	Devices map[string]map[string]any

	Warnings []error
}

// A Kernel is one run of a kernel, or of a copy, on a device.
type Kernel struct {
	Device, Stream string
	Name           string   // the compiler's: fusion_173
	Op             string   // the op that it is for; of a fusion the one that counts: scatter, dot
	Label          string   // of the program text: conv/backward; "" if none
	Labels         []string // all of them, where a fusion joins several
	Program        int64    // the compiled program that it belongs to, 0 if that is not known
	Start, Seconds float64  // since the recording began, and how long
	Details        string   // registers, grid, occupancy
}

// A Step is one thing that a host thread did.
type Step struct {
	Thread, Name   string
	Start, Seconds float64
}

// Layer is the first half of the label conv/backward, or all of one that has no halves.
func (k Kernel) Layer() string {
	if i := strings.LastIndexByte(k.Label, '/'); i >= 0 {
		return k.Label[:i]
	}
	return k.Label
}

// Phase is the second half of the label, or all of one that has no halves.
func (k Kernel) Phase() string {
	if i := strings.LastIndexByte(k.Label, '/'); i >= 0 {
		return k.Label[i+1:]
	}
	return k.Label
}

// Record runs f under the profiler, and waits until the devices are idle. It
// records all that the session's devices do meanwhile, other notebooks' work
// included. The error is ErrNoProfiler where there is none.
func Record(s *session.Session, f func() error) (*Recording, error) {
	if err := Begin(s); err != nil {
		return nil, err
	}
	err := f()
	r, stop := End(s)
	return r, errors.Join(err, stop)
}

// Begin starts the profiler when this connection's work is done; End stops it
// when what was requested since is. One recording can run in a session.
func Begin(s *session.Session) error {
	if err := s.Wait(); err != nil {
		return err
	}
	_, err := s.Ask(wire.AskBody{Verb: wire.Profile, Start: true})
	switch {
	case err == nil:
		return nil
	case errors.Is(err, wire.Unsupported) && strings.Contains(err.Error(), "no profiler"):
		return ErrNoProfiler
	}
	return fmt.Errorf("profile: recording: %w", err)
}

// End stops the profiler, see Begin.
func End(s *session.Session) (*Recording, error) {
	err := s.Wait()
	ans, stop := s.Ask(wire.AskBody{Verb: wire.Profile})
	if err = errors.Join(err, stop); err != nil {
		return nil, err
	}
	return ReadRecording(ans.Data)
}

// ReadRecording reads an XSpace message, as XLA's profiler writes it.
func ReadRecording(message []byte) (*Recording, error) {
	space, err := xspace.Read(message)
	if err != nil {
		return nil, fmt.Errorf("profile: %w", err)
	}
	modules, err := space.Modules()
	if err != nil {
		return nil, fmt.Errorf("profile: %w", err)
	}
	r := &Recording{Devices: map[string]map[string]any{}}
	begin := beginning(space)
	known := map[source]Kernel{} // a loop runs the same few kernels thousands of times
	for _, plane := range space.Planes {
		device := strings.HasPrefix(plane.Name, "/device:") && !strings.HasPrefix(plane.Name, "/device:CUSTOM")
		if device {
			r.Devices[plane.Name] = map[string]any{}
			for _, s := range plane.Stats {
				r.Devices[plane.Name][s.Name] = s.Value
			}
		}
		for _, line := range plane.Lines {
			if device && derived(line.Name) {
				continue
			}
			for _, e := range line.Events {
				at := float64(line.Start-begin)/1e9 + float64(e.Offset)/1e12
				took := float64(e.Duration) / 1e12
				if !device {
					r.Host = append(r.Host, Step{Thread: line.Name, Name: e.Name, Start: at, Seconds: took})
					continue
				}
				from := sourceOf(e)
				k, ok := known[from]
				if !ok {
					k.origin(from, modules)
					known[from] = k
				}
				k.Device, k.Stream, k.Name, k.Details, k.Start, k.Seconds = plane.Name, line.Name, e.Name, text(e, "kernel_details"), at, took
				r.Kernels = append(r.Kernels, k)
			}
		}
	}
	slices.SortStableFunc(r.Kernels, func(a, b Kernel) int { return cmp.Compare(a.Start, b.Start) })
	slices.SortStableFunc(r.Host, func(a, b Step) int { return cmp.Compare(a.Start, b.Start) })
	for _, w := range append(space.Errors, space.Warnings...) {
		r.Warnings = append(r.Warnings, timing.Warning(w))
	}
	return r, nil
}

// derived are lines that XLA makes of the streams' by itself: their events
// would count twice.
func derived(name string) bool {
	switch name {
	case "XLA Modules", "XLA Ops", "Steps", "Framework Ops", "Framework Name Scope", "Source code", "Async XLA Ops", "XLA TraceMe":
		return true
	}
	return false
}

// beginning is the earliest start of any line.
func beginning(space *xspace.Space) int64 {
	first, found := int64(0), false
	for _, p := range space.Planes {
		for _, l := range p.Lines {
			if len(l.Events) > 0 && (!found || l.Start < first) {
				first, found = l.Start, true
			}
		}
	}
	return first
}

func text(e xspace.Event, stat string) string {
	s, _ := e.Stat(stat).(string)
	return s
}

// source is what the profiler says of where a kernel comes from: its name, that of
// the instruction, the label, and the program.
type source struct {
	kernel, op, label string
	program           int64
}

func sourceOf(e xspace.Event) source {
	s := source{kernel: e.Name, op: text(e, "hlo_op"), label: text(e, "prefix")}
	switch n := e.Stat("program_id").(type) {
	case int64:
		s.program = n
	case uint64:
		s.program = int64(n)
	}
	return s
}

// origin finds out what a kernel is for. Outside of CUDA graphs the profiler
// says it; inside of them it knows the kernel's name alone, which is that of an
// instruction of the program, dots apart.
func (k *Kernel) origin(from source, modules map[int64]*xspace.Module) {
	k.Label, k.Program = from.label, from.program
	m := modules[from.program]
	if m == nil {
		k.Op = from.op
		return
	}
	i, ok := m.Instructions[from.op]
	if !ok || strings.HasPrefix(from.op, "command_buffer") {
		i, ok = instruction(m, from.kernel)
	}
	if !ok {
		return
	}
	k.Label = cmp.Or(k.Label, i.Label)
	k.Op = i.Op
	weight := -1
	for _, inner := range i.Fused {
		if w := slices.Index(fusionOps, inner.Op); w > weight {
			weight, k.Op = w, inner.Op
		}
		if inner.Label != "" && !slices.Contains(k.Labels, inner.Label) {
			k.Labels = append(k.Labels, inner.Label)
		}
	}
	if k.Label == "" && len(k.Labels) > 0 {
		k.Label = k.Labels[len(k.Labels)-1]
	}
	if k.Op == "fusion" && len(i.Fused) > 0 {
		k.Op = i.Fused[len(i.Fused)-1].Op
	}
	if len(k.Labels) == 0 && k.Label != "" {
		k.Labels = []string{k.Label}
	}
}

// fusionOps are the ops that a fusion is built around, the heaviest last.
var fusionOps = []string{"transpose", "concatenate", "gather", "dynamic-update-slice", "reduce", "reduce-window", "sort", "select-and-scatter", "scatter", "dot", "convolution"}

// instruction finds an instruction by the name that its kernel has.
func instruction(m *xspace.Module, kernel string) (xspace.Instruction, bool) {
	for name, i := range m.Instructions {
		if plain(name) == kernel {
			return i, true
		}
	}
	// A kernel of our own, linear_relu__l1_forward, has a name of its own; XLA
	// numbers those that come again.
	short := base(kernel)
	for _, i := range m.Instructions {
		if i.Op != "custom-call" || i.Label == "" {
			continue
		}
		for _, name := range []string{kernel, short} {
			if own, is := strings.CutSuffix(name, "__"+hlo.Symbol(i.Label)); is {
				i.Op = own
				return i, true
			}
		}
	}
	return xspace.Instruction{}, false
}

// plain is an instruction's name as that of a kernel.
func plain(name string) string { return strings.NewReplacer(".", "_", "-", "_").Replace(name) }

// Busy is how long the devices worked, in seconds: what runs at the same time on
// two streams of a device counts once.
func (r *Recording) Busy() float64 {
	busy := 0.0
	ends := map[string]float64{}
	for _, k := range r.Kernels {
		end := ends[k.Device]
		if from := max(k.Start, end); k.Start+k.Seconds > from {
			busy += k.Start + k.Seconds - from
			ends[k.Device] = k.Start + k.Seconds
		}
	}
	return busy
}

// Span is from the beginning of the first kernel to the end of the last.
func (r *Recording) Span() float64 {
	if len(r.Kernels) == 0 {
		return 0
	}
	end := 0.0
	for _, k := range r.Kernels {
		end = max(end, k.Start+k.Seconds)
	}
	return end - r.Kernels[0].Start
}

// A Group is the kernels that have something in common.
type Group struct {
	Name    string
	Kernels int
	// Seconds is the time that they had a device for; where several kernels
	// ran at once, each has its part of that time. So all groups together are
	// what the devices were busy.
	Seconds float64
	Share   float64 // of all groups' seconds
}

// By adds kernels up by a name that key gives them, the longest first: the
// method expressions Kernel.Layer and Kernel.Phase are such keys.
func (r *Recording) By(key func(Kernel) string) []Group {
	place := map[string]int{}
	var groups []Group
	sum := 0.0
	for n, own := range r.own() {
		name := key(r.Kernels[n])
		i, ok := place[name]
		if !ok {
			i = len(groups)
			place[name] = i
			groups = append(groups, Group{Name: name})
		}
		groups[i].Kernels++
		groups[i].Seconds += own
		sum += own
	}
	for i := range groups {
		groups[i].Share = groups[i].Seconds / sum
	}
	slices.SortStableFunc(groups, func(a, b Group) int { return cmp.Compare(b.Seconds, a.Seconds) })
	return groups
}

// own is each kernel's part of its device's time: while n kernels run at once,
// an nth each.
func (r *Recording) own() []float64 {
	own := make([]float64, len(r.Kernels))
	running := map[string][]int{} // kernels by device
	clock := map[string]float64{} // until when a device's time has been shared out
	share := func(device string, until float64) {
		for l := running[device]; len(l) > 0; l = running[device] {
			first := slices.MinFunc(l, func(a, b int) int { return cmp.Compare(r.Kernels[a].end(), r.Kernels[b].end()) })
			to := min(until, r.Kernels[first].end())
			for _, i := range l {
				own[i] += (to - clock[device]) / float64(len(l))
			}
			clock[device] = to
			if r.Kernels[first].end() > until {
				return
			}
			running[device] = slices.DeleteFunc(l, func(i int) bool { return i == first })
		}
	}
	for i, k := range r.Kernels {
		share(k.Device, k.Start)
		clock[k.Device] = k.Start
		running[k.Device] = append(running[k.Device], i)
	}
	for device := range running {
		share(device, math.Inf(1))
	}
	return own
}

func (k Kernel) end() float64 { return k.Start + k.Seconds }

// NoLabel begins the name of a group of kernels that the program text gives no
// label; the kernel's own name follows.
const NoLabel = "kernel "

// label is a key for By.
func label(k Kernel) string {
	if k.Label == "" {
		return NoLabel + k.Name
	}
	return k.Label
}

// programs adds kernels up by the program that they belong to, in the order in
// which programs began; kernels of no program are left out.
func (r *Recording) programs() []Group {
	key := func(k Kernel) string { return fmt.Sprint(k.Program) }
	groups := slices.DeleteFunc(r.By(key), func(g Group) bool { return g.Name == key(Kernel{}) })
	begun := map[string]int{}
	for i, k := range r.Kernels {
		if _, seen := begun[key(k)]; !seen {
			begun[key(k)] = i
		}
	}
	slices.SortFunc(groups, func(a, b Group) int { return cmp.Compare(begun[a.Name], begun[b.Name]) })
	return groups
}

// perRun divides groups by a number of runs.
func perRun(groups []Group, runs float64) []Group {
	for i := range groups {
		groups[i].Seconds /= runs
		groups[i].Kernels = int(math.Round(float64(groups[i].Kernels) / runs))
	}
	return groups
}
