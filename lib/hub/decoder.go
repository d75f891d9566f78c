package hub

import (
	"cmp"
	"math"
	"slices"
	"strings"

	"gaiden/lib/models"
	"gaiden/lib/weights"
)

// block is attention and a feed-forward net, each added to what it takes. Norms stand before
// each, after each, or with post after each sum; nil: there is none.
type block struct {
	attention     models.Attention
	feedForward   models.FeedForward
	before, after func(name string) models.Layer
	post          func(name string) models.Layer
	dropout       float64
}

// layer is the block; its parts have the names of those of models.TransformerBlock.
func (b block) layer(name string) models.Layer {
	b.attention.Name, b.feedForward.Name = "attention", "feedforward"
	var all []models.Layer
	for i, part := range []models.Layer{b.attention, b.feedForward} {
		number := string(rune('1' + i))
		var main []models.Layer
		if b.before != nil {
			main = append(main, b.before("norm"+number))
		}
		main = append(main, part)
		if b.after != nil {
			main = append(main, b.after("after"+number))
		}
		if b.dropout > 0 {
			main = append(main, models.Dropout{Rate: b.dropout})
		}
		all = append(all, models.Residual{Main: main})
		if b.post != nil {
			all = append(all, b.post("norm"+number))
		}
	}
	return models.Sequential{Name: name, Layers: all}
}

// blocks are so many, "block/0" and so on.
func blocks(count int, of func(i int) block) models.Layer {
	var all []models.Layer
	for i := range count {
		all = append(all, of(i).layer(itoa(i)))
	}
	return models.Sequential{Name: "block", Layers: all}
}

// head is the product with the embedding, or a layer of its own.
func head(tied bool, vocab int) models.Layer {
	if tied {
		return models.Tied{Name: "head", Of: "tokens"}
	}
	return models.Dense{Name: "head", Units: vocab, NoBias: true}
}

// gpt2 has fused matrices for queries, keys and values, and all matrices as [in out].
func gpt2(c *config) (func(length int) models.Net, []weights.Name) {
	width, heads, vocab := c.size("n_embd"), c.size("n_head"), c.size("vocab_size")
	layers, longest, hidden := c.size("n_layer"), c.size("n_positions"), c.int("n_inner")
	act, epsilon := c.act("gelu_new", "activation_function"), c.float("layer_norm_epsilon")
	normal := func(name string) models.Layer { return models.LayerNorm{Name: name, Epsilon: epsilon} }
	scaled, byLayer := c.bool("scale_attn_weights", true), c.bool("scale_attn_by_inverse_layer_idx", false)
	attention, drop, first := c.float("attn_pdrop"), c.float("resid_pdrop"), c.float("embd_pdrop")
	tied := c.tied()
	c.causal(tied)
	net := func(length int) models.Net {
		all := []models.Layer{models.Embedding{Name: "tokens", Vocab: vocab, Units: width}, models.Positions{Name: "positions", Length: longest}}
		if first > 0 {
			all = append(all, models.Dropout{Name: "dropout", Rate: first})
		}
		return models.Net{Input: []int{length}, Layers: append(all, blocks(layers, func(i int) block {
			scale := 1.0
			if scaled {
				scale = 1 / math.Sqrt(float64(width/heads))
			}
			if byLayer {
				scale /= float64(i + 1)
			}
			return block{before: normal, dropout: drop, attention: models.Attention{Heads: heads, Causal: true, Scale: scale, Dropout: attention}, feedForward: models.FeedForward{Hidden: hidden, Act: act}}
		}), normal("norm"), head(tied, vocab))}
	}
	p := c.prefix("transformer.")
	c.ignore = append(c.ignore, "*.attn.bias", "*.attn.masked_bias") // masks that old files have
	names := slices.Concat(arrayName("tokens", p+"wte.weight"), arrayName("positions", p+"wpe.weight"), normNames("block/*/norm1", p+"h.*.ln_1"), normNames("block/*/norm2", p+"h.*.ln_2"), normNames("norm", p+"ln_f"),
		denseNames("block/*/attention/output", p+"h.*.attn.c_proj"), denseNames("block/*/feedforward/up", p+"h.*.mlp.c_fc"), denseNames("block/*/feedforward/down", p+"h.*.mlp.c_proj"))
	for i, part := range []string{"query", "key", "value"} {
		for k, n := range denseNames("block/*/attention/"+part, p+"h.*.attn.c_attn") {
			n.Axis, n.From, n.To = 1-k, i*width, (i+1)*width
			names = append(names, n)
		}
	}
	for i, n := range names {
		if strings.HasPrefix(n.Variable, "block/") && strings.HasSuffix(n.Variable, "/weights") {
			names[i].Order = []int{0, 1}
		}
	}
	return net, append(names, denseNames("head", "lm_head")...)
}

