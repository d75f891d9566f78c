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
	"gaiden/lib/engine/safetensors"
	"gaiden/lib/fit"
	"gaiden/lib/optim"
	"gaiden/lib/session"
)

func TestMain(m *testing.M) {
	devicetest.Play(session.Version, nil)
	os.Exit(m.Run())
}

// value is what transformers makes of a model, as testdata/models.py wrote it.
type value struct {
	IDs, Mask, Types, Labels [][]int32
	Greedy                   [][]int32
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

// TestGreedy holds what models generate, with a cache, to what transformers' generate without.
func TestGreedy(t *testing.T) {
	s := open(t)
	for name, want := range readValues(t) {
		switch name {
		case "gpt2", "mistral", "gemma3": // positions, a window, two kinds of layers
		default:
			continue
		}
		_, n := load(t, s, name, 24, fit.Config{FirstLook: true})
		g, err := n.Generate([][]int32{want.IDs[0][:4], want.IDs[1][:4]}, fit.Sampling{Length: 12})
		if err != nil {
			t.Fatal(err)
		}
		for i, want := range want.Greedy {
			if got := g.Sequences[i].Tokens; !slices.Equal(got, want) {
				t.Errorf("%s: got %v, want %v", name, got, want)
			}
		}
	}
}

// TestFineTune holds a step of gradient descent to PyTorch's, by what SaveWeights writes.
func TestFineTune(t *testing.T) {
	want := readValues(t)["gpt2"]
	m, n := load(t, open(t), "gpt2", len(want.IDs[0]), fit.Config{Optimizer: optim.SGD{LearningRate: 0.1}, FirstLook: true})
	train, err := n.Upload("x", fit.Data{X: want.IDs, Y: slices.Concat(want.Labels...)})
	if err != nil {
		t.Fatal(err)
	}
	h, err := n.Fit(train, fit.Train{Steps: 1, Batch: len(want.IDs), InOrder: true})
	if err != nil {
		t.Fatal(err)
	}
	near(t, "loss", h.Losses, []float32{float32(want.Loss)}, 1e-5)
	path := filepath.Join(t.TempDir(), "model.safetensors")
	if err := n.SaveWeights(path, m.Weights); err != nil {
		t.Fatal(err)
	}
	c, err := safetensors.OpenCheckpoint(path)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	found := 0
	for i, a := range c.Tensors {
		if after, is := want.After[a.Name]; is {
			found++
			got, err := c.Floats(i)
			if err != nil {
				t.Fatal(err)
			}
			near(t, a.Name, got, after, 1e-5)
		}
	}
	if first, err := safetensors.OpenCheckpoint(m.Dir); err != nil || found != len(want.After) || len(c.Tensors) != len(first.Tensors) {
		t.Errorf("wrote %d arrays with %d of those that were compared: want %d, %v", len(c.Tensors), found, len(want.After), err)
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

// TestRefuses holds what is said of folders that are not understood.
func TestRefuses(t *testing.T) {
	const gpt2 = `"model_type":"gpt2","vocab_size":9,"n_positions":8,"n_embd":4,"n_layer":1,"n_head":2`
	const llama = `"model_type":"llama","vocab_size":9,"hidden_size":4,"intermediate_size":4,"num_hidden_layers":1,"num_attention_heads":2,"max_position_embeddings":8`
	const bert = `"model_type":"bert","vocab_size":9,"hidden_size":4,"intermediate_size":4,"num_hidden_layers":1,"num_attention_heads":2,"max_position_embeddings":8`
	token := func(s string) string { return `{"model":{"type":"BPE","vocab":{"a":0,"b":1},"merges":[]}` + s + `}` }
	for _, tt := range []struct{ name, config, file, text, want string }{
		{"no config", "", "", "", "config.json: no such file"},
		{"no JSON", `{`, "", "", "config.json: unexpected end"},
		{"another kind", `{"model_type":"t5"}`, "", "", `model_type "t5": want one of bert, camembert, distilbert, gemma, gemma2, gemma3_text, gpt2, llama`},
		{"quantized", `{` + gpt2 + `,"quantization_config":{}}`, "", "", "quantization_config: want the model with its own weights"},
		{"a size too few", `{"model_type":"gpt2","vocab_size":9}`, "", "", "n_embd is <nil>: want 1 or more"},
		{"a size that is a text", `{` + strings.Replace(gpt2, `"n_layer":1`, `"n_layer":"1"`, 1) + `}`, "", "", "n_layer is 1: want a number"},
		{"an activation", `{` + gpt2 + `,"activation_function":"mish"}`, "", "", `activation_function is "mish": want one of gelu`},
		{"positions", `{` + llama + `,"rope_scaling":{"rope_type":"new"}}`, "", "", `rope_type "new": want linear, dynamic`},
		{"positions without a factor", `{` + llama + `,"rope_scaling":{"type":"linear"}}`, "", "", "factor of 0: want 1 or more"},
		{"long positions", `{` + llama + `,"rope_scaling":{"type":"longrope","short_factor":[1,2,3]}}`, "", "", "3 numbers in short_factor: want 1"},
		{"layers of another type", `{` + strings.Replace(llama, "llama", "qwen2", 1) + `,"layer_types":["linear_attention"]}`, "", "", "layer_types has linear_attention"},
		{"a head", `{` + bert + `,"architectures":["BertForQuestionAnswering"]}`, "", "", "architectures has BertForQuestionAnswering"},
		{"relative positions", `{` + bert + `,"position_embedding_type":"relative_key"}`, "", "", `"relative_key": want absolute`},
		{"a pickle", `{` + gpt2 + `}`, "pytorch_model.bin", "", "pytorch_model.bin, of PyTorch's own format"},
		{"damaged weights", `{` + gpt2 + `}`, "model.safetensors", "x", "model.safetensors"},
		{"unigrams", `{` + gpt2 + `}`, "tokenizer.json", `{"model":{"type":"Unigram","vocab":[]}}`, "model has no vocab: want tokens and their scores"},
		{"scores that are no list", `{` + gpt2 + `}`, "tokenizer.json", `{"model":{"type":"Unigram","vocab":{"a":1}}}`, "vocab of the model: json: cannot unmarshal object"},
		{"another model", `{` + gpt2 + `}`, "tokenizer.json", `{"model":{"type":"WordLevel","vocab":{"a":0}}}`, `model is "WordLevel": want BPE, Unigram or WordPiece`},
		{"no vocabulary", `{` + gpt2 + `}`, "tokenizer.json", `{"model":{"type":"BPE"}}`, "model has no vocab"},
		{"a merge of no token", `{` + gpt2 + `}`, "tokenizer.json", `{"model":{"type":"BPE","vocab":{"a":0,"b":1},"merges":["a b"]}}`, `merge 0 is of "a" and "b"`},
		{"a normalizer", `{` + gpt2 + `}`, "tokenizer.json", token(`,"normalizer":{"type":"Precompiled"}`), "normalizer: precompiled_charsmap: want a trie and texts"},
		{"another normalizer", `{` + gpt2 + `}`, "tokenizer.json", token(`,"normalizer":{"type":"Spin"}`), "normalizer: got a Spin"},
		{"an expression", `{` + gpt2 + `}`, "tokenizer.json", token(`,"pre_tokenizer":{"type":"Split","pattern":{"Regex":"("},"behavior":"Isolated"}`), `pattern "("`},
		{"a decoder", `{` + gpt2 + `}`, "tokenizer.json", token(`,"decoder":{"type":"CTC"}`), "decoder: got a CTC"},
		{"an id", `{` + gpt2 + `}`, "tokenizer.json", token(`,"added_tokens":[{"id":-1,"content":"x"}]`), `token "x" has the id -1`},
		{"nothing wrong", `{` + gpt2 + `}`, "tokenizer.json", token(""), ""},
	} {
		dir := t.TempDir()
		for name, text := range map[string]string{"config.json": tt.config, tt.file: tt.text} {
			if name != "" && (text != "" || name == tt.file) {
				if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
		}
		if _, err := Open(dir); (err != nil) != (tt.want != "") || err != nil && !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: got %v, want %q", tt.name, err, tt.want)
		}
	}
	var none *Tokenizer
	m := &Tokenizer{model: &bpe{ids: map[string]int32{"a": 0}, unknown: -1}}
	_, err1 := none.Encode("a")
	_, err2 := m.Encode("ab")
	_, _, err3 := m.Batch(2, "a", "aaa")
	for i, want := range []string{"no tokenizer.json", `the vocabulary has no "b"`, `text 1, "aaa", has 3 tokens: want at most 2`} {
		if err := []error{err1, err2, err3}[i]; err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}
