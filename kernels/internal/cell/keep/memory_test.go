package keep

import (
	"fmt"
	"strings"
	"testing"

	"gaiden/kernels/internal/cell/parse"
)

// FuzzWrite: what Parse lets pass can be written as a program.
func FuzzWrite(f *testing.F) {
	for _, text := range []string{"x := 1\nx", "func f() {}", "var a, b = 1, 2", "const (a = iota; b)", "package p;import \"C\"", "type T struct{}\nfunc (T) m() {}", "//line x:1\nvar y int"} {
		f.Add(text, 0)
		f.Add(text, 1)
	}
	f.Fuzz(func(t *testing.T, text string, main int) {
		u, err := parse.Parse(parse.Source{ID: 1, Text: text, Main: max(main, 0)})
		if err != nil {
			return
		}
		w := writer{unit: u, decls: u.Decls, imports: u.Imports}
		w.text()
	})
}

func TestMemory(t *testing.T) {
	var m Memory
	feed := func(id int, text string) {
		u, err := parse.Parse(parse.Source{ID: id, Text: text})
		if err != nil {
			t.Fatal(err)
		}
		m.remember(&Program{unit: u}, guessName)
	}
	feed(1, "import \"math/rand/v2\"\nimport _ \"embed\"\nvar a, b = f()\nfunc f() (int, int) { return g(), 2 }\nfunc g() int { return 1 }\nfunc lonely() {}")
	feed(2, "type T struct{}\nfunc (T) M() int { return h() }\nfunc h() int { return 3 }\nvar _ = g()")
	needs := func(text string) string {
		u, err := parse.Parse(parse.Source{ID: 9, Text: text})
		if err != nil {
			t.Fatal(err)
		}
		decls, _, _ := m.reach(u)
		var names []string
		for _, d := range decls {
			names = append(names, strings.Join(d.Names, ","))
		}
		return strings.Join(names, " ")
	}
	tests := []struct{ text, want string }{
		{"1", ""}, // var _ = g() has been run
		{"a", "a,b f g"},
		{"lonely()", "lonely"},
		{"T{}", "T T.M h"},
		{"x.lonely()", ""},
		{"func g() int { return 7 }\nb", "a,b f g"},
		{"var b = 1\na + b", "a,_ f g b"},
		{"func T() {}\nT()", "T"},
		{"func main() {}", "g _"}, // a program of its own
	}
	for _, tt := range tests {
		if got := needs(tt.text); got != tt.want {
			t.Errorf("%q: needs %q, want %q", tt.text, got, tt.want)
		}
	}
	for _, name := range []string{"lonely", "T~M", "a", "rand", "embed"} {
		if _, ok := m.Forget(name); !ok {
			t.Errorf("Forget(%q) found nothing", name)
		}
	}
	if _, ok := m.Forget("nobody"); ok {
		t.Error("Forget(nobody) found something")
	}
	var list []string
	for _, e := range m.Entries() {
		list = append(list, fmt.Sprint(e.Kind, " ", e.Name))
	}
	if got, want := strings.Join(list, "; "), "type T; var _; var b; func f; func g; func h"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}
