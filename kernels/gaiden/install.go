package main

import (
	"cmp"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"gaiden/kernels/internal/linker"
	"gaiden/lib/engine/files"
	"gaiden/lib/engine/wire"
	"gaiden/lib/session"
	"gaiden/lib/timing/units"
)

//go:embed logo.svg
var logo []byte

// usualName is the kernelspec of the version that the user's directories hold.
// A kernelspec of another name has a version of its own in its folder, program
// and library, so that several can live side by side.
const usualName = "gaiden"

// installMain puts the library's source where cells import it from, compiles
// what they need, and makes the kernel known to Jupyter.
func installMain(args []string, stdout, stderr io.Writer) error {
	f := newFlags("install", "[flags]", stderr)
	source := f.String("source", "", "source tree of Gaiden; default: that of which go build has made this program, if it is there, else what was installed before")
	user := f.Bool("user", false, "install the kernelspec in the user's directory, which every Jupyter of the user lists: the default")
	sysPrefix := f.Bool("sys-prefix", false, "install the kernelspec in the Python environment that is active: python3's sys.prefix")
	prefix := f.String("prefix", "", "install the kernelspec in PREFIX/share/jupyter: an environment")
	name := f.String("name", usualName, "name of the kernelspec: one of another name has this version for itself")
	display := f.String("display", "", "name that Jupyter shows; default: Go (Gaiden), or Go (NAME)")
	remove := f.Bool("uninstall", false, "remove the kernelspec")
	stage := f.String("package", "", "only write to this directory what a Python package installs into its prefix; see scripts/wheel")
	if err := parseAll(f, args); err != nil {
		return err
	}
	if strings.ContainsFunc(*name, func(r rune) bool { return !strings.ContainsRune("abcdefghijklmnopqrstuvwxyz0123456789.-_", r) }) || *name == "" || (*name)[0] == '.' {
		return fmt.Errorf("install: kernelspec name %q: want lower-case letters, digits, '.', '-' and '_', no '.' first", *name)
	}
	*source = cmp.Or(*source, ownSource())
	if *stage != "" {
		if err := stagePackage(*source, *stage); err != nil {
			return fmt.Errorf("install: -package: %w", err)
		}
		return nil
	}
	prefixed := false
	f.Visit(func(given *flag.Flag) { prefixed = prefixed || given.Name == "prefix" })
	switch where := map[bool]int{true: 1}; {
	case where[*user]+where[*sysPrefix]+where[prefixed] > 1:
		return errors.New("install: got more than one of -user, -sys-prefix and -prefix, want one")
	case prefixed && *prefix == "":
		return errors.New(`install: -prefix: got "", want the directory of an environment; is a variable in it not set?`)
	case *sysPrefix:
		var err error
		if *prefix, err = pythonPrefix(); err != nil {
			return fmt.Errorf("install: %w", err)
		}
	}
	dir, err := filepath.Abs(filepath.Join(kernelsDir(*prefix), *name)) // the kernelspec names files in it
	if err != nil {
		return fmt.Errorf("install: %w", err)
	}
	if *remove {
		return uninstall(dir, stdout)
	}
	err = installKernel(dir, *name, *display, *source, stdout)
	if err == nil {
		err = prepareCells(stdout)
	}
	if err != nil {
		return fmt.Errorf("install: %w", err)
	}
	return nil
}

// stagePackage writes what a Python package installs into its prefix.
func stagePackage(source, dir string) error {
	if err := copyLibrary(source, filepath.Join(packageShare(dir), "src")); err != nil {
		return err
	}
	return writeSpec(filepath.Join(kernelsDir(dir), usualName), "Go (Gaiden)", packageSpec, nil)
}

