package build_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"gaiden/kernels/internal/cell"
	"gaiden/kernels/internal/cell/build"
	"gaiden/kernels/internal/cell/parse"
	"gaiden/lib/engine/sealed"
	"gaiden/lib/engine/wire"
)

// rewrite changes a file's contents in place.
func rewrite(t *testing.T, file string, change func([]byte) []byte) {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, change(data), 0o700); err != nil {
		t.Fatal(err)
	}
}

// TestDamagedProgram: a cell whose cached program was damaged prints what it
// should, and is built again once.
func TestDamagedProgram(t *testing.T) {
	const text = `fmt.Print("constant 12345")`
	damages := []struct {
		name string
		do   func(t *testing.T, file string)
	}{
		{"empty", func(t *testing.T, file string) { rewrite(t, file, func(b []byte) []byte { return nil }) }},
		{"cut", func(t *testing.T, file string) { rewrite(t, file, func(b []byte) []byte { return b[:100_000] }) }},
		{"a bit of a constant", func(t *testing.T, file string) {
			rewrite(t, file, func(b []byte) []byte { return bytes.Replace(b, []byte("constant 12345"), []byte("constant 12344"), 1) })
		}},
		{"another cell's", func(t *testing.T, file string) {
			others, _ := filepath.Glob(filepath.Join(filepath.Dir(file), "cell-*"))
			for _, other := range others {
				if other != file {
					if err := os.Rename(other, file); err != nil {
						t.Fatal(err)
					}
					return
				}
			}
			t.Fatal("there is no other program")
		}},
		{"not executable", func(t *testing.T, file string) { os.Chmod(file, 0o600) }},
		{"a folder", func(t *testing.T, file string) { os.Remove(file); os.MkdirAll(file+"/x", 0o700) }},
		{"a pipe", func(t *testing.T, file string) { os.Remove(file); syscall.Mkfifo(file, 0o700) }},
		{"a link to nothing", func(t *testing.T, file string) { os.Remove(file); os.Symlink("nothing", file) }},
	}
	cache := t.TempDir()
	b := newKernel(t, "", cache)
	for _, d := range damages {
		t.Run(d.name, func(t *testing.T) {
			for _, text := range []string{text, `fmt.Print("another")`} {
				if _, _, err := b.run(text); err != nil {
					t.Fatal(err)
				}
			}
			b.Store.Wait()
			p, err := b.Compose(t.Context(), parse.Source{ID: 1, Text: text})
			if err != nil {
				t.Fatal(err)
			}
			bin, cost, err := b.Build(t.Context(), &p.Program)
			if err != nil || cost.Road != "cached" {
				t.Fatalf("got road %q, %v; want cached", cost.Road, err)
			}
			d.do(t, bin.Path)
			for _, kernel := range []*bench{b, newKernel(t, "", cache)} {
				want := "direct"
				if kernel != b {
					want = "cached" // the first has healed it
				}
				if out, cost, err := kernel.run(text); out != "constant 12345" || cost.Road != want || err != nil {
					t.Errorf("got %q by %q, %v; want constant 12345 by %s", out, cost.Road, err, want)
				}
				kernel.Store.Wait()
			}
			if !strings.Contains(b.log.String(), "damaged") || !strings.Contains(b.log.String(), bin.Path) {
				t.Errorf("got log %q, want one that names %s", b.log.String(), bin.Path)
			}
		})
	}
}

