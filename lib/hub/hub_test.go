package hub

import (
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"gaiden/lib/engine/device/devicetest"
	"gaiden/lib/fit"
	"gaiden/lib/session"
)

func TestMain(m *testing.M) {
	devicetest.Play(session.Version, nil)
	os.Exit(m.Run())
}

// value is what transformers makes of a model, as testdata/models.py wrote it.
type value struct {
	IDs, Mask, Types, Labels [][]int32
	Images, Logits           []float32
	Loss                     float64
	After                    map[string][]float32
	Tokens                   []struct {
		Text, Back string
		IDs, Bare  []int32
	}
}

func readValues(t *testing.T) (all map[string]value) {
	t.Helper()
	b, err := os.ReadFile("testdata/values.json")
	if err == nil {
		err = json.Unmarshal(b, &all)
	}
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func open(t *testing.T) *session.Session {
	t.Helper()
	s, err := session.Config{Socket: devicetest.Start(t), Space: "hub"}.Open()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// near holds numbers to those of transformers.
func near(t *testing.T, what string, got, want []float32, within float64) {
	t.Helper()
	largest, off := 0.0, 0.0
	for i := range min(len(got), len(want)) {
		largest, off = max(largest, math.Abs(float64(want[i]))), max(off, math.Abs(float64(got[i])-float64(want[i])))
	}
	if len(got) != len(want) || !(off <= within*max(1, largest)) {
		t.Errorf("%s: %d numbers, off by %g: want %d, of at most %g", what, len(got), off, len(want), largest)
	}
}

// load is a model's net with its weights.
func load(t *testing.T, s *session.Session, dir string, length int, config fit.Config) (*Model, *fit.Net) {
	t.Helper()
	m, err := Open(filepath.Join("testdata", dir))
	if err != nil {
		t.Fatal(err)
	}
	n, err := fit.Attach(s, dir, m.Net(length), config)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := n.LoadWeights(m.Dir, m.Weights); err != nil {
		t.Fatal(err)
	}
	return m, n
}

// TestLogits holds each kind of model to transformers' logits.
func TestLogits(t *testing.T) {
	s := open(t)
	for name, want := range readValues(t) {
		if name == "lora" {
			continue
		}
		t.Run(name, func(t *testing.T) {
			var x any = want.Images
			length := 0
			if want.IDs != nil {
				x, length = want.IDs, len(want.IDs[0])
			}
			if want.Mask != nil {
				in := fit.Inputs{"ids": want.IDs, "mask": want.Mask}
				if want.Types != nil {
					in["types"] = want.Types
				}
				x = in
			}
			_, n := load(t, s, name, length, fit.Config{})
			p, err := n.Predict(x)
			if err != nil {
				t.Fatal(err)
			}
			got, logits := p.Output, want.Logits
			if want.Mask != nil && len(got) > 200 { // of padding nothing is wanted
				width := len(got) / len(want.IDs) / length
				for i, there := range slices.Concat(want.Mask...) {
					if there == 0 {
						clear(got[i*width : (i+1)*width])
						clear(logits[i*width : (i+1)*width])
					}
				}
			}
			near(t, "logits", got, logits, 1e-4)
		})
	}
}

// TestTokens holds tokenizers to those of Hugging Face.
func TestTokens(t *testing.T) {
	for name, want := range readValues(t) {
		if want.Tokens == nil {
			continue
		}
		m, err := Open(filepath.Join("testdata", name))
		if err != nil {
			t.Fatal(err)
		}
		for _, tt := range want.Tokens {
			got, err := m.Tokenizer.Encode(tt.Text)
			if err != nil || !slices.Equal(got, tt.IDs) {
				t.Errorf("%s: %q is %v, %v, want %v", name, tt.Text, got, err, tt.IDs)
			}
			if back := m.Tokenizer.Decode(tt.IDs); strings.TrimSpace(back) != strings.TrimSpace(tt.Back) {
				t.Errorf("%s: %q comes back as %q, want %q", name, tt.Text, back, tt.Back)
			}
		}
	}
}
