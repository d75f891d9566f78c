package report

import (
	"context"
	"errors"
	"fmt"
	"image"
	"strings"
	"testing"
)

// TestInteract moves controls as a page does.
func TestInteract(t *testing.T) {
	calls := 0
	f := func(rate float64, steps int, kind string, on bool) (string, error) {
		calls++
		if kind == "bad" {
			return "", errors.New("no such kind")
		}
		if steps == 9 {
			panic("too many")
		}
		return fmt.Sprintf("%v %v %v %v", rate, steps, kind, on), nil
	}
	controls := []Control{Slider{Name: "rate", Max: 1, Value: 0.5}, Slider{Name: "<steps>", Min: 1, Max: 10, Value: 3}, Choice{Name: "kind", Options: []string{"a&b", "bad"}}, Switch{Name: "on", On: true}}
	for _, end := range []string{"done", "stop", "alone"} {
		t.Run(end, func(t *testing.T) {
			in, err := newInteraction(f, controls)
			if err != nil {
				t.Fatal(err)
			}
			ctx, stop := context.WithCancel(t.Context())
			defer stop()
			var shown, forms []string
			next := make(chan bool)
			in.show = func(form, ended string, result any, err error) {
				if form != "" {
					forms = append(forms, form)
				}
				if err != nil {
					result, _, _ = strings.Cut(err.Error(), "\n")
				}
				shown = append(shown, fmt.Sprint(result))
				next <- true
			}
			in.listen = func() func() { // before the page has something to move
				shown = append(shown, "listens")
				return func() { shown = append(shown, "ended") }
			}
			moves, alone := make(chan []string, 1), make(chan struct{}, 1)
			failed := make(chan error, 1)
			go func() { failed <- in.run(ctx, moves, alone) }()
			<-next
			for _, v := range [][]string{{"", "0.25", "3", "a&b", "true"}, {"", "0.25", "3", "bad", "true"}, {"", "0.25", "9", "a&b", "true"}, {"", "2", "3", "a&b", "true"}, {"", "0.25", "4", "a&b", "false"}} {
				moves <- v
				<-next
			}
			moves <- []string{"", "0.25"}                      // of another version
			moves <- []string{"", "0.25", "4", "a&b", "false"} // as it is
			switch end {
			case "done":
				moves <- []string{"done", "0.25", "4", "a&b", "false"}
			case "stop":
				stop()
			case "alone":
				alone <- struct{}{}
			}
			<-next
			if err := <-failed; err != nil {
				t.Fatal(err)
			}
			last := "0.25 4 a&b false"
			want := []string{"listens", "0.5 3 a&b true", "0.25 3 a&b true", "no such kind", "panic: too many", `report: Interact: rate: got "2", want a number from 0 to 1`, last, last, "ended"}
			if got := strings.Join(shown, "|"); got != strings.Join(want, "|") {
				t.Errorf("got %s, want %s", got, strings.Join(want, "|"))
			}
			for i, parts := range [][]string{
				{`role="group"`, `<label>rate <input data-control type="range" min="0" max="1" step="0.01" value="0.5"`, `&lt;steps&gt; <input data-control type="range" min="1" max="10" step="1" value="3"`, `<option value="a&amp;b" selected>`, `type="checkbox" checked>`, "Done</button>"},
				{"rate <b>0.25</b>", "<b>a&amp;b</b>", "<b>false</b>"},
			} {
				for _, part := range parts {
					if !strings.Contains(forms[i], part) {
						t.Errorf("form %d: got %s, want %s in it", i, forms[i], part)
					}
				}
			}
			if strings.Contains(forms[1], "<input") || strings.Contains(forms[1], "<script") || (end == "alone") != strings.Contains(forms[1], "JupyterLab") {
				t.Errorf("the last form is %s, want text alone", forms[1])
			}
		})
	}
}

func TestInteractRefuses(t *testing.T) {
	slider := Slider{Name: "x", Max: 1}
	one := func(float64) int { return 0 }
	tests := []struct {
		f        any
		controls []Control
		want     string
	}{
		{nil, nil, "got <nil>, want a function"},
		{3, []Control{slider}, "got int, want a function"},
		{one, nil, "0 controls, want a control for each parameter"},
		{one, []Control{slider, slider}, "2 controls"},
		{func(...float64) int { return 0 }, []Control{slider}, "want a control for each"},
		{func(float64) {}, []Control{slider}, "want one that returns what is to be shown"},
		{func(float64) (int, int) { return 0, 0 }, []Control{slider}, "want one that returns"},
		{one, []Control{nil}, "control 1 is nil"},
		{one, []Control{Slider{Max: 1}}, "control 1 has no Name"},
		{one, []Control{Choice{Name: "x", Options: []string{"a"}}}, "got a Choice for a parameter of type float64"},
		{one, []Control{Switch{Name: "x"}}, "got a Switch for a parameter of type float64"},
		{func(string) int { return 0 }, []Control{slider}, "got a Slider for a parameter of type string"},
		{one, []Control{Slider{Name: "x"}}, "got Min 0 and Max 0, want a range"},
		{one, []Control{Slider{Name: "x", Max: 1, Step: -1}}, "got Step -1"},
		{one, []Control{Slider{Name: "x", Max: 1, Value: 2}}, "got Value 2, want one from Min 0 to Max 1"},
		{func(int) int { return 0 }, []Control{Slider{Name: "x", Max: 1, Value: 0.5}}, "want integers"},
		{func(uint8) int { return 0 }, []Control{Slider{Name: "x", Min: 200, Max: 300, Value: 300}}, "300 does not fit into the parameter, a uint8"},
		{func(uint8) int { return 0 }, []Control{Slider{Name: "x", Min: -3, Max: 3, Value: -1}}, "does not fit"},
		{func(string) int { return 0 }, []Control{Choice{Name: "x"}}, "got no Options"},
		{func(string) int { return 0 }, []Control{Choice{Name: "x", Options: []string{"a"}, Value: "b"}}, `got "b", want one of ["a"]`},
		{func(float64) (int, error) { return 0, errors.New("its own") }, []Control{slider}, "its own"},
		{func(float64) int { panic("at first") }, []Control{slider}, "panic: at first"},
	}
	for _, tt := range tests {
		if err := Interact(tt.f, tt.controls...); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%T, %v: got %v, want %q", tt.f, tt.controls, err, tt.want)
		}
	}
	if got := resultForms(image.NewGray(image.Rect(0, 0, 2, 1)), nil)["image/png"]; !strings.HasPrefix(string(got.([]byte)), "\x89PNG") {
		t.Errorf("an image: got %q, want a PNG", got)
	}
}
