// Package trial tries the fused kernels of package fused on the CUDA device of a
// session: are their numbers those of the plain forms, does a net learn with them as
// without, and what becomes of a kernel that fails? It is the command bench trial, and
// not a test, because it needs a GPU: its binary can be carried to one. On a CPU session
// it runs the plain forms only.
//
//	bench trial                     # the values of all cases
//	bench trial -json trial.json    # and everything as JSON
//	bench trial -only 'head|mlp'    # cases whose names match
//	bench trial -after results      # values that these results lack of today's programs
//	bench trial -alone              # run the fused form only, and compare it with nothing
//	bench trial -texts DIR          # write the programs for CUDA, for sanitize.py; needs no session
//	bench trial -stuck              # kernels that leave their arrays or end the compiler
//	bench trial -curves             # nets as package fit trains them, with fused kernels and without
//	bench trial -curves -texts DIR  # the same, and the programs of their steps, for sanitize.py
//	bench trial -repeats            # each net twice from one seed: are they the same, bit for bit?
//	bench trial -restarts           # each net by two workers, the second with programs from the disk: are they the same?
//	bench trial -memory             # a batch that does not fit: what is said, and does the one that is named fit?
//
// Values are compared with the plain form in float32 without TF32, from the
// same inputs, by the norm of the difference over the norm of the reference;
// the plain form in its own precision is shown next to it. A kernel that ends the
// session's worker costs its case and no other: the session is opened again.
//
// Curves with fused kernels may differ from XLA's as far as XLA's own do when the
// initial weights are rounded to TF32, since products are TF32 on both sides, or differ
// in their last bit: after some hundred steps one may take curves as far apart as the
// other. The limit is four times the largest of four such draws, or 1 %.
//
// Under compute-sanitizer the kernels run without a session: see sanitize.py.
package trial

import (
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"regexp"
	"strings"
	"time"

	"gaiden/lib/engine/files"
	"gaiden/lib/fit"
	"gaiden/lib/models"
)

// settings are the flags.
type settings struct {
	json     string
	only     *regexp.Regexp
	alone    bool
	texts    string
	after    string
	curves   bool
	repeats  bool
	memory   bool
	stuck    bool
	restarts bool
	epochs   int
	budget   time.Duration
}

// Main is bench trial. Its error is flag.ErrHelp after usage was printed.
func Main(args []string, stderr io.Writer) error {
	var set settings
	f := flag.NewFlagSet("bench trial", flag.ContinueOnError)
	f.SetOutput(stderr)
	only := f.String("only", "", "cases whose names match this regular expression")
	f.StringVar(&set.json, "json", "", "file for all figures")
	f.BoolVar(&set.alone, "alone", false, "run kernels, and compare them with nothing")
	f.StringVar(&set.texts, "texts", "", "directory to write the programs of the compared cases into, and nothing else")
	f.StringVar(&set.after, "after", "", "file or directory of earlier figures: leave out the cases whose values are there, and right, with the same text")
	f.BoolVar(&set.curves, "curves", false, "train nets, and nothing else")
	f.BoolVar(&set.repeats, "repeats", false, "train each net twice, and nothing else")
	f.BoolVar(&set.restarts, "restarts", false, "train each net before and after the worker's end, and nothing else")
	f.BoolVar(&set.memory, "memory", false, "run out of the device's memory, and nothing else")
	f.BoolVar(&set.stuck, "stuck", false, "run kernels that leave their arrays or end the compiler, and nothing else")
	f.IntVar(&set.epochs, "epochs", 5, "epochs of each curve")
	f.DurationVar(&set.budget, "budget", 9*time.Minute, "begin no case after so long")
	err := f.Parse(args)
	if err == nil && f.NArg() > 0 {
		err = fmt.Errorf("got %q after the flags, want nothing", f.Args())
	}
	if err == nil {
		set.only, err = regexp.Compile(*only)
	}
	if err != nil {
		return err
	}
	return run(set)
}

// report is what the JSON file holds.
type report struct {
	Platform string      `json:"platform"`
	Device   string      `json:"device"`
	Date     string      `json:"date"`
	Values   []value     `json:"values"`
	Curves   []curve     `json:"curves,omitempty"`
	Repeats  []repeated  `json:"repeats,omitempty"`
	Restarts []restarted `json:"restarts,omitempty"`
}

// save writes what there is after each case: the next one may be the last.
func (r *report) save(file string) error {
	if file == "" {
		return nil
	}
	b, err := json.MarshalIndent(r, "", " ")
	if err != nil {
		return err
	}
	return files.Write(file, b)
}

func run(set settings) error {
	if set.texts != "" {
		if err := os.MkdirAll(set.texts, 0o755); err != nil {
			return err
		}
		if !set.curves {
			return texts(set)
		}
	}
	d := &desk{}
	if err := d.open(); err != nil {
		return err
	}
	w := d.s.Welcome()
	r := &report{Platform: w.Platform, Date: time.Now().UTC().Format(time.RFC3339)}
	for _, v := range w.Devices {
		r.Device = v.Kind
	}
	d.cuda = strings.Contains(strings.ToLower(w.Platform), "cuda") || strings.Contains(strings.ToLower(w.Platform), "gpu")
	fmt.Printf("%s, %s\n", r.Platform, r.Device)
	if !d.cuda {
		fmt.Println("no CUDA device: plain forms only")
	}
	began := time.Now()
	if set.stuck {
		return d.stuck()
	}
	if set.memory {
		t := training{"ResNet14", models.ResNet("ResNet14", 1, 1, 1, 1), fit.Config{}, 16384, 16384}
		return d.limited(func() error { return d.memory(t, 4<<30) })
	}
	switch {
	case set.curves:
		return d.curves(r, set)
	case set.repeats:
		return d.repeats(r, set)
	case set.restarts:
		return d.restarts(r, set)
	}
	bad, err := d.values(r, set, began)
	if err == nil && bad > 0 {
		err = fmt.Errorf("%d of %d cases differ from the reference, or failed", bad, len(r.Values))
	}
	return err
}
