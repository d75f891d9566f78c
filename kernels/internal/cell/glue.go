package cell

import (
	"embed"
	"io/fs"
	"os"
	"path/filepath"
)

// Cells show their last value by a package of their own module, which is
// written into it: so it is compiled once, and the program that shows
// nothing does not contain it. A second one can draw images, and a third arrays;
// package image/png and the library's report are worth linking only then.
const (
	ShowPath      = "cell/gaidenshow"
	ShowImagePath = "cell/gaidenshow/gaidenimage"
	ShowArrayPath = "cell/gaidenshow/gaidenarray"
	ShowPackage   = "gaiden_show" // what cells call it
	ShowFunc      = ShowPackage + ".Show"
	ShowErrorName = "ShowError"
	ShowErrorFunc = ShowPackage + "." + ShowErrorName
)

//go:embed show/show.go.txt
var showSource string

//go:embed show/image.go.txt
var imageSource string

//go:embed show/array.go.txt
var arraySource string

// TracePath is the companion of TracedPath: a package that tells where in the cells an
// error was made.
const (
	TracePath  = "cell/gaidentrace"
	TracedPath = "github.com/pkg/errors"
)

//go:embed show/trace.go.txt
var traceSource string

// WriteGlue writes the packages of which programs are made besides cells into a
// module's directory.
func WriteGlue(dir string) error {
	for path, text := range GluePackages() {
		name := filepath.Join(dir, filepath.FromSlash(path))
		if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
			return err
		}
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			return err
		}
	}
	return nil
}

// Programs carry values to later ones by package gaidenkeep, which is written
// into the cells' module. A program that has no variables does not contain it.
const (
	KeepPath    = "cell/gaidenkeep"
	KeepPackage = "gaiden_keep" // what cells call it
)

// StackPath is the package that bounds the stacks of every program, says what the
// error of its end has for a hint, and what has changed of its process.
const (
	StackPath    = "cell/gaidenstack"
	StackPackage = "gaiden_stack" // what cells call it
)

// InterruptPath is the library's package with the context of the cell, below the path
// of the library's module. A program that contains it says to it that it is a cell's.
const (
	InterruptPath    = "lib/engine/interrupt"
	InterruptPackage = "gaiden_interrupt" // what cells call it
)

// LeaveEnv names the environment variable with the file of what a program has
// changed of its process: see Leaves of package keep's Program. It is in gaidenstack,
// too, which the kernel must not import: it bounds the stacks of its program.
const LeaveEnv = "GAIDEN_PROCESS"

//go:embed gaidenkeep/doc.go gaidenkeep/class.go gaidenkeep/decode.go gaidenkeep/encode.go gaidenkeep/fingerprint.go gaidenkeep/keep.go gaidenkeep/preview.go gaidenkeep/stop.go gaidenkeep/walk.go
//go:embed gaidenstack/leave.go gaidenstack/left.go gaidenstack/stack.go
var glueFiles embed.FS

// GluePackages returns the packages that are written into the cells' module:
// text by file name.
func GluePackages() map[string]string {
	out := map[string]string{"gaidenshow/show.go": showSource, "gaidenshow/gaidenimage/image.go": imageSource, "gaidenshow/gaidenarray/array.go": arraySource, "gaidentrace/trace.go": traceSource}
	fs.WalkDir(glueFiles, ".", func(name string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			data, _ := glueFiles.ReadFile(name)
			out[name] = string(data)
		}
		return err
	})
	return out
}
