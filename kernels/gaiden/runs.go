package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"gaiden/kernels/internal/magic"
	"gaiden/kernels/internal/notebook"
	"gaiden/lib/engine/typo"
	"gaiden/lib/report"
	"gaiden/lib/runs"
)

const runsArgs = "[-d FOLDER] [RESULT | show RUN]"

const runsMore = `
fit.Train{Log: "runs/first"} keeps a training as a run: its settings, code, machine,
losses and metrics, also as event files of TensorBoard.
%runs                  lists the runs in the folder runs, with the settings in which they
                       differ, and draws their losses
%runs validation/loss  draws another result
%runs show RUN         shows the settings, the code, the machine and the curve of a run
-d FOLDER              another folder; relative paths are the notebook's`

// runsMagics are those that read what trainings have logged.
func runsMagics(n *notebook.Notebook) magic.Table {
	return magic.Table{{Name: "%runs", Args: runsArgs, Help: "lists and compares trainings that were logged", More: runsMore,
		Run: func(_ context.Context, h magic.Host, c magic.Command) error { return runsMagic(n.Directory(), h, c) }}}
}

func runsMagic(dir string, h magic.Host, c magic.Command) error {
	args, folder := c.Args, "runs"
	if len(args) > 0 && args[0] == "-d" {
		if len(args) < 2 {
			return magic.Usage(c)
		}
		folder, args = args[1], args[2:]
	}
	path := folder
	if !filepath.IsAbs(path) {
		path = filepath.Join(dir, folder)
	}
	all, err := runs.List(path)
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	var shown report.Rich
	switch {
	case len(args) == 2 && args[0] == "show":
		i := slices.IndexFunc(all, func(r *runs.Run) bool { return r.Name == args[1] || filepath.Join(folder, r.Name) == args[1] })
		if i < 0 {
			return errors.Join(err, unknown("run", args[1], folder, names(all)))
		}
		shown = report.RunSheet{Run: all[i]}
	case len(args) > 1:
		return magic.Usage(c)
	default:
		compared := report.Runs{Runs: all, Curve: strings.Join(args, "")}
		if known := compared.Curves(); compared.Curve != "" && !slices.Contains(known, compared.Curve) {
			for _, path := range []string{compared.Curve, filepath.Join(dir, compared.Curve)} {
				if info, err := os.Stat(path); err == nil && info.IsDir() {
					return fmt.Errorf("%%runs: %s is a folder: want %%runs -d %[1]s", compared.Curve)
				}
			}
			return errors.Join(err, unknown("result", compared.Curve, folder, known))
		}
		shown = compared
	}
	h.Show(map[string]any{"text/plain": shown.String(), "text/html": shown.HTML()})
	return err
}

func names(all []*runs.Run) (l []string) {
	for _, r := range all {
		l = append(l, r.Name)
	}
	return l
}

// unknown is the error of a name that nothing in the folder has.
func unknown(what, name, folder string, known []string) error {
	if len(known) == 0 {
		return fmt.Errorf("%%runs: no runs in %s: fit.Train{Log: %q} keeps one", folder, filepath.Join(folder, "first"))
	}
	if near := typo.Nearest(name, known); near != "" {
		return fmt.Errorf("%%runs: no %s %q in %s; did you mean %s?", what, name, folder, near)
	}
	return fmt.Errorf("%%runs: no %s %q in %s: want one of %s", what, name, folder, strings.Join(known, ", "))
}
