// Package hub opens models as Hugging Face's libraries keep them in a folder: config.json,
// safetensors (in one file or several) and tokenizer.json.
//
//	var m = must(hub.Open("models/gpt2"))
//	var gpt = fit.New("gpt", m.Net(128), fit.Config{Tokenizer: m.Tokenizer, Optimizer: optim.AdamW{LearningRate: 1e-5}})
//	gpt.LoadWeights(m.Dir, m.Weights)
//	gpt.Generate("To be, or not", fit.Sampling{Length: 50, Temperature: 0.8, StopTokens: m.End})
//
// and to train it on a text, in sequences of 128 tokens, and write what other libraries read:
//
//	book := must(m.Tokenizer.Corpus("book.txt"))
//	train := must(gpt.Upload("book", book.Windows(128)))
//	gpt.Fit(train, fit.Train{Epochs: 1, Batch: 4})
//	gpt.SaveWeights("models/mine/model.safetensors", m.Weights)
//
// It knows GPT-2; Llama, Mistral, Qwen 2 and 3 and Phi 3; Gemma, Gemma 2 and the text of Gemma 3;
// BERT, RoBERTa (also XLM-RoBERTa and CamemBERT) and DistilBERT as they are, with a head for classes of texts or of tokens, or with
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
	End       []int32     // tokens that end a text, for fit.Sampling's StopTokens

	net  func(length int) models.Net
	body string // what stands before the names of the body's arrays
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

// Open reads a folder, all but the weights, which Net.LoadWeights does. Where there are none, the
// net is to be trained from random ones.
func Open(dir string) (*Model, error) {
	wrong := func(err error) (*Model, error) { return nil, fmt.Errorf("hub: %s: %w", dir, err) }
	c, err := readConfig(filepath.Join(dir, "config.json"))
	if err != nil {
		return wrong(err)
	}
	m := &Model{Dir: dir, Kind: c.text("model_type"), Length: c.int("max_position_embeddings", "n_positions")}
	known := kinds[c.kind]
	if known == nil {
		all := slices.Concat(slices.Collect(maps.Keys(kinds)), slices.Collect(maps.Keys(same)))
		slices.Sort(all)
		return wrong(fmt.Errorf("config.json has the model_type %q: want one of %s", c.kind, strings.Join(all, ", ")))
	}
	if there, _ := filepath.Glob(filepath.Join(dir, "*.safetensors*")); len(there) > 0 {
		checkpoint, err := safetensors.OpenCheckpoint(dir)
		if err != nil {
			return wrong(err)
		}
		defer checkpoint.Close()
		for _, t := range checkpoint.Tensors {
			c.arrays = append(c.arrays, t.Name)
		}
	} else if there, _ := filepath.Glob(filepath.Join(dir, "*.bin")); len(there) > 0 {
		return wrong(fmt.Errorf("the weights are %s, of PyTorch's own format: want them as safetensors, as save_pretrained writes them", filepath.Base(there[0])))
	}
	m.net, m.Weights.Names = known(c)
	if c.err != nil {
		return wrong(fmt.Errorf("config.json: %w", c.err))
	}
	m.Weights.Ignore, m.body = c.ignore, c.body
	switch end := c.value("eos_token_id").(type) {
	case float64:
		m.End = []int32{int32(end)}
	case []any:
		for _, id := range end {
			if id, is := id.(float64); is {
				m.End = append(m.End, int32(id))
			}
		}
	}
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