// TestDamagedLists: a list of packages that was damaged is made again.
func TestDamagedLists(t *testing.T) {
	library := newLibrary(t)
	damages := []struct {
		name   string
		change func([]byte) []byte
	}{
		{"empty", func(b []byte) []byte { return nil }},
		{"cut", func(b []byte) []byte { return b[:len(b)/2] }},
		{"a letter", func(b []byte) []byte { return bytes.Replace(b, []byte("door"), []byte("deor"), 1) }},
		{"another's", func(b []byte) []byte { return []byte(`{"Packages":{"fmt":{"Name":"fmt","Export":"/etc/passwd"}}}`) }},
	}
	cache := t.TempDir()
	if out, _, err := newKernel(t, library, cache).run("fmt.Print(door.Width)"); out != "90" || err != nil {
		t.Fatalf("got %q, %v; want 90", out, err)
	}
	for _, d := range damages {
		t.Run(d.name, func(t *testing.T) {
			lists, _ := filepath.Glob(filepath.Join(cache, "*.json"))
			if len(lists) != 2 {
				t.Fatalf("got lists %v, want packages and names", lists)
			}
			for _, list := range lists {
				rewrite(t, list, d.change)
			}
			b := newKernel(t, library, cache)
			b.Store = nil // build it
			if out, _, err := b.run("fmt.Print(door.Width)"); out != "90" || err != nil {
				t.Errorf("got %q, %v; want 90", out, err)
			}
			if got := strings.Count(b.log.String(), "a list in the cache is damaged"); got != 2 && !strings.Contains(d.name, "letter") {
				t.Errorf("got log %q, want two damaged lists", b.log.String())
			}
			for _, list := range lists {
				if _, err := sealed.Read(list); err != nil {
					t.Errorf("afterwards: %v", err)
				}
			}
		})
	}
}

