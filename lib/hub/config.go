package hub

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"

	"gaiden/lib/models"
	"gaiden/lib/weights"
)

// absent are the values that transformers takes for fields that a file lacks, where they are not the
// same for all kinds.
var absent = map[string]map[string]any{
	"mistral":     {"num_key_value_heads": 8.0, "sliding_window": 4096.0},
	"qwen2":       {"num_key_value_heads": 32.0, "sliding_window": 4096.0, "max_window_layers": 28.0},
	"qwen3":       {"num_key_value_heads": 32.0, "sliding_window": 4096.0, "max_window_layers": 28.0, "head_dim": 128.0},
	"phi3":        {"rms_norm_eps": 1e-5},
	"gemma":       {"num_key_value_heads": 16.0, "head_dim": 256.0},
	"gemma2":      {"num_key_value_heads": 4.0, "head_dim": 256.0, "sliding_window": 4096.0, "query_pre_attn_scalar": 256.0, "attn_logit_softcapping": 50.0, "final_logit_softcapping": 30.0},
	"gemma3_text": {"num_key_value_heads": 4.0, "head_dim": 256.0, "sliding_window": 4096.0, "query_pre_attn_scalar": 256.0, "rope_local_base_freq": 10000.0},
	"roberta":     {"pad_token_id": 1.0},
}

// same are kinds that differ from another one in their tokenizers only.
var same = map[string]string{"xlm-roberta": "roberta", "camembert": "roberta"}

// only are fields that some kinds have. Transformers does not look at them in files of others.
var only = map[string]string{
	"attention_bias": "llama qwen3 gemma gemma2 gemma3_text", "mlp_bias": "llama",
	"attn_logit_softcapping": "gemma2", "final_logit_softcapping": "gemma2 gemma3_text", "query_pre_attn_scalar": "gemma2 gemma3_text",
	"sliding_window": "mistral qwen2 qwen3 phi3 gemma2 gemma3_text", "layer_types": "qwen2 qwen3 gemma2 gemma3_text", "rope_local_base_freq": "gemma3_text",
	"hidden_act": "llama mistral qwen2 qwen3 phi3 gemma bert roberta vit", "layer_norm_eps": "bert roberta vit", "position_embedding_type": "bert roberta",
}

// config is a config.json. The first thing that is wrong in it stays in err.
type config struct {
	kind   string
	keys   map[string]any
	arrays []string // names in the weights
	ignore []string // of those, that may be surplus
	body   string   // what stands before the names of a model's body
	err    error
}

func readConfig(path string) (*config, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	c := &config{}
	if err := json.Unmarshal(b, &c.keys); err != nil {
		return nil, fmt.Errorf("config.json: %w", err)
	}
	c.kind = c.text("model_type")
	if other, is := same[c.kind]; is {
		c.kind = other
	}
	for key, value := range absent[c.kind] {
		if _, is := c.keys[key]; !is {
			c.keys[key] = value
		}
	}
	for key, kinds := range only {
		if !slices.Contains(strings.Fields(kinds), c.kind) {
			delete(c.keys, key)
		}
	}
	for _, key := range []string{"quantization_config", "compression_config"} {
		if _, is := c.keys[key]; is {
			return nil, fmt.Errorf("config.json has a %s: want the model with its own weights, which are not quantized", key)
		}
	}
	return c, nil
}

func (c *config) fail(format string, args ...any) {
	if c.err == nil {
		c.err = fmt.Errorf(format, args...)
	}
}

// value is the first of some keys that is there and not null.
func (c *config) value(keys ...string) any {
	for _, k := range keys {
		if v := c.keys[k]; v != nil {
			return v
		}
	}
	return nil
}

// float is a number; 0: it is not there.
func (c *config) float(keys ...string) float64 {
	switch v := c.value(keys...).(type) {
	case nil:
		return 0
	case float64:
		return v
	default:
		c.fail("%s is %v: want a number", keys[0], v)
		return 0
	}
}

