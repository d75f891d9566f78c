package parse

import (
	"strings"
	"testing"
)

func TestParameters(t *testing.T) {
	const cell = `// the defaults
rate := 0.1
name, epochs := "mnist", -3
layers := []int{784, 10}
var warm = 0.5
var half float32 = 1
var title string = other
var pair, _ = 1, 2
const seed = 42
const kind = "a" // text
x = 3
func f() { inside := 1; _ = inside }
a, b := f()
`
	all, err := Parameters(Source{Text: cell})
	if err != nil {
		t.Fatal(err)
	}
	by := map[string]Parameter{}
	for _, p := range all {
		by[p.Name] = p
	}
	tests := []struct{ name, value, want string }{
		{"rate", "1", "rate = 1"},
		{"rate", "abc def", ""},
		{"rate", "", ""},
		{"name", `say "ä"` + "\n", `name = "say \"ä\"\n"`},
		{"name", "7", `name = "7"`},
		{"epochs", "5", "epochs = 5"},
		{"layers", "[]int{1}", "layers = []int{1}"},
		{"warm", "1", "var warm float64 = 1"},
		{"half", "0.25", "var half float32 = 0.25"},
		{"title", "a b", `var title string = "a b"`},
		{"pair", "3", "var pair int = 3"},
		{"seed", "7", "const seed = 7"},
		{"kind", "b", `const kind = "b"`},
	}
	for _, tt := range tests {
		got, err := by[tt.name].Set(tt.value)
		if got != tt.want || (err != nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), "parameter "+tt.name) {
			t.Errorf("%s=%s: got %q, %v, want %q", tt.name, tt.value, got, err, tt.want)
		}
	}
	if len(by) != 10 {
		t.Errorf("got parameters %v, want the ten with values of their own", all)
	}
	if _, err := Parameters(Source{Text: "x := ("}); err == nil {
		t.Error("a syntax error: got none")
	}
}
