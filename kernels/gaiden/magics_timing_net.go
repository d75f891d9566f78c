package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"gaiden/kernels/internal/cell/parse"
	"gaiden/kernels/internal/magic"
	"gaiden/lib/engine/typo"
	"gaiden/lib/profile"
)

// netMagics find out where a net's time goes. list is the magic that lists what
// the notebook has declared; it may come later than this is called.
func netMagics(list func() *magic.Row) magic.Table {
	const where = `

NET is a variable that holds a net, or the net's name in the session. DATA is the
name of a data set in the session. The default is the largest one that fits the net,
preferably training data, or random data if there is none.`
	const only = where + `
Without NET, the notebook's only net is measured.`
	const options = `
    -b N  batch size; default 32
    -t T  seconds per measurement; at most 20 T for all ops of a layer; default 0.3`
	run := func(method string, flags ...string) magic.Run {
		return func(ctx context.Context, h magic.Host, c magic.Command) error {
			return profilerMagic(ctx, h, c, method, list, flags...)
		}
	}
	return magic.Table{
		{Name: "%phases", Args: "[-b N] [-t T] [-s] [-a] [-e] [NET [DATA]]", Help: "shows where the time of a training step goes: phases, layers, ops", Run: run("Phases", "b", "t", "s", "a", "e"),
			More: options + `
    -s    only phases
    -a    the ops of all layers, not only of the slowest one
    -e    skip the train and test errors (on whole data sets) and the epoch

The sum of the phases is compared with a step that runs them in sequence, and the
estimated time of an epoch with the measured one. The net's weights do not change.
In Go: report.Profiler{Net: net}.Phases(), or profile.Measure, which only returns
values.` + only},
		{Name: "%bottleneck", Args: "[-b N] [-t T] [NET [DATA]]", Help: "says in one sentence what takes most of the time of a training step", Run: run("Bottleneck", "b", "t"),
			More: options + only},
		{Name: "%roofline", Args: "[-b N] [-t T] [-again] [NET [DATA]]", Help: "shows the device's measured peaks, and how close a net's phases and layers come to them", Run: rooflineMagic(list),
			More: options + `
    -again  measure the device's peaks again; they are measured once and cached` + where},
		{Name: "%sweep", Args: "[-phi " + strings.Join(profile.Activations(), "|") + "] [-n N] | [-b N] NET [DATA]", Help: "shows time vs. size: an activation function on 2^0 to 2^26 elements, or a net with batch sizes of 2^n", Run: sweepMagic(list),
			More: `
    -phi NAME  activation function; default sigmoid
    -n N       up to 2^N elements; default 26
    -b N       batch sizes up to N; default: the number of examples

For a net, it times forward, loss and backward: 100 runs of each batch size, with
mean and variance.` + where},
	}
}

// profilerArgs are the arguments of a magic that finds out where a net's time goes.
type profilerArgs struct {
	numbers  map[string]float64 // -b, -t and -n
	switches map[string]bool
	phi      string
	words    []string // without an option
}

// parseProfiler reads arguments, with the options that are allowed.
func parseProfiler(c magic.Command, allowed ...string) (a profilerArgs, err error) {
	a = profilerArgs{numbers: map[string]float64{}, switches: map[string]bool{}}
	wrong := func(format string, args ...any) error {
		return &magic.ArgumentError{Name: c.Name, Line: c.Line, Reason: fmt.Sprintf(format, args...)}
	}
	for i := 0; i < len(c.Args); i++ {
		word := c.Args[i]
		if !strings.HasPrefix(word, "-") {
			a.words = append(a.words, word)
			continue
		}
		name := strings.TrimLeft(word, "-")
		if !slices.Contains(allowed, name) {
			near := typo.Nearest("-"+name, option.FindAllString(c.Row.Usage(), -1))
			if near != "" {
				near = "; did you mean " + near + "?"
			}
			return a, wrong("got the option %s, want %s%s", word, c.Row.Usage(), near)
		}
		if name != "phi" && !strings.Contains("btn", name) {
			a.switches[name] = true
			continue
		}
		value := ""
		if i++; i < len(c.Args) {
			value = c.Args[i]
		}
		if name == "phi" {
			if a.phi = value; value == "" {
				return a, magic.Usage(c)
			}
			continue
		}
		n, e := strconv.ParseFloat(value, 64)
		if e != nil || !(n > 0) || n > 1e9 || name != "t" && n != float64(int(n)) {
			return a, wrong("-%s: got %q, want a number above 0", name, value)
		}
		a.numbers[name] = n
	}
	return a, nil
}

// option is one in the usage of a magic.
var option = regexp.MustCompile(`-[a-z]+`)

// profilerMagic runs a method of report.Profiler.
func profilerMagic(ctx context.Context, h magic.Host, c magic.Command, method string, list func() *magic.Row, allowed ...string) error {
	a, err := parseProfiler(c, allowed...)
	if err != nil {
		return err
	}
	words := a.words
	if len(words) > 2 {
		return magic.Usage(c)
	}
	if len(words) == 0 {
		nets := declaredNets(ctx, h, list)
		if len(nets) != 1 {
			return &magic.ArgumentError{Name: c.Name, Line: c.Line, Reason: fmt.Sprintf("got no net, want %s%s", c.Row.Usage(), knownNets("", nets))}
		}
		for variable := range nets {
			words = []string{variable}
		}
	}
	o := fmt.Sprintf("Batch: %d, Budget: %d, Shallow: %t, AllOps: %t, NoErrors: %t, NoEpoch: %t",
		int(a.numbers["b"]), int64(1e9*a.numbers["t"]), a.switches["s"], a.switches["a"], a.switches["e"], a.switches["e"])
	data := ""
	if len(words) == 2 {
		data = words[1]
	}
	return onNet(ctx, h, c, words[0], list, func(net string) string {
		return fmt.Sprintf("if _, err := (gaidenreport.Profiler{Net: %s, Data: %q, Options: gaidenprofile.Options{%s}}).%s(); err != nil { %s }", net, data, o, method, fail)
	})
}

