package main

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"gaiden/lib/engine/wire"
	"gaiden/lib/session"
)

//go:embed logo.svg
var logo []byte

// installMain puts the library's source where cells import it from, compiles
// what they need, and makes the kernel known to Jupyter.
func installMain(args []string, stdout, stderr io.Writer) error {
	f := newFlags("install", "[flags]", stderr)
	source := f.String("source", "", "source tree of Gaiden; default: what was installed before")
	prefix := f.String("prefix", "", "install the kernelspec in PREFIX/share/jupyter (an environment) instead of the user's directory")
	name := f.String("name", "gaiden", "name of the kernelspec: several versions can live side by side")
	display := f.String("display", "Go (Gaiden)", "name that Jupyter shows")
	remove := f.Bool("uninstall", false, "remove the kernelspec")
	if err := parse(f, args); err != nil {
		return err
	}
	if strings.ContainsFunc(*name, func(r rune) bool { return !strings.ContainsRune("abcdefghijklmnopqrstuvwxyz0123456789.-_", r) }) || *name == "" {
		return fmt.Errorf("install: kernelspec name %q: want lower-case letters, digits, '.', '-' and '_'", *name)
	}
	dir := filepath.Join(kernelsDir(*prefix), *name)
	if *remove {
		if _, err := os.Stat(filepath.Join(dir, "kernel.json")); err != nil {
			return fmt.Errorf("install: no kernelspec %s: %w", dir, err)
		}
		fmt.Fprintf(stdout, "removed %s\n", dir)
		return os.RemoveAll(dir)
	}
	lib := filepath.Join(wire.DataDir(), "src")
	if *source != "" {
		if err := copyLibrary(*source, lib); err != nil {
			return fmt.Errorf("install: %w", err)
		}
	}
	if !exists(filepath.Join(lib, "go.mod")) {
		return fmt.Errorf("install: no library at %s: name Gaiden's source with -source", lib)
	}
	if err := download(lib); err != nil {
		return fmt.Errorf("install: %w", err)
	}
	if err := writeSpec(dir, *display); err != nil {
		return fmt.Errorf("install: %w", err)
	}
	fmt.Fprintf(stdout, "kernelspec %q at %s\n", *display, dir)
	began := time.Now()
	n := newNotebook()
	defer n.Shutdown(false)
	if err := n.Warm(context.Background(), cellPackages...); err != nil {
		return fmt.Errorf("install: compiling the packages that cells import: %w", err)
	}
	fmt.Fprintf(stdout, "packages for cells are compiled (%.1f s)\n", time.Since(began).Seconds())
	return nil
}

// download fetches the modules that the library needs, so that cells never touch
// the network. What is there already costs nothing.
func download(lib string) error {
	cmd := exec.Command("go", "mod", "download")
	cmd.Dir = lib
	if out, err := cmd.CombinedOutput(); err != nil {
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
	return filepath.Join(filepath.Dir(wire.DataDir()), "jupyter", "kernels")
}

// writeSpec writes a kernelspec; kernel.json comes last and is never seen half.
func writeSpec(dir, display string) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, "logo-svg.svg"), logo, 0o644); err != nil {
		return err
	}
	spec, err := json.MarshalIndent(map[string]any{
		"argv": []string{self, "kernel", "{connection_file}"}, "display_name": display, "language": "go",
		"interrupt_mode": "message", "metadata": map[string]any{"debugger": false, "gaiden": session.Version},
	}, "", " ")
	if err != nil {
		return err
	}
	path := filepath.Join(dir, "kernel.json")
	if err := os.WriteFile(path+".new", append(spec, '\n'), 0o644); err != nil {
		return err
	}
	return os.Rename(path+".new", path)
}

// copyLibrary copies what cells import. Files that are the same are left alone,
// so that what was compiled from them stays valid; files that are no more are
// removed.
func copyLibrary(from, to string) error {
	if b, err := os.ReadFile(filepath.Join(from, "go.mod")); err != nil || !strings.HasPrefix(string(b), "module gaiden\n") {
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
	if err := os.WriteFile(to+".new", b, 0o644); err != nil {
		return err
	}
	return os.Rename(to+".new", to)
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
