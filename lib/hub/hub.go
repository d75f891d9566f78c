// Package hub opens models as Hugging Face's libraries keep them in a folder: config.json,
// safetensors (in one file or several) and tokenizer.json.
//
//	var m = must(hub.Open("models/gpt2"))
//	var gpt = fit.New("gpt", m.Net(64), fit.Config{Optimizer: optim.AdamW{LearningRate: 1e-5}})
//	gpt.LoadWeights(m.Dir, m.Weights)
//
//	ids := must(m.Tokenizer.Encode("To be, or not to be"))
//	next := must(gpt.Predict([][]int32{m.Tokenizer.Pad(ids, 64)})) // logits [1 64 vocab]
//
//	gpt.SaveWeights("models/mine/model.safetensors", m.Weights) // other libraries read it
//
// It knows GPT-2; Llama, Mistral, Qwen 2 and 3 and Phi 3; Gemma, Gemma 2 and the text of Gemma 3;
// BERT, RoBERTa and DistilBERT as they are, with a head for classes of texts or of tokens, or with
// that for masked words; ViT with a head for classes. Config.json says which, and all sizes. A net
// is made of package models' layers, and Weights says which array each variable is; so all that
// trains, freezes or changes a net is there for these, too.
//
// A model of texts takes ids [n length]. BERT and its kin take several inputs: ids, mask (1 for
// tokens, 0 for padding) and, BERT only, types. ViT takes images [n height width channels],
// normalized as preprocessor_config.json says.
//
// [Download] fetches a folder from huggingface.co. What the package does not know (another kind
// of model, weights that are quantized, a tokenizer of another algorithm) is an error of Open.
package hub

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"gaiden/lib/engine/safetensors"
	"gaiden/lib/models"
	"gaiden/lib/weights"
)

// Model is a model in a folder.
type Model struct {
	Dir       string
	Kind      string      // config.json's model_type, such as llama
	Length    int         // of the longest sequence; 0: it has no limit
	Weights   weights.Map // for Net.LoadWeights and Net.SaveWeights
	Tokenizer *Tokenizer  // nil: the folder has no tokenizer.json

	net func(length int) models.Net
}

// kinds are the models that the package knows: each makes a net and names of arrays of a
// config.
var kinds = map[string]func(*config) (net func(length int) models.Net, names []weights.Name){
	"gpt2":  gpt2,
	"llama": decoder, "mistral": decoder, "qwen2": decoder, "qwen3": decoder, "phi3": decoder,
	"gemma": decoder, "gemma2": decoder, "gemma3_text": decoder,
	"bert": encoder, "roberta": encoder, "distilbert": encoder,
	"vit": vision,
}

// Open reads a folder, all but the weights, which Net.LoadWeights does.
func Open(dir string) (*Model, error) {
	wrong := func(err error) (*Model, error) { return nil, fmt.Errorf("hub: %s: %w", dir, err) }
	c, err := readConfig(filepath.Join(dir, "config.json"))
	if err != nil {
		return wrong(err)
	}
	m := &Model{Dir: dir, Kind: c.kind, Length: c.int("max_position_embeddings", "n_positions")}
	known := kinds[c.kind]
	if known == nil {
		return wrong(fmt.Errorf("config.json has the model_type %q: want one of %s", c.kind, strings.Join(slices.Sorted(maps.Keys(kinds)), ", ")))
	}
	checkpoint, err := safetensors.OpenCheckpoint(dir)
	if err != nil {
		return wrong(err)
	}
	defer checkpoint.Close()
	for _, t := range checkpoint.Tensors {
		c.arrays = append(c.arrays, t.Name)
	}
	m.net, m.Weights.Names = known(c)
	if c.err != nil {
		return wrong(fmt.Errorf("config.json: %w", c.err))
	}
	m.Weights.Ignore = c.ignore
	path := filepath.Join(dir, "tokenizer.json")
	if _, err := os.Stat(path); err == nil {
		if m.Tokenizer, err = OpenTokenizer(path); err != nil {
			return wrong(err)
		}
	}
	return m, nil
}

// Net is the model for sequences of a length, in tokens; a model of images has no length.
func (m *Model) Net(length ...int) models.Net {
	n := m.Length
	if len(length) > 0 {
		n = length[0]
	}
	net := m.net(n)
	net.Name = m.Kind
	return net
}

func (m *Model) String() string {
	return fmt.Sprintf("%s in %s", m.Kind, m.Dir)
}
