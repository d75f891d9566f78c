package build

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestGoMod(t *testing.T) {
	dir := t.TempDir()
	text := `module cell // comment
go 1.26.5
require example.com/one v1.0.0
require (
	example.com/two v2.0.0+incompatible // indirect
	"example.com/three" v0.1.0 // why not
)
replace example.com/three v0.1.0 => ../three
replace (
	example.com/four => "/abs/four"
)
exclude example.com/two v1.0.0
`
	if err := os.WriteFile(filepath.Join(dir, "go.mod"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	m, err := readGoMod(filepath.Join(dir, "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	if got, want := strings.Join(m.direct, " "), "example.com/one example.com/three"; got != want {
		t.Errorf("got direct %s, want %s", got, want)
	}
	if got, want := len(m.required), 3; got != want {
		t.Errorf("got %d required, want %d", got, want)
	}
	want := []replacement{{"example.com/three", filepath.Join(filepath.Dir(dir), "three")}, {"example.com/four", "/abs/four"}}
	if len(m.replaced) != 2 || m.replaced[0] != want[0] || m.replaced[1] != want[1] {
		t.Errorf("got replaced %v, want %v", m.replaced, want)
	}
	if m.goVersion != "1.26.5" {
		t.Errorf("got go %q, want 1.26.5", m.goVersion)
	}
}
