// Trial tries the fused kernels of package fused on the CUDA device of a
// session: are their numbers those of the plain forms, and which is faster?
//
//	gaiden session start
//	trial                      # values, then times; a table on standard output
//	trial -json trial.json     # and everything as JSON
//	trial -only 'head|mlp'     # cases whose names match
//	trial -values=false        # times only
//	trial -after results       # values that lib/fused/results lacks of today's programs
//	trial -alone               # run the fused form only, and compare it with nothing
//	trial -texts DIR           # write the programs for CUDA, for sanitize.py; needs no session
//	trial -texts DIR -tilings  # the same, and of every tiling of each op that is compared or timed
//	trial -tilings             # every tiling of each timed op, not only the default, compared with the plain form; and of a step's large layers
//	trial -kernels             # what each kernel of a timed form takes
//	trial -stuck               # kernels that wait for what never comes, leave their arrays or end the compiler: how they end
//	trial -curves              # nets as package fit trains them, with fused kernels and without
//	trial -curves -tune        # the same, with the tilings that Net.Tune finds
//	trial -curves -texts DIR   # the same, and the programs of their steps, for sanitize.py
//	trial -curves -exact       # nets by steps whose products are float32, in kernels and in XLA's form
//	trial -repeats             # each net twice from one seed: are they the same, bit for bit?
//	trial -restarts            # each net by two workers, the second with programs from the disk: are they the same?
//	trial -memory              # a batch that does not fit: what is said, and does the one that is named fit?
//
// Values are compared with the plain form in float32 without TF32, from the
// same inputs, by the norm of the difference over the norm of the reference.
// The plain form in its own precision stands beside it. A kernel that ends the
// session's worker costs its case and no other: the session is opened again.
//
// Curves with fused kernels are held against XLA's by how far XLA's own go apart when their
// first weights are rounded to TF32, since products are TF32 on both sides, or are others by their
// last bit, as float32's own noise makes them: after some hundred steps one may take curves
// as far apart as the other. Four times as far as any of four such draws, or 1 %, is the mark.
// With -exact no product is TF32, and fused kernels differ from XLA's form by the order of sums
// alone; there the mark is that of the last bit. Nets then have all their layers' kernels, but
// neither the MLP's one kernel for many steps nor those of images, which have no such form.
//
// Under compute-sanitizer the kernels run without a session: see sanitize.py.
//
// It is a program and not a test because it needs a GPU; it is built without
// cgo, so a static binary can be carried to one. On a CPU session it runs the
// plain forms only, and says so.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
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
	values   bool
	times    bool
	tilings  bool
	kernels  bool
	alone    bool
	texts    string
	after    string
	curves   bool
	exact    bool
	repeats  bool
	memory   bool
	stuck    bool
	restarts bool
	tune     bool
	epochs   int
	budget   time.Duration
	runs     int
}

func main() {
	var set settings
	only := flag.String("only", "", "cases whose names match this regular expression")
	flag.StringVar(&set.json, "json", "", "file for all figures")
	flag.BoolVar(&set.values, "values", true, "compare values")
	flag.BoolVar(&set.times, "times", true, "measure times")
	flag.BoolVar(&set.tilings, "tilings", false, "time every tiling")
	flag.BoolVar(&set.kernels, "kernels", false, "list the kernels of each timed form, from the profiler")
	flag.BoolVar(&set.alone, "alone", false, "run kernels, and compare them with nothing")
	flag.StringVar(&set.texts, "texts", "", "directory to write the programs of the compared cases into, and nothing else")
	flag.StringVar(&set.after, "after", "", "file or directory of earlier figures: leave out the cases whose values are there, and right, with the same text")
	flag.BoolVar(&set.curves, "curves", false, "train nets, and nothing else")
	flag.BoolVar(&set.exact, "exact", false, "with -curves: steps whose products are float32 on both sides, and not package fit's")
	flag.BoolVar(&set.repeats, "repeats", false, "train each net twice, and nothing else")
	flag.BoolVar(&set.restarts, "restarts", false, "train each net before and after the worker's end, and nothing else")
	flag.BoolVar(&set.memory, "memory", false, "run out of the device's memory, and nothing else")
	flag.BoolVar(&set.stuck, "stuck", false, "run kernels that wait for what never comes, leave their arrays or end the compiler, and nothing else")
	flag.BoolVar(&set.tune, "tune", false, "tune before training, in sessions of the program gaiden in PATH")
	flag.IntVar(&set.epochs, "epochs", 5, "epochs of each curve")
	flag.DurationVar(&set.budget, "budget", 9*time.Minute, "begin no case after so long")
	flag.IntVar(&set.runs, "runs", 5, "samples of each time")
	flag.Parse()
	var err error
	if set.only, err = regexp.Compile(*only); err != nil {
		fmt.Fprintln(os.Stderr, "trial:", err)
		os.Exit(2)
	}
	if err := run(set); err != nil {
		fmt.Fprintln(os.Stderr, "trial:", err)
		os.Exit(1)
	}
}

// report is what the JSON file holds.
type report struct {
	Platform string      `json:"platform"`
	Device   string      `json:"device"`
	Date     string      `json:"date"`
	Values   []value     `json:"values"`
	Times    []timed     `json:"times"`
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
	bad := 0
	if set.stuck {
		return d.stuck()
	}
	if set.memory {
		t := training{"ResNet14", models.ResNet("ResNet14", 1, 1, 1, 1), fit.Config{}, 16384, 16384}
		return d.limited(func() error { return d.memory(t, 4<<30) })
	}
	switch {
	case set.curves && set.exact:
		return d.exactCurves(r, set)
	case set.curves:
		return d.curves(r, set)
	case set.repeats:
		return d.repeats(r, set)
	case set.restarts:
		return d.restarts(r, set)
	}
	if set.values {
		var err error
		if bad, err = d.values(r, set, began); err != nil {
			return err
		}
	}
	if set.times {
		if err := d.times(r, set, began); err != nil {
			return err
		}
	}
	if bad > 0 {
		return fmt.Errorf("%d of %d cases differ from the reference, or failed", bad, len(r.Values))
	}
	return nil
}
