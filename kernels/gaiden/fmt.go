package main

import (
	"errors"
	"fmt"
	"io"
	"os"

	"gaiden/kernels/internal/runner"
	"gaiden/lib/engine/files"
)

// fmtMain formats the code cells of notebook files in place.
func fmtMain(args []string, stdout, stderr io.Writer) error {
	f := newFlags("fmt", "[-l] NOTEBOOK.ipynb...", stderr)
	list := f.Bool("l", false, "change nothing: list the notebooks that would be changed, and fail if there are some")
	paths, err := parseMixed(f, args)
	if err != nil {
		return err
	}
	if len(paths) == 0 {
		f.Usage()
		return errUsage
	}
	n := newNotebook()
	defer n.Shutdown(false)
	var all error
	unformatted := 0
	for _, path := range paths {
		data, err := readNotebook(path)
		if err == nil {
			var doc *runner.Document
			if doc, err = runner.Read(data); err == nil {
				changed := doc.Edit(func(number int, code string) string {
					out, failed := n.Format(code)
					if failed != nil {
						all = errors.Join(all, fmt.Errorf("%s: cell %d is left as it is: %w", path, number, failed))
						return code
					}
					return out
				})
				if changed {
					fmt.Fprintln(stdout, path)
					unformatted++
				}
				if changed && !*list {
					if data, err = doc.Bytes(); err == nil {
						err = files.Write(path, data)
					}
				}
			}
		}
		if err != nil {
			all = errors.Join(all, fmt.Errorf("%s: %w", path, err))
		}
	}
	if *list && unformatted > 0 {
		all = errors.Join(all, errors.New("fmt: gaiden fmt without -l formats these notebooks"))
	}
	return all
}

// readNotebook reads a file that may be a notebook.
func readNotebook(path string) ([]byte, error) {
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() && !info.IsDir() {
		return nil, fmt.Errorf("it is not a regular file (%s): want a notebook", info.Mode().Type()) // a pipe would be waited for
	}
	data, err := os.ReadFile(path)
	if pe, is := errors.AsType[*os.PathError](err); is {
		err = pe.Err // the caller names the file
	}
	return data, err
}
