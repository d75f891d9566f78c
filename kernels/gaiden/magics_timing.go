package main

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"gaiden/kernels/internal/magic"
	"gaiden/kernels/internal/notebook"
	"gaiden/lib/engine/typo"
)

// timingMagics are the magics that read a clock.
func timingMagics(n *notebook.Notebook) magic.Table {
	list := func() *magic.Row { return n.Magics.Find("%list") } // when it is wanted, all magics are there
	return slices.Concat(clockMagics(), netMagics(list))
}

// clockMagics time code.
func clockMagics() magic.Table {
	const flags = "[-n N] [-r R] [-t] [-p P] [-q] [-o]"
	const more = `
Options, as in IPython:
    -n N  N calls per run; default: enough to keep timer overhead below 0.1 %
    -r R  R runs; default 7
    -t    measure wall-clock time: the default, and the only choice
    -p P  show P digits; default 3
    -q    show nothing
    -o    return the measurement, with its samples, as the cell's value

The first call, which may compile, is reported separately and is not a sample.
The clock is read only when the devices are idle. Results of expressions and of
:= are kept alive, so the compiler cannot eliminate the code. If you interrupt the
cell, it shows the results so far. Warnings say why a result may be unreliable.`
	return magic.Table{
		{Name: "%timeit", Code: true, Args: flags + " statement", Help: "times repeated runs of a statement", More: more + `

    %timeit math.Sqrt(2)
    %timeit -n 100 -r 5 p.Forward()

It runs before the Go code of its cell, and sees the declarations of earlier cells.`, Run: timeitMagic},
		{Name: "%%timeit", Code: true, Args: flags + " [set-up]", Role: magic.Body, Help: "times repeated runs of the cell; statements on its first line run once, as untimed setup", More: more + `

    %%timeit x := make([]float32, 1000)
    sort(x)`, Run: timeitMagic},
		{Name: "%time", Code: true, Args: "statement", Help: "times one run of a statement", More: timeMore, Run: timeMagic},
		{Name: "%%time", Code: true, Role: magic.Body, Help: "times one run of the cell", More: timeMore, Run: timeMagic},
		{Name: "%%profile", Code: true, Args: "[-o trace.json]", Role: magic.Body, Help: "profiles the cell with XLA's profiler: device time by layer, phase and kernel", Run: profileMagic, More: `
    -o FILE  also write a trace for ui.perfetto.dev or chrome://tracing

The device's plugin must have a profiler: the CUDA plugin has one, the CPU plugin
does not. On a CPU, use %phases: it times phases, layers and ops as separate
programs.`},
	}
}

const timeMore = `
The clock starts and stops when the devices are idle. The time includes compiling
device programs, which %timeit reports separately, but not compiling the cell's Go
code. CPU times are those of the cell's process, without the session's. Later cells
see what the code declares and changes, as in an untimed cell.`

// timeitMagic runs %timeit and %%timeit.
func timeitMagic(ctx context.Context, h magic.Host, c magic.Command) error {
	o, code, err := timeitFlags(c)
	if err != nil {
		return err
	}
	t := timed{body: c.Body, setup: code, line: c.Line + 1, first: c.Line}
	if c.Row.Role != magic.Body {
		t = timed{body: code, line: c.Line, first: c.Line}
	}
	if strings.TrimSpace(t.body) == "" {
		return magic.Usage(c)
	}
	end := "})"
	if !o.object {
		end += ";" // the value is not wanted
	}
	t.before = fmt.Sprintf("gaidenreport.Timeit{Runs: %d, Loops: %d, Digits: %d, Quiet: %t}.Run(func(gaidenn int) { for range gaidenn {", o.runs, o.loops, o.digits, o.quiet)
	t.after = "}" + end
	return t.run(ctx, h)
}

