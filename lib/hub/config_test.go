package hub

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gaiden/lib/fit"
)

// changed is a copy of a model's folder with other fields in its config.json; null takes one away.
func changed(t *testing.T, name, fields string) (dir string) {
	t.Helper()
	dir = t.TempDir()
	files, err := filepath.Glob(filepath.Join("testdata", name, "*.safetensors*"))
	if err != nil || len(files) == 0 {
		t.Fatal(name, "has no weights", err)
	}
	for _, f := range files {
		if f, err = filepath.Abs(f); err == nil {
			err = os.Symlink(f, filepath.Join(dir, filepath.Base(f)))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	b, err := os.ReadFile(filepath.Join("testdata", name, "config.json"))
	if err != nil {
		t.Fatal(err)
	}
	var c, with map[string]any
	if err := json.Unmarshal(b, &c); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal([]byte(fields), &with); err != nil {
		t.Fatal(err)
	}
	maps.Copy(c, with)
	for k, v := range with {
		if v == nil {
			delete(c, k)
		}
	}
	if b, err = json.Marshal(c); err == nil {
		err = os.WriteFile(filepath.Join(dir, "config.json"), b, 0o666)
	}
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// TestConfigFields holds what fields of a config.json mean to what they mean in transformers: those
// of other kinds nothing, one that is not there its default, and in files of transformers 5
// rope_parameters what rope_scaling meant.
func TestConfigFields(t *testing.T) {
	s := open(t)
	values := readValues(t)
	others := `"final_logit_softcapping": 2, "attn_logit_softcapping": 1, "query_pre_attn_scalar": 3, "rope_local_base_freq": 100`
	for _, tt := range []struct{ name, fields string }{
		{"llama", `{` + others + `, "sliding_window": 2, "layer_types": ["sliding_attention", "full_attention"]}`},
		{"qwen2", `{` + others + `, "attention_bias": true, "mlp_bias": true}`},
		{"mistral", `{` + others + `, "attention_bias": true, "layer_types": ["full_attention", "full_attention"]}`},
		{"gemma", `{` + others + `, "hidden_activation": "relu"}`},
		{"gemma", `{"tie_word_embeddings": null}`},
		{"gemma3", `{"attn_logit_softcapping": 1, "hidden_act": "relu"}`},
		{"roberta", `{"model_type": "xlm-roberta"}`},
		{"roberta", `{"model_type": "camembert"}`},
		{"distilbert", `{"hidden_act": "relu", "layer_norm_eps": 0.1}`},
		{"llama", `{"rope_theta": null, "rope_scaling": null, "rope_parameters": {"rope_theta": 500, "rope_type": "llama3", "factor": 4, "low_freq_factor": 1, "high_freq_factor": 4, "original_max_position_embeddings": 16}}`},
		{"gemma3", `{"rope_theta": null, "rope_scaling": null, "rope_local_base_freq": null, "rope_parameters": {"full_attention": {"rope_theta": 1000, "rope_type": "linear", "factor": 8}, "sliding_attention": {"rope_theta": 100, "rope_type": "default"}}}`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			want := values[tt.name]
			m, err := Open(changed(t, tt.name, tt.fields))
			if err != nil {
				t.Fatal(err)
			}
			n, err := fit.Attach(s, strings.ReplaceAll(t.Name()[len("TestConfigFields/"):], "#", "-"), m.Net(len(want.IDs[0])), fit.Config{FirstLook: true})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := n.LoadWeights(m.Dir, m.Weights); err != nil {
				t.Fatal(err)
			}
			var x any = want.IDs
			if want.Mask != nil {
				x = fit.Inputs{"ids": want.IDs, "mask": want.Mask}
			}
			p, err := n.Predict(x)
			if err != nil {
				t.Fatal(err)
			}
			near(t, tt.fields, p.Output, want.Logits, 1e-4)
		})
	}
}

// TestConfigRefuses holds that what would give other logits than transformers' is an error that
// names the field.
func TestConfigRefuses(t *testing.T) {
	for _, tt := range []struct{ name, fields, want string }{
		{"llama", `{"partial_rotary_factor": 0.75}`, "partial_rotary_factor is 0.75, 4 of 6 dimensions"},
		{"phi3", `{"partial_rotary_factor": 0.75}`, "partial_rotary_factor is 0.75, 3 of 4 dimensions"},
		{"llama", `{"rope_parameters": {"rope_theta": 3}}`, "rope_parameters is next to rope_theta or rope_scaling"},
		{"qwen2", `{"layer_types": ["full_attention"]}`, "layer_types has 1 layers, and num_hidden_layers is 2"},
		{"qwen3", `{"layer_types": ["full_attention", "linear_attention"]}`, "layer_types has linear_attention"},
		{"llama", `{"rope_scaling": {"rope_type": "own"}}`, `rope_type "own"`},
		{"llama", `{"hidden_act": "quick_gelu"}`, `hidden_act is "quick_gelu"`},
		{"gemma3", `{"use_bidirectional_attention": true}`, "use_bidirectional_attention is true"},
		{"bert-masked", `{"tie_word_embeddings": false}`, "tie_word_embeddings is false"},
		{"bert", `{"is_decoder": true}`, "is_decoder is true"},
		{"bert", `{"position_embedding_type": "relative_key"}`, `position_embedding_type is "relative_key"`},
		{"llama", `{"architectures": ["LlamaModel"]}`, "architectures has LlamaModel: want llama's ForCausalLM"},
		{"gpt2", `{"architectures": ["GPT2ForSequenceClassification"]}`, "architectures has GPT2ForSequenceClassification"},
		{"vit", `{"qkv_bias": false}`, "qkv_bias is false"},
		{"gpt2", `{"model_type": "t5"}`, `model_type "t5"`},
	} {
		if _, err := Open(changed(t, tt.name, tt.fields)); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s with %s: got %v, want %q", tt.name, tt.fields, err, tt.want)
		}
	}
}
