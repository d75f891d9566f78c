package datasets

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// debian packs files as a Debian package.
func debian(t *testing.T, files map[string][]byte, path string) {
	t.Helper()
	if _, err := exec.LookPath("dpkg-deb"); err != nil {
		t.Skip("needs the command dpkg-deb, to see a package unpacked: install the package dpkg, which Debian and Ubuntu have")
	}
	tree := t.TempDir()
	place(t, filepath.Join(tree, "DEBIAN", "control"), []byte("Package: dataset-tiny\nVersion: 1.0\nArchitecture: all\nMaintainer: test <test@example.com>\nDescription: test\n"))
	for name, contents := range files {
		place(t, filepath.Join(tree, "usr", "share", "datasets", name), contents)
	}
	if out, err := exec.Command("dpkg-deb", "--build", tree, path).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
}

func TestUnpackDeb(t *testing.T) {
	c, files := tiny(t, "Tiny")
	less := map[string][]byte{c.files[0].name + ".gz": files[c.files[0].name+".gz"]}
	dir := t.TempDir()
	whole, part, cut := filepath.Join(dir, "whole.deb"), filepath.Join(dir, "part.deb"), filepath.Join(dir, "cut.deb")
	debian(t, files, whole)
	debian(t, less, part)
	b, err := os.ReadFile(whole)
	if err != nil {
		t.Fatal(err)
	}
	place(t, cut, b[:len(b)/2])
	for _, tt := range []struct{ path, says string }{{whole, ""}, {part, "lacks"}, {cut, "dpkg-deb: error"}} {
		s, err := Options{Dir: t.TempDir()}.store("tiny")
		if err == nil {
			err = os.Mkdir(s.dir, 0o755)
		}
		if err != nil {
			t.Fatal(err)
		}
		err = s.unpackDeb(t.Context(), tt.path, c.files[:])
		if tt.says == "" && err != nil || tt.says != "" && (err == nil || !strings.Contains(err.Error(), tt.says)) {
			t.Errorf("%s: got %v, want %q", filepath.Base(tt.path), err, tt.says)
		}
	}
}

func TestInstalledPackage(t *testing.T) {
	c, files := tiny(t, "Tiny")
	c.debian, c.installed = "dataset-tiny", t.TempDir()
	for name, data := range files {
		place(t, filepath.Join(c.installed, name), data)
	}
	images, err := c.load(t.Context(), Options{Dir: t.TempDir(), Offline: true})
	if err != nil {
		t.Fatal(err)
	}
	if got, want := images.Source, "the installed package dataset-tiny"; got != want {
		t.Errorf("source: got %q, want %q", got, want)
	}
}

// The script below stands in for apt-get, whose archive is on the network. It
// knows no package until its lists were updated in a place of our own.
const aptScript = `#!/bin/sh
echo "$@" >> "$APT_LOG"
case "$*" in
*Dir::State=*update) exit 0 ;;
*Dir::State=*"download dataset-tiny") cp "$APT_DEB" dataset-tiny_1.0_all.deb ;;
*) echo "E: Unable to locate package dataset-tiny" >&2; exit 100 ;;
esac
`

func TestStandInComesFromThePackageArchive(t *testing.T) {
	wanted, _ := tiny(t, "Wanted")
	wanted.mirrors = []string{newMirror(t, nil).URL}
	stand, files := tiny(t, "Tiny")
	stand.mirrors, stand.debian = []string{newMirror(t, nil).URL}, "dataset-tiny"
	bin := t.TempDir()
	place(t, filepath.Join(bin, "apt-get"), []byte(aptScript))
	os.Chmod(filepath.Join(bin, "apt-get"), 0o755)
	t.Setenv("PATH", bin+":"+os.Getenv("PATH"))
	t.Setenv("APT_LOG", filepath.Join(bin, "log"))
	t.Setenv("APT_DEB", filepath.Join(bin, "deb"))
	debian(t, files, filepath.Join(bin, "deb"))

	o := Options{Dir: t.TempDir()}
	for _, load := range []string{"first", "second"} {
		images, err := wanted.loadOr(t.Context(), o, stand)
		if err != nil {
			t.Fatalf("%s load: %v", load, err)
		}
		if got, want := images.Title(), "Tiny (in place of Wanted)"; got != want {
			t.Errorf("%s load: got title %q, want %q", load, got, want)
		}
		if images.Reason == "" || !strings.Contains(images.String(), "in place of Wanted") {
			t.Errorf("%s load: got %v with reason %v, want the stand-in named with its reason", load, images, images.Reason)
		}
	}
	log, err := os.ReadFile(filepath.Join(bin, "log"))
	if err != nil {
		t.Fatal(err)
	}
	if got, want := strings.Count(string(log), "\n"), 3; got != want {
		t.Errorf("apt-get ran %d times, want %d (download, update, download):\n%s", got, want, log)
	}
	if left, _ := filepath.Glob(filepath.Join(o.Dir, "tiny", "apt-*")); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}

	o.Exact = true
	if _, err := wanted.loadOr(t.Context(), o, stand); err == nil {
		t.Error("with Exact: got a stand-in, want an error")
	}
}

func TestNeitherTheSetNorItsStandIn(t *testing.T) {
	wanted, _ := tiny(t, "Wanted")
	stand, _ := tiny(t, "Tiny")
	_, err := wanted.loadOr(t.Context(), Options{Dir: t.TempDir(), Offline: true}, stand)
	if err == nil || !strings.Contains(err.Error(), "Wanted") || !strings.Contains(err.Error(), "no stand-in") {
		t.Errorf("got %v, want an error that names both", err)
	}
}