const profilerImports = `import (gaidenreport "gaiden/lib/report"; gaidenprofile "gaiden/lib/profile"); `

var goName = regexp.MustCompile(`^[\pL_][\pL\pN_.\[\]()"]*$`)

// onNet runs code on the net that a word names: a Go expression, or the name in
// the session of one that some variable holds.
func onNet(ctx context.Context, h magic.Host, c magic.Command, word string, list func() *magic.Row, code func(net string) string) error {
	nets := declaredNets(ctx, h, list)
	expr := word
	for variable, name := range nets {
		if name == word && nets[word] == "" {
			expr = variable
		}
	}
	if !goName.MatchString(expr) {
		return &magic.ArgumentError{Name: c.Name, Line: c.Line, Reason: fmt.Sprintf("got the net %q, want a variable or a name in the session%s", word, knownNets(word, nets))}
	}
	before, after, _ := strings.Cut(code("\x00"), "\x00")
	t := timed{line: c.Line, first: c.Line, body: expr, before: profilerImports + before, after: after}
	err := t.once(ctx, h)
	if build, is := errors.AsType[*parse.BuildError](err); is && len(build.Diagnostics) == 1 {
		if m := build.Diagnostics[0].Message; strings.HasPrefix(m, "undefined: ") || strings.HasPrefix(m, "cannot use ") {
			return &magic.ArgumentError{Name: c.Name, Line: c.Line, Reason: fmt.Sprintf("got %s, want a net (%s)%s", word, m, knownNets(word, nets))}
		}
	}
	return err
}

var netDeclaration = regexp.MustCompile(`(?m)^var\s+(\S+).*?\bfit\.New\("([^"]*)"`)

// declaredNets are the variables that hold nets, with the nets' names in the
// session, as far as the first lines of their declarations tell.
func declaredNets(ctx context.Context, h magic.Host, list func() *magic.Row) map[string]string {
	nets := map[string]string{}
	row := list()
	if row == nil || row.Run == nil {
		return nets
	}
	aside := &asideHost{Host: h}
	if row.Run(ctx, aside, magic.Command{Row: row, Name: row.Name}) != nil {
		return nets
	}
	for _, m := range netDeclaration.FindAllStringSubmatch(aside.text, -1) {
		nets[m[1]] = m[2]
	}
	return nets
}

// asideHost takes what a magic shows, and shows it to nobody.
type asideHost struct {
	magic.Host
	text string
}

func (h *asideHost) Show(data map[string]any) { h.text, _ = data["text/plain"].(string) }

// Stdout implements magic.Host.
func (h *asideHost) Stdout() io.Writer { return io.Discard }

// knownNets ends a message: what was probably meant, or what there is.
func knownNets(word string, nets map[string]string) string {
	var names []string
	for variable, name := range nets {
		names = append(names, variable, name)
	}
	if near := typo.Nearest(word, names); near != "" {
		return "; did you mean " + near + "?"
	}
	if len(names) == 0 {
		return `; make one in a cell before: var net = fit.New("cnn", models.SeedCNN(), fit.Config{})`
	}
	var known []string
	for variable, name := range nets {
		known = append(known, fmt.Sprintf("%s (%q)", variable, name))
	}
	slices.Sort(known)
	return "; there are: " + strings.Join(known, ", ")
}

func rooflineMagic(list func() *magic.Row) magic.Run {
	return func(ctx context.Context, h magic.Host, c magic.Command) error {
		a, err := parseProfiler(c, "b", "t", "again")
		switch again := a.switches["again"]; {
		case err != nil:
			return err
		case again && len(c.Args) > 1:
			return &magic.ArgumentError{Name: c.Name, Line: c.Line, Reason: "-again measures the device, and takes no net: call it by itself first"}
		case !again && len(c.Args) > 0:
			return profilerMagic(ctx, h, c, "Roofline", list, "b", "t")
		}
		t := timed{line: c.Line, first: c.Line, before: `import gaidenreport "gaiden/lib/report"; ` + fmt.Sprintf("if err := gaidenreport.RooflineOf(%t); err != nil { %s }", a.switches["again"], fail)}
		return t.once(ctx, h)
	}
}

func sweepMagic(list func() *magic.Row) magic.Run {
	return func(ctx context.Context, h magic.Host, c magic.Command) error {
		a, err := parseProfiler(c, "n", "b", "t", "phi")
		if err != nil {
			return err
		}
		if len(a.words) > 0 || a.numbers["b"] > 0 || a.numbers["t"] > 0 {
			return profilerMagic(ctx, h, c, "Batches", list, "b", "t")
		}
		most := 26
		if n, ok := a.numbers["n"]; ok {
			most = int(n)
		}
		t := timed{line: c.Line, first: c.Line, before: `import gaidenreport "gaiden/lib/report"; ` + fmt.Sprintf("if err := gaidenreport.SweepOf(%q, %d); err != nil { %s }", cmp.Or(a.phi, "sigmoid"), most, fail)}
		return t.once(ctx, h)
	}
}
