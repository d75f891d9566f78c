package datasets

import (
	"archive/tar"
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// debian packs files as a Debian package does.
func debian(t *testing.T, files map[string][]byte, member string) []byte {
	t.Helper()
	var data bytes.Buffer
	w := tar.NewWriter(&data)
	w.WriteHeader(&tar.Header{Name: "./usr/share/datasets/", Typeflag: tar.TypeDir, Mode: 0o755})
	for name, contents := range files {
		w.WriteHeader(&tar.Header{Name: "./usr/share/datasets/" + name, Size: int64(len(contents)), Mode: 0o644, Typeflag: tar.TypeReg})
		w.Write(contents)
	}
	w.Close()
	packed := data.Bytes()
	if command := map[string]string{"data.tar.xz": "xz", "data.tar.gz": "gzip"}[member]; command != "" {
		if _, err := exec.LookPath(command); err != nil {
			t.Skipf("needs the command %s, to see packages of this kind unpacked: apt-get install gzip xz-utils", command)
		}
		cmd := exec.Command(command, "-c")
		cmd.Stdin = &data
		out, err := cmd.Output()
		if err != nil {
			t.Fatal(err)
		}
		packed = out
	}
	deb := bytes.NewBufferString("!<arch>\n")
	for _, m := range []struct {
		name string
		data []byte
	}{{"debian-binary", []byte("2.0\n")}, {"control.tar.gz", []byte("odd")}, {member, packed}} {
		fmt.Fprintf(deb, "%-16s%-12d%-6d%-6d%-8o%-10d`\n", m.name, 0, 0, 0, 0o100644, len(m.data))
		deb.Write(m.data)
		if len(m.data)%2 == 1 {
			deb.WriteByte('\n')
		}
	}
	return deb.Bytes()
}

func TestPackagePlacedByHand(t *testing.T) {
	c, files := tiny(t, "Tiny")
	c.debian = "dataset-tiny"
	less := map[string][]byte{c.files[0].name + ".gz": files[c.files[0].name+".gz"]}
	whole := debian(t, files, "data.tar")
	tests := []struct {
		name string
		deb  []byte
		says string // empty: it works
	}{
		{"plain tar", whole, ""},
		{"gzip", debian(t, files, "data.tar.gz"), ""},
		{"xz", debian(t, files, "data.tar.xz"), ""},
		{"unknown packing", debian(t, files, "data.tar.lzo"), "not known here"},
		{"a file is missing", debian(t, less, "data.tar"), "lacks"},
		{"no package", []byte("PK\x03\x04"), "not a Debian package"},
		{"empty", nil, "not a Debian package"},
		{"no data", whole[:100], "deb:"},
		{"cut", whole[:len(whole)/2], "EOF"},
		{"damaged header", bytes.Replace(whole, []byte("`\n"), []byte("xx"), 1), "damaged"},
		{"negative size", bytes.Replace(whole, []byte("4         `"), []byte("-4        `"), 1), "damaged"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			o := Options{Dir: t.TempDir(), Offline: true}
			place(t, filepath.Join(o.Dir, "tiny", "dataset-tiny_1.0_all.deb"), tt.deb)
			images, err := c.load(t.Context(), o)
			switch {
			case tt.says == "" && err != nil:
				t.Error(err)
			case tt.says == "" && !strings.Contains(images.Source, "dataset-tiny_1.0"):
				t.Errorf("source: got %q, want the package", images.Source)
			case tt.says != "" && (err == nil || !strings.Contains(err.Error(), tt.says)):
				t.Errorf("got %v, want an error with %q", err, tt.says)
			}
		})
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
	place(t, filepath.Join(bin, "deb"), debian(t, files, "data.tar"))

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
