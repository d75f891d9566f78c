package export

import (
	"io/fs"
	"os"
	"strings"
	"testing"
)

// TestVersions holds an exported module to the versions of Gaiden's own.
func TestVersions(t *testing.T) {
	for file, ours := range map[string]string{"go.mod.txt": "../../go.mod", "go.sum.txt": "../../go.sum"} {
		own, err := os.ReadFile(ours)
		if err != nil {
			t.Fatal(err)
		}
		text := Net{}.fill(file, nil)
		for _, line := range strings.Split(text, "\n") {
			line, _, _ = strings.Cut(strings.TrimPrefix(strings.TrimSpace(line), "require "), " // ")
			if strings.Contains(line, " v") && !strings.Contains(string(own), line) {
				t.Errorf("%s has %q, which is not in %s: run go mod tidy in an exported module and copy the result", file, line, ours)
			}
		}
	}
}

// TestTemplate holds that gaiden install copies the module's files, as it leaves out tests.
func TestTemplate(t *testing.T) {
	err := fs.WalkDir(template, ".", func(path string, d fs.DirEntry, err error) error {
		if strings.HasSuffix(path, "_test.go") || d.Name() == "testdata" {
			t.Errorf("%s is not copied for cells: want another name, such as %s.txt", path, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestIdentifiers(t *testing.T) {
	for name, want := range map[string]string{"cnn": "cnn", "My-Net.2": "mynet2", "3d": "net3d", "ñ": "net", "type": "type"} {
		if got := identifier(name); got != want {
			t.Errorf("%s: got %s, want %s", name, got, want)
		}
	}
}