// TestDamagedIndex: where the go command's own index of the standard library is damaged,
// it does without, and the names of packages are whole.
func TestDamagedIndex(t *testing.T) {
	goCommand, err := exec.LookPath("go")
	if err != nil {
		t.Fatal(err)
	}
	// Such an index cannot be told from a good one before it is read. This go command has
	// one that has lost the package strings.
	dir := t.TempDir()
	script := fmt.Sprintf(`#!/bin/sh
case "$1 $GODEBUG" in
list*goindex=0*) exec %[1]s "$@" ;;
list*) %[1]s "$@" | sed 's/^strings /  /'; case "$*" in
	*-json*) echo '{"ImportPath": "strings", "Standard": true, "Error": {"Err": "package strings is not in std (/src/strings)"}}' ;;
	*) echo ' strings "package strings is not in std"' ;;
	esac ;;
*) exec %[1]s "$@" ;;
esac
`, goCommand)
	damaged := filepath.Join(dir, "go")
	if err := os.WriteFile(damaged, []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	b := newKernel(t, "", t.TempDir())
	b.Composer.Module.Go = damaged
	if out, _, err := b.run(`fmt.Print(strings.ToUpper("abc"))`); out != "ABC" || err != nil {
		t.Errorf("got %q, %v; want ABC", out, err)
	}
	if got := strings.Count(b.log.String(), "go clean -cache"); got != 1 {
		t.Errorf("got log %q, want go clean -cache in it once", b.log.String())
	}
}

// TestDamagedArchive: a compiled package that was damaged in Go's own cache is
// compiled again, before a program is made of it.
func TestDamagedArchive(t *testing.T) {
	for when, damages := range map[string][]string{"in a kernel's life": {"flip", "remove"}, "between kernels": {"flip", "cut"}, "before it is listed": {"flip"}} {
		for _, damage := range damages {
			t.Run(damage+" "+when, func(t *testing.T) {
				cache, library := t.TempDir(), newLibrary(t)
				b := newKernel(t, library, cache)
				if _, _, err := b.run("fmt.Print(door.Width)"); err != nil {
					t.Fatal(err)
				}
				archive := b.Builder.Module.Compiled()["example.org/house/lib/door"].Export
				switch damage {
				case "flip":
					rewrite(t, archive, func(b []byte) []byte { return bytes.ReplaceAll(b, []byte("Width"), []byte("Wodth")) })
				case "cut":
					rewrite(t, archive, func(b []byte) []byte { return b[:len(b)/2] })
				case "remove":
					os.Remove(archive)
				}
				switch when {
				case "between kernels":
					b = newKernel(t, library, cache)
				case "before it is listed":
					b = newKernel(t, library, t.TempDir())
				}
				for i := range 2 {
					out, _, err := b.run(fmt.Sprintf("fmt.Print(%d, door.Width)", i))
					if want := fmt.Sprint(i, 90); out != want || err != nil {
						t.Errorf("got %q, %v; want %s", out, err, want)
					}
				}
				if b.log.String() == "" {
					t.Error("got an empty log, want it said")
				}
			})
		}
	}
}

// poison replaces in b's index the archive of a package by that which another
// kernel has compiled, as an index of two builds would have it.
func poison(t *testing.T, cache, key string, change func(*build.Index)) {
	t.Helper()
	file := filepath.Join(cache, "packages-"+key+".json")
	data, err := sealed.Read(file)
	if err != nil {
		t.Fatal(err)
	}
	var x build.Index
	if err := json.Unmarshal(data, &x); err != nil {
		t.Fatal(err)
	}
	change(&x)
	data, err = json.Marshal(x)
	if err == nil {
		err = sealed.Write(file, data)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// TestPoisonedIndex: an index whose packages do not fit to each other is replaced,
// by itself and once, and the cell runs.
func TestPoisonedIndex(t *testing.T) {
	const text = `fmt.Println("shown"); 42`
	first := newKernel(t, "", t.TempDir())
	if _, _, err := first.run(text); err != nil {
		t.Fatal(err)
	}
	strange := first.Builder.Module.Compiled()[cell.StackPath]
	tests := []struct {
		name   string
		change func(*build.Index)
	}{
		// fingerprint mismatch: cell/gaidenstack has …, import from cell/gaidenshow expecting …
		{"of two builds", func(x *build.Index) { x.Packages[cell.StackPath] = strange }},
		// The go command's answer for one package replaces what another one imports.
		{"of two builds, one not listed", func(x *build.Index) { x.Packages[cell.StackPath] = strange; delete(x.Packages, cell.ShowPath) }},
		{"a package lacks", func(x *build.Index) { delete(x.Packages, "errors") }},
		{"another package's archive", func(x *build.Index) { x.Packages["os"] = x.Packages["io"] }},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			cache := t.TempDir()
			maker := newKernel(t, "", cache)
			if _, _, err := maker.run(text); err != nil {
				t.Fatal(err)
			}
			poison(t, cache, maker.Builder.Module.CacheKey(), tt.change)
			for i, said := range []bool{true, false} {
				b := newKernel(t, "", cache)
				b.Store = nil // build it
				if out, _, err := b.run(text); !strings.Contains(out, "shown") || err != nil {
					t.Errorf("kernel %d: got %q, %v; want shown", i, out, err)
				}
				if got := strings.Contains(b.log.String(), "made again"); got != said {
					t.Errorf("kernel %d: got log %q, want that it says so: %v", i, b.log.String(), said)
				}
			}
		})
	}
}

// TestOwnMistake: what the cell itself has wrong is not taken for a stale cache.
func TestOwnMistake(t *testing.T) {
	b := newBench(t, "")
	for _, text := range []string{"func f()\nf()", "var x int = \"a\"", "import \"no/such\"\nsuch.X()", "//go:linkname g no.such\nfunc g()\ng()"} {
		if _, _, err := b.run(text); err == nil {
			t.Errorf("%s: got no error, want one", text)
		}
		if got := b.log.String(); got != "" {
			t.Errorf("%s: got log %q, want none", text, got)
		}
	}
}

// TestSharedCache: kernels that share a cache run their own cells, also kernels
// with the same process number.
func TestSharedCache(t *testing.T) {
	cache := t.TempDir()
	if _, _, err := newKernel(t, "", cache).run("fmt.Print()"); err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	for k := range 3 {
		b := newKernel(t, "", cache)
		all.Go(func() {
			for i := range 6 {
				for range 2 { // built, and from the cache
					want := fmt.Sprintf("kernel %d cell %d", k, i)
					if out, _, err := b.run(fmt.Sprintf("fmt.Print(%q)", want)); out != want || err != nil {
						t.Errorf("got %q, %v; want %s", out, err, want)
					}
				}
			}
		})
	}
	all.Wait()
}

// TestStrangersCache: programs are not taken from where others can put them.
func TestStrangersCache(t *testing.T) {
	for _, which := range []string{"", "binaries"} {
		cache := t.TempDir()
		dir := filepath.Join(cache, which)
		if err := errors.Join(os.MkdirAll(dir, 0o777), os.Chmod(dir, 0o777)); err != nil {
			t.Fatal(err)
		}
		_, _, err := newKernel(t, "", cache).run("fmt.Print(1)")
		var denied *wire.Error
		if !errors.As(err, &denied) || !strings.Contains(err.Error(), dir) || !strings.Contains(denied.Hint(), "chmod") {
			t.Errorf("%q for all: got error %v, want one that names %s, and chmod", which, err, dir)
		}
	}
}
