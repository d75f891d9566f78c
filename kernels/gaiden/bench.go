package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"sort"
	"strings"
	"text/tabwriter"
	"time"

	"gaiden/lib/engine/files"
	"gaiden/lib/sysinfo"
	"gaiden/lib/timing"
	"gaiden/lib/timing/stats"
)

// bench is one run of gaiden bench: its options and what it has measured.
type bench struct {
	name      string
	only      string
	python    string        // an interpreter with the peers' libraries, "" for none
	peerNames string        // which of them, for train and accuracy
	devices   string        // numbers of devices, for train: "1,2,4"
	variants  string        // ways of training that are measured too, for train
	tune      time.Duration // at most, for each net, for train and tune
	cell      string        // the net to train as a cell, for tune
	limit     time.Duration // for a peer to print its next line, for train
	turns     int           // in which each way of training is measured once, for train
	seeds     int           // that each net is trained from, for accuracy
	budget    time.Duration
	info      sysinfo.Info
	records   []timing.Record
	out       string // the file of the records, "" for none
	outErr    error  // of the last time it was written
	progress  io.Writer
}

// benches are the benchmarks by name.
var benches = map[string]struct {
	run  func(b *bench) error
	help string
}{
	"dispatch": {benchDispatch, "µs a step of 1, 31 and 100 donated arrays: raw PJRT, through the socket, GoMLX, JAX"},
	"train":    {benchTrain, "µs a training step of the sources' nets; -peers jax,torch; -devices 1,2,4"},
	"growth":   {benchGrowth, "cost as work grows: by batch 1 … 4096, by examples 1,000 … 60,000"},
	"accuracy": {benchAccuracy, "test accuracy of the sources' nets on Fashion-MNIST; -peers torch"},
	"session":  {benchSession, "first calls by where a program is, snapshots, fairness, recovery"},
	"tune":     {benchTune, "what later cells gain from kernels that are tried in the background, on a GPU"},
	"phases":   {benchPhases, "where a step of the sources' nets goes, by phase, layer and op; peaks, a sweep, a product beside PyTorch and JAX"},
	"cells":    {benchCells, "ms from execute_request to idle: Gaiden, GoNB, IPython with JAX; the kernel is the installed one"},
	"upload":   {benchUpload, "GB/s into the session, beside a memory copy"},
}

func benchMain(args []string, stdout, stderr io.Writer) error {
	b := bench{progress: stderr}
	f := newFlags("bench", "NAME [flags]", stderr)
	f.StringVar(&b.out, "json", "", "write the records to this file, each as soon as it is there")
	f.StringVar(&b.only, "only", "", "run only cases whose name contains one of these: mlp,lenet5")
	f.StringVar(&b.python, "python", os.Getenv("GAIDEN_PEERS"), "Python interpreter with JAX and PyTorch, for the peers in the same run; python3 where -peers asks for some")
	f.StringVar(&b.peerNames, "peers", "", "peers of the benchmarks train and accuracy: jax,torch")
	f.StringVar(&b.devices, "devices", "", "train: compare these numbers of devices, such as 1,2,4")
	f.StringVar(&b.variants, "variants", "", "train: measure these ways too, of: "+variantNames())
	f.DurationVar(&b.tune, "tune", 15*time.Second, "train and tune: time to choose kernels for each net on a GPU")
	f.StringVar(&b.cell, "cell", "", "tune: be the cell that trains this net")
	f.DurationVar(&b.limit, "limit", 10*time.Minute, "train: time for a peer to prepare a way of training, or to measure it once")
	f.IntVar(&b.turns, "rounds", trainSamples, "train: measure each way so often, in turns with the others; more where two are close")
	f.IntVar(&b.seeds, "seeds", 3, "accuracy: train each net from so many seeds")
	f.DurationVar(&b.budget, "budget", time.Second, "time for each case; train -devices: for each run")
	if len(args) == 0 || strings.HasPrefix(args[0], "-") {
		f.Usage()
		var names []string
		for n, x := range benches {
			names = append(names, fmt.Sprintf("  %-9s %s", n, x.help))
		}
		sort.Strings(names)
		fmt.Fprintf(stderr, "benchmarks:\n%s\n", strings.Join(names, "\n"))
		return errUsage
	}
	b.name = args[0]
	run, ok := benches[b.name]
	if !ok {
		return fmt.Errorf("bench: no benchmark %q: gaiden bench lists them", b.name)
	}
	if err := parseAll(f, args[1:]); err != nil {
		return err
	}
	if b.turns < 1 {
		return fmt.Errorf("bench: -rounds: got %d, want 1 or more", b.turns)
	}
	if b.out != "" {
		if err := files.Check(b.out); err != nil { // minutes later it would be a pity
			return fmt.Errorf("bench: -json: %w", err)
		}
	}
	if b.peerNames != "" {
		if err := b.findPeers(); err != nil { // likewise
			return err
		}
	}
	b.info = sysinfo.Read(context.Background())
	err := run.run(&b)
	b.print(stdout)
	return errors.Join(err, b.outErr)
}

// keep adds a record, and writes the file anew: what was measured stays when the rest
// is not, on a machine that is lent for a time.
func (b *bench) keep(r timing.Record) {
	b.records = append(b.records, r)
	if b.out == "" {
		return
	}
	j, err := json.MarshalIndent(b.records, "", " ")
	if err == nil {
		err = files.Write(b.out, append(j, '\n'))
	}
	b.outErr = err
}

// wants says whether the case was asked for.
func (b *bench) wants(name string) bool {
	return slices.ContainsFunc(strings.Split(b.only, ","), func(part string) bool { return strings.Contains(name, part) })
}

// add keeps a measurement in µs a step.
func (b *bench) add(name, subject string, m timing.Measurement) error {
	if m.Err != nil {
		return fmt.Errorf("bench %s: %s: %s: %w", b.name, name, subject, m.Err)
	}
	r, err := m.Record(b.name, name, subject, b.info)
	if err == nil {
		b.keep(r)
	}
	return err
}

// addSamples keeps figures that were measured otherwise, in the given unit.
func (b *bench) addSamples(name, subject, unit string, samples []float64) {
	if len(samples) == 0 {
		return
	}
	m := timing.Measurement{Name: name, Samples: samples, Loops: 1, Time: time.Now().UTC()}
	r, err := m.Record(b.name, name, subject, b.info)
	if err != nil {
		return
	}
	r.Unit, r.Median, r.Low, r.High = unit, stats.Median(samples), stats.Quantile(samples, 0.25), stats.Quantile(samples, 0.75)
	b.keep(r)
}

// print prints the records as a table.
func (b *bench) print(w io.Writer) {
	if len(b.records) == 0 {
		return
	}
	fmt.Fprintf(w, "%s\n%s\n\n", b.records[0].Machine, b.records[0].Versions)
	if b.name == "train" && b.devices == "" {
		b.printTrain(w)
		return
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "case\tsubject\tmedian\tquartiles\tunit\tn\t")
	for _, r := range b.records {
		fmt.Fprintf(t, "%s\t%s\t%.4g\t%.4g … %.4g\t%s\t%d\t\n", r.Case, r.Subject, r.Median, r.Low, r.High, r.Unit, r.N)
	}
	t.Flush()
}