// decoder is Llama and its kin: root mean squares, rotary positions, a gated feed-forward net,
// and what each adds to them.
func decoder(c *config) (func(length int) models.Net, []weights.Name) {
	width, vocab, layers := c.size("hidden_size"), c.size("vocab_size"), c.size("num_hidden_layers")
	b := decoderBlock(c, width)
	size := b.attention.HeadSize
	tied, cap := c.tied(), c.float("final_logit_softcapping")
	c.causal(tied)
	tokens := models.Embedding{Name: "tokens", Vocab: vocab, Units: width}
	if strings.HasPrefix(c.kind, "gemma") {
		tokens.Scale = math.Sqrt(float64(width))
	}
	scale := math.Pow(cmp.Or(c.float("query_pre_attn_scalar"), float64(size)), -0.5)
	if c.bool("use_bidirectional_attention", false) {
		c.fail("use_bidirectional_attention is true: want a causal model")
	}
	windows := c.windows(layers)
	theta, local, scaling := c.rotary()
	net := func(length int) models.Net {
		frequencies, factor := c.rope(theta, scaling, size, length)
		near := frequencies
		if local > 0 {
			near, _ = c.rope(local, nil, size, length)
		}
		all := []models.Layer{tokens, blocks(layers, func(i int) block {
			b := b
			b.attention.Window, b.attention.Frequencies, b.attention.Scale = windows[i], frequencies, scale*factor
			if windows[i] > 0 && local > 0 {
				b.attention.Frequencies, b.attention.Scale = near, scale
			}
			return b
		}), b.before("norm"), head(tied, vocab)}
		if cap > 0 {
			all = append(all, models.SoftCap{Limit: cap})
		}
		return models.Net{Input: []int{length}, Layers: all}
	}
	net(1) // finds what is wrong with the scaling of positions
	return net, decoderNames(c, b)
}

// decoderBlock is what the blocks of a decoder have in common.
func decoderBlock(c *config, width int) block {
	heads, groups, size, hidden := c.size("num_attention_heads"), c.int("num_key_value_heads"), c.int("head_dim"), c.size("intermediate_size")
	groups = cmp.Or(groups, heads)
	if size == 0 {
		size = width / heads
	}
	gemma, number := strings.HasPrefix(c.kind, "gemma"), strings.TrimPrefix(c.kind, "gemma")
	normal := func(name string) models.Layer {
		return models.RMSNorm{Name: name, Epsilon: cmp.Or(c.float("rms_norm_eps"), 1e-6), PlusOne: gemma}
	}
	b := block{before: normal, dropout: c.float("resid_pdrop"),
		attention: models.Attention{Heads: heads, KVHeads: groups, HeadSize: size, Causal: true, SoftCap: c.float("attn_logit_softcapping"), Dropout: c.float("attention_dropout"),
			NoBias: !c.bool("attention_bias", false) && c.kind != "qwen2", NoOutputBias: c.kind == "qwen2"},
		feedForward: models.FeedForward{Hidden: hidden, Gated: true, NoBias: !c.bool("mlp_bias", false)}}
	switch {
	case !gemma:
		b.feedForward.Act = c.act("silu", "hidden_act")
	case number == "":
		b.feedForward.Act = c.act("gelu_pytorch_tanh", "hidden_act")
	default:
		b.feedForward.Act = c.act("gelu_pytorch_tanh", "hidden_activation")
	}
	if gemma && number != "" {
		b.after = normal
	}
	if c.kind == "qwen3" || number == "3_text" {
		b.attention.QKNorm = normal("")
	}
	return b
}