func (c *config) int(keys ...string) int {
	x := c.float(keys...)
	if x != math.Trunc(x) || x < 0 || x > math.MaxInt32 {
		c.fail("%s is %g: want a whole number", keys[0], x)
		return 0
	}
	return int(x)
}

// size is a number that must be there.
func (c *config) size(keys ...string) int {
	n := c.int(keys...)
	if n < 1 {
		c.fail("%s is %v: want 1 or more", strings.Join(keys, " or "), c.value(keys...))
		return 1
	}
	return n
}

func (c *config) bool(key string, otherwise bool) bool {
	switch v := c.value(key).(type) {
	case bool:
		return v
	case nil:
	default:
		c.fail("%s is %v: want true or false", key, v)
	}
	return otherwise
}

func (c *config) text(keys ...string) string {
	s, _ := c.value(keys...).(string)
	return s
}

// act is an activation by its name in transformers.
func (c *config) act(otherwise string, keys ...string) models.Act {
	name := cmp.Or(c.text(keys...), otherwise)
	acts := map[string]models.Act{"gelu": models.GELU, "gelu_new": models.GELUTanh, "gelu_pytorch_tanh": models.GELUTanh, "gelu_fast": models.GELUTanh,
		"relu": models.ReLU, "silu": models.SiLU, "swish": models.SiLU}
	if acts[name] == nil {
		c.fail("%s is %q: want one of gelu, gelu_new, gelu_pytorch_tanh, relu, silu", keys[0], name)
	}
	return acts[name]
}

// has says whether the weights have an array.
func (c *config) has(array string) bool { return slices.Contains(c.arrays, array) }

// architecture is the class that wrote the model, such as BertModel.
func (c *config) architecture() string {
	if l, _ := c.value("architectures").([]any); len(l) > 0 {
		s, _ := l[0].(string)
		return s
	}
	return ""
}

// causal refuses a model that was written with another head than that for the next token, which a tied
// one has without weights of its own.
func (c *config) causal(tied bool) {
	name := c.architecture()
	if name != "" && !strings.HasSuffix(name, "ForCausalLM") && !strings.HasSuffix(name, "LMHeadModel") && !(tied && strings.HasSuffix(name, "Model")) {
		c.fail("architectures has %s: want %s's ForCausalLM", name, c.kind)
	}
}

// prefix is what stands before the names of a model's body: nothing where only the body was
// saved.
func (c *config) prefix(name string) string {
	c.body = name
	if c.arrays == nil || slices.ContainsFunc(c.arrays, func(a string) bool { return strings.HasPrefix(a, name) }) {
		return name
	}
	return ""
}

// tied says whether the head's weights are those of the embedding.
func (c *config) tied() bool {
	always := c.kind == "gpt2" || strings.HasPrefix(c.kind, "gemma")
	tied := c.bool("tie_word_embeddings", always || c.arrays != nil && !c.has("lm_head.weight"))
	if tied {
		c.ignore = append(c.ignore, "lm_head.weight")
	}
	return tied
}

// classes are the labels of a head.
func (c *config) classes() int {
	if l, is := c.value("id2label").(map[string]any); is && len(l) > 0 {
		return len(l)
	}
	if n := c.int("num_labels"); n > 0 {
		return n
	}
	return 2 // transformers' default
}

// denseNames are those of a Dense, and normNames those of a norm.
func denseNames(variable, array string) []weights.Name {
	return []weights.Name{{Variable: variable + "/weights", Array: array + ".weight", Order: []int{1, 0}}, {Variable: variable + "/biases", Array: array + ".bias"}}
}

func normNames(variable, array string) []weights.Name {
	return []weights.Name{{Variable: variable + "/scale", Array: array + ".weight"}, {Variable: variable + "/offset", Array: array + ".bias"}}
}

func arrayName(variable, array string) []weights.Name {
	return []weights.Name{{Variable: variable + "/weights", Array: array}}
}