// timeMagic runs %time and %%time.
func timeMagic(ctx context.Context, h magic.Host, c magic.Command) error {
	body, first := c.Text, c.Line
	if c.Row.Role == magic.Body {
		if c.Text != "" {
			return magic.Usage(c)
		}
		body, first = c.Body, c.Line+1
	}
	if strings.TrimSpace(body) == "" {
		return magic.Usage(c)
	}
	head := "import gaidenreport \"gaiden/lib/report\"; defer gaidenreport.StartWatch().Stop();"
	t := timed{line: first, first: max(1, c.Line), body: body, before: head, keep: true}
	return t.once(ctx, h)
}

// profileMagic runs %%profile.
func profileMagic(ctx context.Context, h magic.Host, c magic.Command) error {
	path := ""
	switch {
	case len(c.Args) == 0:
	case len(c.Args) == 2 && c.Args[0] == "-o":
		path = c.Args[1]
	default:
		return magic.Usage(c)
	}
	if strings.TrimSpace(c.Body) == "" {
		return magic.Usage(c)
	}
	// It defines no names, which later cells would find.
	head := fmt.Sprintf("import gaidenreport \"gaiden/lib/report\"; defer func(r *gaidenreport.Recorder, err error) func() { if err != nil { %[2]s }; "+
		"return func() { if err := r.Stop(); err != nil { %[2]s } } }(gaidenreport.StartRecorder(%[1]q))();", path, fail)
	t := timed{line: c.Line + 1, first: c.Line, body: c.Body, before: head, keep: true}
	return t.once(ctx, h)
}

// timeitOptions are %timeit's.
type timeitOptions struct {
	loops, runs, digits int
	quiet, object       bool
}

// timeitFlags reads the options before the statement.
func timeitFlags(c magic.Command) (o timeitOptions, rest string, err error) {
	o = timeitOptions{runs: 7, digits: 3}
	rest = strings.TrimSpace(c.Text)
	for strings.HasPrefix(rest, "-") {
		word, after := rest, ""
		if i := strings.IndexAny(rest, " \t"); i >= 0 {
			word, after = rest[:i], strings.TrimSpace(rest[i:])
		}
		if word == "--" {
			return o, after, nil
		}
		wrong := func(format string, args ...any) error {
			return &magic.ArgumentError{Name: c.Name, Line: c.Line, Reason: fmt.Sprintf(format, args...)}
		}
		number := func(to *int, what string) error {
			value := word[2:]
			if value == "" {
				value, after, _ = strings.Cut(after, " ")
				after = strings.TrimSpace(after)
			}
			if n, err := fmt.Sscanf(value+"\n", "%d\n", to); err != nil || n != 1 || *to < 1 {
				return wrong("%s: got %q, want %s, from 1", word[:2], value, what)
			}
			return nil
		}
		switch {
		case strings.HasPrefix(word, "-n"):
			err = number(&o.loops, "the number of calls in a run")
		case strings.HasPrefix(word, "-r"):
			err = number(&o.runs, "the number of runs")
		case strings.HasPrefix(word, "-p"):
			err = number(&o.digits, "the number of digits")
		case word == "-t":
		case word == "-q":
			o.quiet = true
		case word == "-o":
			o.object = true
		case word == "-c":
			err = wrong("-c: processor time is not measured, since it leaves out the devices; want -t, wall-clock time")
		default:
			err = wrong("got the option %s, want %s%s", word, c.Row.Args, meant(word))
		}
		if err != nil {
			return o, "", err
		}
		rest = after
	}
	return o, rest, nil
}

// meant says which option somebody who typed word most likely wants.
func meant(word string) string {
	letter := strings.ToLower(strings.TrimLeft(word, "-"))
	for _, o := range []struct{ flag, names string }{
		{"-n", "number loops count n"}, {"-r", "repeat repeats runs rounds r"}, {"-p", "precision digits p"},
		{"-q", "quiet silent q s"}, {"-o", "output object result o v"}, {"-t", "time wall t"}} {
		for _, name := range strings.Fields(o.names) {
			if letter == name || len(letter) > 1 && (strings.HasPrefix(name, letter) || typo.Nearest(letter, []string{name}) != "") {
				return "; did you mean " + o.flag + "?"
			}
		}
	}
	return "; a statement that begins with - goes into brackets"
}