// installKernel puts the library in its place, and writes the kernelspec into dir.
func installKernel(dir, name, display, source string, stdout io.Writer) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	lib, shown, env := filepath.Join(wire.DataDir(), "src"), "Go (Gaiden)", map[string]string(nil)
	if name != usualName {
		source = cmp.Or(source, lib)
		if self, lib, env, err = alone(dir, self); err != nil {
			return err
		}
		shown = "Go (" + name + ")"
	} else if ofGoRun(self) {
		if self, err = keptProgram(self); err != nil {
			return err
		}
	}
	if source != "" {
		if err := copyLibrary(source, lib); err != nil {
			return err
		}
	}
	if !exists(filepath.Join(lib, "go.mod")) {
		return fmt.Errorf("no library at %s: name Gaiden's source with -source", lib)
	}
	if err := download(lib); err != nil {
		return err
	}
	shown = cmp.Or(display, shown)
	if err := writeSpec(dir, shown, self, env); err != nil {
		return err
	}
	fmt.Fprintf(stdout, "kernelspec %q at %s\n", shown, dir)
	return nil
}

// prepareCells compiles what cells need, so that the first one does not wait for it.
func prepareCells(stdout io.Writer) error {
	began := time.Now()
	if _, err := linker.Make(context.Background(), "go", cellCache()); err != nil {
		fmt.Fprintf(stdout, "cells are linked by Go's own linker, which takes longer: %v\n", err)
	} else {
		fmt.Fprintf(stdout, "the linker for cells is made (%s)\n", units.Clock(time.Since(began).Seconds()))
	}
	began = time.Now()
	n := newNotebook()
	defer n.Shutdown(false)
	if err := n.Warm(context.Background(), cellPackages...); err != nil {
		return fmt.Errorf("compiling the packages that cells import: %w", err)
	}
	fmt.Fprintf(stdout, "packages for cells are compiled (%s)\n", units.Clock(time.Since(began).Seconds()))
	return nil
}

// ownSource is the source tree of which this program was built, "" where that is not there, or not
// known: -trimpath leaves it out.
func ownSource() string {
	_, file, _, _ := runtime.Caller(0)
	tree := filepath.Dir(filepath.Dir(filepath.Dir(file)))
	if b, err := os.ReadFile(filepath.Join(tree, "go.mod")); !filepath.IsAbs(file) || err != nil || !strings.HasPrefix(string(b), "module gaiden\n") {
		return ""
	}
	return tree
}

// uninstall removes a kernelspec, with the version that it has for itself, and says
// what stays.
func uninstall(dir string, stdout io.Writer) error {
	if _, err := os.Stat(filepath.Join(dir, "kernel.json")); err != nil {
		return fmt.Errorf("install: no kernelspec %s: %w", dir, err)
	}
	if err := os.RemoveAll(dir); err != nil {
		return fmt.Errorf("install: %w", err)
	}
	fmt.Fprintf(stdout, "removed %s\n", dir)
	for _, left := range []struct{ what, dir string }{{"program and library", wire.UserDataDir()}, {"plugins, data sets, compiled programs", wire.CacheDir()}, {"snapshots", wire.StateDir()}} {
		if exists(left.dir) {
			fmt.Fprintf(stdout, "%s stay in %s\n", left.what, left.dir)
		}
	}
	return nil
}

// pythonPrefix is the Python environment that is active.
func pythonPrefix() (string, error) {
	out, err := exec.Command("python3", "-c", "import sys; print(sys.prefix)").Output()
	if err != nil {
		return "", fmt.Errorf("-sys-prefix: python3: %w: name the environment with -prefix", err)
	}
	return strings.TrimSpace(string(out)), nil
}

// ofGoRun says whether a program is one that go run removes when it ends.
func ofGoRun(program string) bool {
	dir := filepath.Dir(program)
	return filepath.Base(dir) == "exe" && strings.Contains(dir, string(filepath.Separator)+"go-build")
}

// keptProgram is a copy of a program in the data directory.
func keptProgram(self string) (program string, err error) {
	program = filepath.Join(wire.DataDir(), "bin", "gaiden")
	if err := copyFile(self, program); err != nil {
		return "", err
	}
	return program, os.Chmod(program, 0o755)
}

