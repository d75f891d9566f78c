// Command bench measures Gaiden next to its peers, JAX and PyTorch, and compares the results
// of its GPU kernels with XLA's. It is a program of its own, so that gaiden does not contain it:
//
//	scripts/bench NAME [flags]      builds gaiden and bench, and runs bench
//	scripts/bench                   lists the benchmarks and their flags
//
// On a machine without Go, carry both programs (CGO_ENABLED=0 go build ./kernels/gaiden,
// and the same of ./kernels/bench) in one folder; scripts/bundle packs both. The peers'
// scripts are inside bench; -python names an interpreter that has JAX and PyTorch.
// What the results say is in EVIDENCE.md next to this file.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"gaiden/lib/engine/files"
	"gaiden/lib/sysinfo"
	"gaiden/lib/timing"
	"gaiden/lib/timing/stats"
)

// bench is one run: its options and what it has measured.
type bench struct {
	name      string
	only      string
	python    string        // an interpreter with the peers' libraries, "" for none
	peerNames string        // which of them
	ways      string        // of the peers, for gpt, nets and random
	devices   string        // numbers of devices, for train: "1,2,4"
	tune      time.Duration // at most, for each net, for train
	limit     time.Duration // for a peer to print its next line, for train
	turns     int           // in which each way of training is measured once, for train
	seed      uint64        // of the nets that are drawn, for random
	nets      int           // how many are drawn
	texts     string        // a folder for the programs of kernels, "" for comparing them
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
	"train":    {benchTrain, "µs per training step of twelve nets; -peers jax,torch; -devices 1,2,4"},
	"nets":     {benchNets, "µs per training step of the kinds of nets that people train: GPT, GRU, VAE, GAN, …; -peers jax,torch"},
	"gpt":      {benchGPT, "µs per training step of GPT-2 and other language models in bfloat16, on a GPU; -peers jax,torch"},
	"random":   {benchRandom, "µs per training step of nets drawn from a seed; -seed, -nets; -peers jax,torch"},
	"accuracy": {benchAccuracy, "test accuracy on Fashion-MNIST; -peers torch"},
	"generate": {benchGenerate, "µs for a token of each text: greedy, one and 32 at once, and a prompt's first; -peers jax,torch"},
	"cells":    {benchCells, "ms from execute_request to idle: Gaiden, GoNB, IPython with JAX"},
	"kernels":  {benchKernels, "results of each GPU kernel next to those of its plain form; -texts"},
	"run":      {benchRun, "µs per training step of whole runs as a notebook has them, with validations; -peers jax,torch"},
	"serve":    {benchServe, "µs for a request for one example, by number of clients; -peers fastapi,torch"},
	"stream":   {benchStream, "µs per training step of data on the device, and of the same read from a file meanwhile"},
	"session":  {benchSession, "first steps by where a program is, waiting for another notebook, recovery from a crash"},
}

func main() {
	self, err := os.Executable()
	if err == nil { // the gaiden next to this program comes first
		err = os.Setenv("PATH", filepath.Dir(self)+":"+os.Getenv("PATH"))
	}
	if err == nil {
		err = run(os.Args[1:], os.Stdout, os.Stderr)
	}
	switch {
	case err == nil || errors.Is(err, flag.ErrHelp):
		return
	case errors.Is(err, errUsage):
		os.Exit(2)
	}
	fmt.Fprintf(os.Stderr, "bench: %v\n", err)
	if h := (interface{ Hint() string })(nil); errors.As(err, &h) {
		fmt.Fprintln(os.Stderr, h.Hint())
	}
	os.Exit(1)
}

// errUsage is returned after usage has been printed.
var errUsage = errors.New("usage")

func run(args []string, stdout, stderr io.Writer) error {
	b := bench{progress: stderr}
	f := b.flags(stderr)
	if len(args) == 0 || strings.HasPrefix(args[0], "-") {
		fmt.Fprintln(stderr, "usage: bench NAME [flags]")
		for _, n := range slices.Sorted(maps.Keys(benches)) {
			fmt.Fprintf(stderr, "  %-9s %s\n", n, benches[n].help)
		}
		f.PrintDefaults()
		return errUsage
	}
	b.name = args[0]
	benchmark, ok := benches[b.name]
	if !ok {
		return fmt.Errorf("no benchmark %q: bench lists them", b.name)
	}
	if err := f.Parse(args[1:]); err != nil {
		return errors.Join(err, errUsage)
	}
	switch {
	case f.NArg() > 0:
		return fmt.Errorf("%s: got %.80q after it, want flags only", b.name, f.Args())
	case b.nets < 1:
		return fmt.Errorf("-nets: got %d, want 1 or more", b.nets)
	case b.turns < 1:
		return fmt.Errorf("-rounds: got %d, want 1 or more", b.turns)
	}
	if b.out != "" {
		if err := files.Check(b.out); err != nil { // and not after minutes
			return fmt.Errorf("-json: %w", err)
		}
	}
	if b.peerNames != "" {
		if err := b.findPeers(); err != nil { // likewise
			return err
		}
	}
	b.info = sysinfo.Read(context.Background())
	err := benchmark.run(&b)
	b.print(stdout)
	return errors.Join(err, b.outErr)
}

func (b *bench) flags(stderr io.Writer) *flag.FlagSet {
	f := flag.NewFlagSet("bench", flag.ContinueOnError)
	f.SetOutput(stderr)
	f.StringVar(&b.out, "json", "", "write the records to this file, each as soon as it is there")
	f.StringVar(&b.only, "only", "", "run only cases whose name contains one of these: mlp,lenet5")
	f.StringVar(&b.python, "python", os.Getenv("GAIDEN_PEERS"), "Python interpreter with JAX and PyTorch; python3 if -peers is given")
	f.StringVar(&b.peerNames, "peers", "", "peers to measure in the same run: jax,torch")
	f.StringVar(&b.ways, "ways", "", "gpt, nets and random: measure these ways of the peers only: jit step,compile")
	f.StringVar(&b.devices, "devices", "", "train: compare these numbers of devices, such as 1,2,4")
	f.DurationVar(&b.tune, "tune", 15*time.Second, "train and random: time to choose kernels for each net on a GPU")
	f.DurationVar(&b.limit, "limit", 10*time.Minute, "train and random: time for a peer to prepare a way of training, or to measure it once")
	f.IntVar(&b.turns, "rounds", 5, "train and random: measure each way so often, interleaved with the others")
	f.Uint64Var(&b.seed, "seed", 1, "random: the seed of the nets that are drawn")
	f.IntVar(&b.nets, "nets", 12, "random: how many nets are drawn")
	f.StringVar(&b.texts, "texts", "", "kernels: write their programs for CUDA into this folder, for sanitize.py")
	return f
}

// keep adds a record, and rewrites the file: on a machine that is lent for a time,
// what was measured stays when the rest is not.
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

// wants reports whether -only names the case.
func (b *bench) wants(name string) bool {
	return slices.ContainsFunc(strings.Split(b.only, ","), func(part string) bool { return strings.Contains(name, part) })
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
	if b.name == "random" || b.name == "nets" || b.name == "gpt" {
		b.printCompared(w)
		return
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "case\tsubject\tmedian\tquartiles\tunit\tn\t")
	for _, r := range b.records {
		fmt.Fprintf(t, "%s\t%s\t%.4g\t%.4g … %.4g\t%s\t%d\t\n", r.Case, r.Subject, r.Median, r.Low, r.High, r.Unit, r.N)
	}
	t.Flush()
}
