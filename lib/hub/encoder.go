package hub

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/ml/model"

	"gaiden/lib/models"
	"gaiden/lib/weights"
)

func itoa(i int) string { return strconv.Itoa(i) }

// encoder is BERT and its kin: norms after the sums, learned positions, a mask of padding.
func encoder(c *config) (func(length int) models.Net, []weights.Name) {
	width, heads, vocab, layers := c.size("hidden_size", "dim"), c.size("num_attention_heads", "n_heads"), c.size("vocab_size"), c.size("num_hidden_layers", "n_layers")
	hidden, longest, types := c.size("intermediate_size", "hidden_dim"), c.size("max_position_embeddings"), c.int("type_vocab_size")
	act, epsilon := c.act("gelu", "hidden_act", "activation"), cmp.Or(c.float("layer_norm_eps"), 1e-12)
	drop, attention := c.float("hidden_dropout_prob", "dropout"), c.float("attention_probs_dropout_prob", "attention_dropout")
	if kind := c.text("position_embedding_type"); kind != "" && kind != "absolute" {
		c.fail("position_embedding_type is %q: want absolute", kind)
	}
	if c.bool("is_decoder", false) {
		c.fail("is_decoder is true: want an encoder")
	}
	normal := func(name string) models.Layer { return models.LayerNorm{Name: name, Epsilon: epsilon} }
	roberta, distil := c.kind == "roberta", c.kind == "distilbert"
	if distil {
		types = 0
	}
	last, names := c.ending(width, act, normal)
	inputs := func(length int) []models.Input {
		all := []models.Input{{Name: "ids", Dims: []int{length}, Integers: true, Vocab: vocab}, {Name: "mask", Dims: []int{length}, Integers: true, Vocab: 2}}
		if types > 1 {
			all = append(all, models.Input{Name: "types", Dims: []int{length}, Integers: true, Vocab: types})
		}
		return all
	}
	padding := c.int("pad_token_id")
	body := func(scope *model.Scope, in models.Inputs) *Node {
		ids, mask := in["ids"], in["mask"]
		x := models.Call(scope, models.Embedding{Name: "tokens", Vocab: vocab, Units: width}, ids)
		if types > 0 {
			kinds := in["types"]
			if kinds == nil {
				kinds = ZerosLike(ids)
			}
			x = Add(x, models.Call(scope, models.Embedding{Name: "types", Vocab: types, Units: width}, kinds))
		}
		if roberta { // it counts tokens that are no padding, from the id of padding on
			there := ConvertDType(NotEqual(ids, FillScalar(ids.Graph(), ids.Shape(), float64(padding))), dtypes.Int32)
			x = Add(x, models.Call(scope, models.Embedding{Name: "positions", Vocab: longest, Units: width}, AddScalar(Mul(counted(there), there), padding)))
		} else {
			x = models.Call(scope, models.Positions{Name: "positions", Length: longest}, x)
		}
		x = models.WithMask(models.Dropout{Rate: drop}.Apply(scope, models.Call(scope, normal("norm"), x)), mask)
		x = models.Call(scope, blocks(layers, func(int) block {
			return block{post: normal, dropout: drop, attention: models.Attention{Heads: heads, Dropout: attention}, feedForward: models.FeedForward{Hidden: hidden, Act: act}}
		}), x)
		for _, l := range last {
			if name, _ := l.Title(); name == "" {
				x = l.Apply(scope, x)
			} else {
				x = models.Call(scope, l, x)
			}
		}
		return x
	}
	net := func(length int) models.Net { return models.Net{Inputs: inputs(length), Function: body} }
	p := c.prefix(c.kind + ".")
	e, l := p+"embeddings.", p+"encoder.layer.*."
	parts := []string{"attention.self.query", "attention.self.key", "attention.self.value", "attention.output.dense", "attention.output.LayerNorm", "intermediate.dense", "output.dense", "output.LayerNorm"}
	if distil {
		l = p + "transformer.layer.*."
		parts = []string{"attention.q_lin", "attention.k_lin", "attention.v_lin", "attention.out_lin", "sa_layer_norm", "ffn.lin1", "ffn.lin2", "output_layer_norm"}
	}
	c.ignore = append(c.ignore, "*position_ids", p+"pooler.*", "cls.predictions.decoder.*", "lm_head.decoder.*", "cls.seq_relationship.*", "vocab_projector.weight")
	return net, slices.Concat(names, arrayName("tokens", e+"word_embeddings.weight"), arrayName("types", e+"token_type_embeddings.weight"), arrayName("positions", e+"position_embeddings.weight"), normNames("norm", e+"LayerNorm"),
		denseNames("block/*/attention/query", l+parts[0]), denseNames("block/*/attention/key", l+parts[1]), denseNames("block/*/attention/value", l+parts[2]), denseNames("block/*/attention/output", l+parts[3]),
		normNames("block/*/norm1", l+parts[4]), denseNames("block/*/feedforward/up", l+parts[5]), denseNames("block/*/feedforward/down", l+parts[6]), normNames("block/*/norm2", l+parts[7]))
}

// counted is at each place the sum of x [n length] up to there.
func counted(x *Node) *Node {
	length := x.Shape().Dimensions[1]
	square := shapes.Make(dtypes.Int32, length, length)
	upTo := ConvertDType(LessOrEqual(Iota(x.Graph(), square, 0), Iota(x.Graph(), square, 1)), dtypes.Float32)
	return ConvertDType(MatMul(ConvertDType(x, dtypes.Float32), upTo), x.DType())
}

