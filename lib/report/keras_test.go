package report

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"gaiden/lib/fit"
	"gaiden/lib/fit/result"
	"gaiden/lib/runs"
)

func TestLongKeras(t *testing.T) {
	h := &fit.History{Losses: make([]float32, 100)}
	for i := range 100 {
		h.Epochs = append(h.Epochs, fit.Epoch{Number: i + 1, Elapsed: time.Duration(i+1) * time.Second})
	}
	lines := strings.Split(Keras{History: h}.String(), "\n")
	if len(lines) != 41 || lines[20] != "… 80 epochs between them are in History.Epochs" || lines[21] != "Epoch 91/100" || !strings.Contains(lines[22], " 1.0s ") {
		t.Errorf("got %d lines, %q, want the first and the last ten epochs, each of 1 s", len(lines), lines[min(19, len(lines)):min(23, len(lines))])
	}
}

func TestKeras(t *testing.T) {
	score := func(loss float64, right int) fit.Score {
		return fit.Score{Loss: loss, Right: right, N: 10000, Labels: true}
	}
	first, second := score(2.2611, 2889), score(2.2046, 4885)
	tests := []struct {
		name  string
		keras Keras
		want  string
	}{
		{"nothing", Keras{}, "no epoch was finished"},
		{"the article", Keras{Epochs: 12, History: &fit.History{Losses: make([]float32, 938), Compile: time.Second, Epochs: []fit.Epoch{
			{Number: 1, Train: score(2.2889, 1426), Validation: &first, Elapsed: 5 * time.Second},
			{Number: 2, Train: score(2.2432, 2350), Validation: &second, Elapsed: 5500 * time.Millisecond},
		}}}, `Epoch 1/12
469/469 [==============================] - 4.0s 8.5ms/step - loss: 2.2889 - accuracy: 0.1426 - val_loss: 2.2611 - val_accuracy: 0.2889
Epoch 2/12
469/469 [==============================] - 500ms 1.1ms/step - loss: 2.2432 - accuracy: 0.2350 - val_loss: 2.2046 - val_accuracy: 0.4885`},
		{"no labels, stopped", Keras{History: &fit.History{Losses: make([]float32, 1), Stopped: "by <you>\n", Epochs: []fit.Epoch{{Number: 1, Train: fit.Score{Loss: 0.5}, Elapsed: 20 * time.Second}}}},
			"Epoch 1/1\n1/1 [==============================] - 20s 20s/step - loss: 0.5000\nstopped: by <you> "},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := tt.keras.String(); got != tt.want {
				t.Errorf("got\n%s\nwant\n%s", got, tt.want)
			}
			wellFormed(t, tt.keras.HTML())
		})
	}
}

// TestMetricsAreShown holds that metrics are in Keras' lines and in the plot of their name.
func TestMetricsAreShown(t *testing.T) {
	score := func(loss, f1 float64) fit.Score {
		return fit.Score{Loss: loss, Metrics: []result.Metric{{Name: "f1", Value: f1}}}
	}
	test := score(0.75, 0.5)
	h := &fit.History{Losses: make([]float32, 2), Epochs: []fit.Epoch{{Number: 1, Train: score(1, 0.25)}, {Number: 2, Train: score(0.5, 0.75), Validation: &test}}}
	if got := (Keras{History: h}).String(); !strings.HasSuffix(got, "loss: 0.5000 - f1: 0.7500 - val_loss: 0.7500 - val_f1: 0.5000") {
		t.Errorf("got\n%s", got)
	}
	p := Curve(h, "f1")
	want := Plot{Title: "f1", X: "epoch", Y: "f1", Series: []Series{{Name: "train", X: []float64{1, 2}, Y: []float64{0.25, 0.75}}, {Name: "test", X: []float64{2}, Y: []float64{0.5}}}}
	if !reflect.DeepEqual(p, want) {
		t.Errorf("got %+v, want %+v", p, want)
	}
	if got := Curve(nil, "f1"); len(got.Series) != 1 {
		t.Errorf("nothing: got %+v", got)
	}
}

// TestNamesOfCurves holds that the names of a history's results are those of a logged run, and that
// an unknown one is said, with the names that there are, in the place of an empty plot.
func TestNamesOfCurves(t *testing.T) {
	test := fit.Score{Loss: 0.75}
	h := &fit.History{Epochs: []fit.Epoch{{Number: 1, Train: fit.Score{Loss: 1, Labels: true, N: 2}, Validation: &test}}}
	validated := []Series{{Name: "test", X: []float64{1}, Y: []float64{0.75}}}
	if got := Curve(h, "validation/loss"); !reflect.DeepEqual(got.Series, validated) || got.Notes != nil {
		t.Errorf("of the validation: got %+v", got)
	}
	validated[0].Name = "first"
	if got := Curves("validation/loss", map[string]*fit.History{"first": h}); !reflect.DeepEqual(got.Series, validated) || got.Notes != nil {
		t.Errorf("several of the validation: got %+v", got)
	}
	const want = `no result "acuracy": want one of accuracy, loss, validation/loss`
	for _, p := range []Plot{Curve(h, "acuracy"), Curves("acuracy", map[string]*fit.History{"first": h})} {
		if text := p.String(); len(p.Series) > 0 || !strings.Contains(text, want) || strings.Contains(text, "not finite") || !strings.Contains(p.HTML(), escape(want)) {
			t.Errorf("an unknown name: got %s", text)
		}
	}
	logged := Runs{Runs: []*runs.Run{{Name: "first", Results: map[string]runs.Number{"f1": 1}}}, Curve: "f2"}
	if text := logged.String(); !strings.Contains(text, `no result "f2": want one of f1, loss`) {
		t.Errorf("an unknown name of a logged run: got %s", text)
	}
}
