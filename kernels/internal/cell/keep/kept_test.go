package keep

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gaiden/kernels/internal/cell/gaidenkeep"
	"gaiden/kernels/internal/cell/parse"
)

// TestStopped: what a program that was stopped has not left is as it was before its
// cell, unless the cell itself has defined it; its file stays.
func TestStopped(t *testing.T) {
	const as = " as it was before cell 7: it could not be kept when the cell was stopped"
	tests := []struct {
		name, manifest string
		defines        bool   // the cell defines m
		short          bool   // the cell's statements define m with :=
		want           string // what m is
		note           string
	}{
		{name: "it died after what does not change", manifest: `"same" "x"`, want: "old", note: "m is" + as},
		{name: "it died before anything was kept", want: "old", note: "m, x are as they were before cell 7: they could not be kept when the cell was stopped"},
		{name: "changing", manifest: "\"same\" \"x\"\n\"changing\" \"m\" \"it was changing\"", want: "old", note: "m is" + as},
		{name: "a new value", manifest: "\"same\" \"x\"\n\"kept\" \"m\" \"FILE\" \"3\" \"3\"", want: "new"},
		{name: "it holds a channel by now", manifest: "\"same\" \"x\"\n\"lost\" \"m\" \"it holds a channel\" \"\"", want: "the value of m could not be kept after cell 7: it holds a channel"},
		{name: "defined again with :=", short: true, manifest: `"same" "x"`, want: "old", note: "m is" + as},
		{name: "defined in the cell", defines: true, manifest: `"same" "x"`, want: "the value of m could not be kept after cell 7: its cell was stopped before it was kept"},
		{name: "defined in the cell, and changing", defines: true, manifest: "\"same\" \"x\"\n\"changing\" \"m\" \"it was changing\"", want: "the value of m could not be kept after cell 7: it was changing"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			home := t.TempDir()
			dir := filepath.Join(home, "run-1")
			file := func(name, text string) string {
				os.MkdirAll(filepath.Dir(name), 0o700)
				if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
				return name
			}
			m := &Memory{}
			m.makeMaps()
			for _, name := range []string{"m", "x"} {
				v := &keptVar{name: name, typ: "int", group: &keptGroup{file: file(filepath.Join(home, "value-"+name), "old")}}
				v.group.vars = []*keptVar{v}
				m.kept[name] = v
			}
			u := &parse.Unit{}
			u.ID = 7
			if tt.defines {
				u.Decls = []*parse.Decl{{Kind: parse.Var, Names: []string{"m"}}}
			}
			atStart := []string{"m", "x"}
			if tt.short {
				u.Definitions, atStart = []parse.Definition{{Names: []string{"m"}}}, []string{"x"}
			}
			text := strings.ReplaceAll(tt.manifest, `" "`, "\"\t\"")
			text = strings.ReplaceAll(text, "FILE", file(filepath.Join(dir, "all0"), "new"))
			file(filepath.Join(dir, gaidenkeep.ManifestFile), text)
			k := &Carry{m, &Program{unit: u, tracked: tracked{"m": "int", "x": "int"}, atStart: atStart}, home, dir}
			_, notes := k.Collect(false)
			if got := strings.Join(notes, "\n"); got != tt.note {
				t.Errorf("got notes %q, want %q", got, tt.note)
			}
			got := m.barred("m", false)
			if v := m.kept["m"]; v != nil {
				b, err := os.ReadFile(v.group.file)
				if got += string(b); err != nil {
					t.Error(err)
				}
			}
			if !strings.HasPrefix(got, tt.want) {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}