// ending is what stands behind the blocks, as the class says that wrote the model.
func (c *config) ending(width int, act models.Act, normal func(string) models.Layer) ([]models.Layer, []weights.Name) {
	p, distil, roberta := c.kind+".", c.kind == "distilbert", c.kind == "roberta"
	_, task, _ := strings.Cut(c.architecture(), "For")
	class := models.Dense{Name: "head", Units: c.classes()}
	first := []models.Layer{models.FirstStep{}, models.Dense{Name: "pooler", Units: width, Act: Tanh}, class}
	switch task {
	case "":
		return nil, nil
	case "TokenClassification":
		return []models.Layer{class}, denseNames("head", "classifier")
	case "SequenceClassification":
		switch {
		case distil:
			first[1] = models.Dense{Name: "pooler", Units: width, Act: models.ReLU}
			return first, slices.Concat(denseNames("pooler", "pre_classifier"), denseNames("head", "classifier"))
		case roberta:
			return first, slices.Concat(denseNames("pooler", "classifier.dense"), denseNames("head", "classifier.out_proj"))
		}
		return first, slices.Concat(denseNames("pooler", p+"pooler.dense"), denseNames("head", "classifier"))
	case "MaskedLM":
		if !c.bool("tie_word_embeddings", true) {
			c.fail("tie_word_embeddings is false: want true")
		}
		transform, scale, bias := "cls.predictions.transform.dense", "cls.predictions.transform.LayerNorm", "cls.predictions.bias"
		switch {
		case distil:
			transform, scale, bias = "vocab_transform", "vocab_layer_norm", "vocab_projector.bias"
		case roberta:
			transform, scale, bias, act = "lm_head.dense", "lm_head.layer_norm", "lm_head.bias", models.GELU // whatever hidden_act is
		}
		return []models.Layer{models.Dense{Name: "transform", Units: width, Act: act}, normal("transform_norm"), models.Tied{Name: "head", Of: "tokens", Biases: true}},
			slices.Concat(denseNames("transform", transform), normNames("transform_norm", scale), []weights.Name{{Variable: "head/biases", Array: bias}})
	}
	c.fail("architectures has %s: want %s's model as it is, or ForSequenceClassification, ForTokenClassification or ForMaskedLM", c.architecture(), c.kind)
	return nil, nil
}

// vision is ViT: patches of an image, a class token, norms first.
func vision(c *config) (func(length int) models.Net, []weights.Name) {
	width, heads, layers, hidden := c.size("hidden_size"), c.size("num_attention_heads"), c.size("num_hidden_layers"), c.size("intermediate_size")
	side, patch, channels := c.size("image_size"), c.size("patch_size"), c.size("num_channels")
	act, epsilon := c.act("gelu", "hidden_act"), cmp.Or(c.float("layer_norm_eps"), 1e-12)
	normal := func(name string) models.Layer { return models.LayerNorm{Name: name, Epsilon: epsilon} }
	count := (side / patch) * (side / patch)
	if side%patch != 0 {
		c.fail("image_size is %d and patch_size %d: want a multiple", side, patch)
	}
	if !c.bool("qkv_bias", true) {
		c.fail("qkv_bias is false: want true")
	}
	all := []models.Layer{models.Conv2D{Name: "patches", Channels: width, Kernel: patch, Stride: patch}, models.Unflatten{Name: "sequence", Dims: []int{count, width}}, // [n count width]
		models.ClassToken{Name: "class"}, models.Positions{Name: "positions", Length: count + 1},
		blocks(layers, func(int) block {
			return block{before: normal, dropout: c.float("hidden_dropout_prob"), attention: models.Attention{Heads: heads, Dropout: c.float("attention_probs_dropout_prob")}, feedForward: models.FeedForward{Hidden: hidden, Act: act}}
		}), normal("norm")}
	switch c.architecture() {
	case "ViTForImageClassification":
		all = append(all, models.FirstStep{Name: "first"}, models.Dense{Name: "head", Units: c.classes()})
	case "ViTModel":
	default:
		c.fail("architectures has %q: want ViTForImageClassification or ViTModel", c.architecture())
	}
	p := c.prefix("vit.")
	l, patches := p+"encoder.layer.*.", p+"embeddings.patch_embeddings.projection"
	c.ignore = append(c.ignore, p+"pooler.*")
	return func(int) models.Net { return models.Net{Input: []int{side, side, channels}, Layers: all} },
		slices.Concat(normNames("norm", p+"layernorm"), denseNames("head", "classifier"),
			[]weights.Name{{Variable: "patches/weights", Array: patches + ".weight"}, {Variable: "patches/biases", Array: patches + ".bias"}, {Variable: "class/weights", Array: p + "embeddings.cls_token", Order: []int{-1, -1, 0}}, {Variable: "positions/weights", Array: p + "embeddings.position_embeddings", Order: []int{-1, 0, 1}}},
			normNames("block/*/norm1", l+"layernorm_before"), normNames("block/*/norm2", l+"layernorm_after"),
			denseNames("block/*/attention/query", l+"attention.attention.query"), denseNames("block/*/attention/key", l+"attention.attention.key"), denseNames("block/*/attention/value", l+"attention.attention.value"),
			denseNames("block/*/attention/output", l+"attention.output.dense"), denseNames("block/*/feedforward/up", l+"intermediate.dense"), denseNames("block/*/feedforward/down", l+"output.dense"))
}