// alone gives a kernelspec its own data directory: the program, copied there, a
// place for the library, and the completion server. Its kernels find them there,
// and so does the session that their cells start.
func alone(dir, self string) (program, lib string, env map[string]string, err error) {
	home := filepath.Join(dir, "home")
	gopls := filepath.Join(wire.DataDir(), "bin", "gopls")
	env = map[string]string{"XDG_DATA_HOME": home}
	if err := errors.Join(os.Setenv("XDG_DATA_HOME", home), os.Unsetenv(wire.HomeEnv)); err != nil {
		return "", "", nil, err
	}
	if program, err = keptProgram(self); err != nil {
		return "", "", nil, err
	}
	if link := filepath.Join(wire.DataDir(), "bin", "gopls"); exists(gopls) && !exists(link) {
		os.Remove(link)         // one that leads nowhere
		os.Symlink(gopls, link) // Tab and Shift-Tab need it
	}
	return program, filepath.Join(wire.DataDir(), "src"), env, nil
}

// download fetches the modules that the library needs, so that cells never touch
// the network. What is there already costs nothing.
func download(lib string) error {
	cmd := exec.Command("go", "mod", "download")
	cmd.Dir = lib
	out, err := cmd.CombinedOutput()
	if errors.Is(err, exec.ErrNotFound) {
		return errors.New("go is not in PATH: " + getGo)
	}
	if err != nil {
		return fmt.Errorf("go mod download: %w: %s", err, strings.TrimSpace(string(out)))
	}
	return nil
}

// kernelsDir is where Jupyter looks for kernelspecs.
func kernelsDir(prefix string) string {
	if prefix != "" {
		return filepath.Join(prefix, "share", "jupyter", "kernels")
	}
	if d := os.Getenv("JUPYTER_DATA_DIR"); d != "" {
		return filepath.Join(d, "kernels")
	}
	return filepath.Join(filepath.Dir(wire.UserDataDir()), "jupyter", "kernels")
}

// writeSpec writes a kernelspec; kernel.json comes last and is never seen half.
func writeSpec(dir, display, self string, env map[string]string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	if err := files.Write(filepath.Join(dir, "logo-svg.svg"), logo); err != nil {
		return err
	}
	fields := map[string]any{
		"argv": []string{self, "kernel", "{connection_file}"}, "display_name": display, "language": "go",
		"interrupt_mode": "message",
		// A Python package is the same wherever it was built.
		"metadata": map[string]any{"debugger": self != packageSpec && delve() != "", "gaiden": session.Version},
	}
	if env != nil {
		fields["env"] = env
	}
	spec, err := json.MarshalIndent(fields, "", " ")
	if err != nil {
		return err
	}
	return files.Write(filepath.Join(dir, "kernel.json"), append(spec, '\n'))
}

// copyLibrary copies what cells import. Files that are the same are left alone,
// so that what was compiled from them stays valid; files that are no more are
// removed.
func copyLibrary(from, to string) error {
	if b, err := os.ReadFile(filepath.Join(from, "go.mod")); err != nil {
		return fmt.Errorf("%s is not Gaiden's source: %w", from, err)
	} else if !strings.HasPrefix(string(b), "module gaiden\n") {
		return fmt.Errorf("%s is not Gaiden's source: its go.mod does not begin with \"module gaiden\"", from)
	}
	keep := map[string]bool{}
	put := func(rel string) error {
		keep[rel] = true
		return copyFile(filepath.Join(from, rel), filepath.Join(to, rel))
	}
	err := errors.Join(put("go.mod"), put("go.sum"))
	err = errors.Join(err, filepath.WalkDir(filepath.Join(from, "lib"), func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(from, path)
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == "testdata" || rel == filepath.Join("lib", "engine", "device")):
			return filepath.SkipDir
		case d.IsDir() || strings.HasSuffix(path, "_test.go"):
			return nil
		}
		return put(rel)
	}))
	if err != nil {
		return err
	}
	return filepath.WalkDir(to, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		if rel, err := filepath.Rel(to, path); err != nil || !keep[rel] {
			return errors.Join(err, os.Remove(path))
		}
		return nil
	})
}

func copyFile(from, to string) error {
	b, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	if old, err := os.ReadFile(to); err == nil && string(old) == string(b) {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return err
	}
	if err := files.Write(to, b); err != nil {
		return err
	}
	return os.Chmod(to, 0o644) // cells are built from it: nobody else may change it, whatever the umask
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