// decoderNames are the names of a decoder's arrays.
func decoderNames(c *config, b block) []weights.Name {
	p := c.prefix("model.")
	l := p + "layers.*."
	c.ignore = append(c.ignore, "*.rotary_emb.inv_freq")
	names := slices.Concat(arrayName("tokens", p+"embed_tokens.weight"), normNames("norm", p+"norm"), denseNames("head", "lm_head"), normNames("block/*/norm1", l+"input_layernorm"),
		normNames("block/*/attention/query_norm", l+"self_attn.q_norm"), normNames("block/*/attention/key_norm", l+"self_attn.k_norm"),
		denseNames("block/*/attention/output", l+"self_attn.o_proj"), denseNames("block/*/feedforward/down", l+"mlp.down_proj"))
	if b.after != nil {
		names = slices.Concat(names, normNames("block/*/after1", l+"post_attention_layernorm"), normNames("block/*/norm2", l+"pre_feedforward_layernorm"), normNames("block/*/after2", l+"post_feedforward_layernorm"))
	} else {
		names = append(names, normNames("block/*/norm2", l+"post_attention_layernorm")...)
	}
	size, hidden := b.attention.HeadSize, b.feedForward.Hidden
	queries, keys := b.attention.Heads*size, b.attention.KVHeads*size
	fused := c.kind == "phi3"
	at := 0
	for _, part := range []struct {
		ours, theirs, joined string
		size                 int
	}{{"attention/query", "self_attn.q_proj", "self_attn.qkv_proj", queries}, {"attention/key", "self_attn.k_proj", "self_attn.qkv_proj", keys}, {"attention/value", "self_attn.v_proj", "self_attn.qkv_proj", keys},
		{"feedforward/gate", "mlp.gate_proj", "mlp.gate_up_proj", hidden}, {"feedforward/up", "mlp.up_proj", "mlp.gate_up_proj", hidden}} {
		if part.ours == "feedforward/gate" {
			at = 0
		}
		theirs := part.theirs
		if fused {
			theirs = part.joined
		}
		for _, n := range denseNames("block/*/"+part.ours, l+theirs) {
			if fused {
				n.From, n.To = at, at+part.size
			}
			names = append(names, n)
		}
		at += part.size
	}
	return names
}

// windows are how many tokens each layer sees; 0: all.
func (c *config) windows(layers int) []int {
	window, all := c.int("sliding_window"), make([]int, layers)
	kinds, _ := c.value("layer_types").([]any)
	if kinds != nil && len(kinds) != layers {
		c.fail("layer_types has %d layers, and num_hidden_layers is %d: want as many", len(kinds), layers)
		return all
	}
	period := int(cmp.Or(float64(c.int("sliding_window_pattern", "_sliding_window_pattern")), 6))
	for i := range all {
		slides := false
		switch {
		case kinds != nil:
			slides = kinds[i] == "sliding_attention"
			if kinds[i] != "sliding_attention" && kinds[i] != "full_attention" {
				c.fail("layer_types has %v: want sliding_attention or full_attention", kinds[i])
			}
		case c.kind == "gemma2":
			slides = i%2 == 0
		case c.kind == "gemma3_text":
			slides = (i+1)%period != 0
		case strings.HasPrefix(c.kind, "qwen"):
			slides = c.bool("use_sliding_window", false) && i >= c.int("max_window_layers")
		default: // Mistral, Phi 3
			slides = c.kind != "llama" && c.kind != "gemma"
		}
		if slides {
			all[i] = window
		}
	}
	return all
}
