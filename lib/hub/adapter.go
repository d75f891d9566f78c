package hub

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"gaiden/lib/models"
	"gaiden/lib/weights"
)

// Adapter is LoRA as peft keeps it in a folder: adapter_config.json and
// adapter_model.safetensors.
//
//	a := must(m.Adapter("models/poet"))
//	net := m.Net(128)
//	net.LoRA = a.LoRA
//	var gpt = fit.New("poet", net, fit.Config{Tokenizer: m.Tokenizer})
//	gpt.LoadWeights(m.Dir, m.Weights)
//	gpt.LoadWeights(a.Path, a.Weights)
type Adapter struct {
	LoRA    models.LoRA
	Path    string      // of the weights
	Weights weights.Map // for Net.LoadWeights
}

// adapterConfig is an adapter_config.json.
type adapterConfig struct {
	Type        string         `json:"peft_type"`
	Task        string         `json:"task_type,omitempty"`
	Base        string         `json:"base_model_name_or_path"`
	Rank        int            `json:"r"`
	Alpha       float64        `json:"lora_alpha"`
	Modules     any            `json:"target_modules"`
	Bias        string         `json:"bias"`
	RankStable  bool           `json:"use_rslora"`
	DoRA        bool           `json:"use_dora"`
	Ranks       map[string]any `json:"rank_pattern"`
	Alphas      map[string]any `json:"alpha_pattern"`
	Layers      any            `json:"layers_to_transform"`
	Saved       any            `json:"modules_to_save"`
	FanInFanOut bool           `json:"fan_in_fan_out"`
}

// Adapter reads a folder of peft's for the model.
func (m *Model) Adapter(dir string) (*Adapter, error) {
	wrong := func(format string, args ...any) (*Adapter, error) {
		return nil, fmt.Errorf("hub: %s: adapter_config.json: %w", dir, fmt.Errorf(format, args...))
	}
	b, err := os.ReadFile(filepath.Join(dir, "adapter_config.json"))
	if err != nil {
		return nil, fmt.Errorf("hub: %w", err)
	}
	var c adapterConfig
	if err := json.Unmarshal(b, &c); err != nil {
		return wrong("%w", err)
	}
	modules, listed := c.Modules.([]any)
	switch {
	case c.Type != "LORA" || c.DoRA || c.Rank < 1:
		return wrong("got peft_type %q, rank %d, use_dora %t: want LORA of rank 1 or more without DoRA", c.Type, c.Rank, c.DoRA)
	case c.Bias != "" && c.Bias != "none" || len(c.Ranks)+len(c.Alphas) > 0 || c.Layers != nil || c.Saved != nil:
		return wrong("it has a bias, rank_pattern, alpha_pattern, layers_to_transform or modules_to_save: want none of them")
	case !listed:
		return wrong("target_modules is %v: want a list of names", c.Modules)
	}
	a := &Adapter{LoRA: models.LoRA{Rank: c.Rank, Alpha: c.Alpha, Names: []string{}}, Path: filepath.Join(dir, "adapter_model.safetensors"), Weights: m.adapterNames()}
	if c.RankStable {
		a.LoRA.Alpha *= math.Sqrt(float64(c.Rank))
	}
	for _, module := range modules {
		found := false
		for layer, array := range m.matrices() {
			if name, is := module.(string); is && (array == name || strings.HasSuffix(array, "."+name)) {
				a.LoRA.Names, found = append(a.LoRA.Names, layer), true
			}
		}
		if !found {
			return wrong("target_modules has %v: want some of a %s model", module, m.Kind)
		}
	}
	slices.Sort(a.LoRA.Names)
	return a, nil
}

// matrices are the arrays of the model's matrices without ".weight", by patterns of layers.
func (m *Model) matrices() map[string]string {
	all := map[string]string{}
	for _, n := range m.Weights.Names {
		layer, is := strings.CutSuffix(n.Variable, "/weights")
		array, also := strings.CutSuffix(n.Array, ".weight")
		if is && also {
			all[layer] = array
		}
	}
	return all
}

// adapterNames are peft's names of LoRA's variables. An array of several layers has one matrix
// a for all, which each of them gets.
func (m *Model) adapterNames() weights.Map {
	how := weights.Map{Only: []string{"*/lora_a", "*/lora_b"}}
	for _, n := range m.Weights.Names {
		layer, is := strings.CutSuffix(n.Variable, "/weights")
		array, also := strings.CutSuffix(n.Array, ".weight")
		if !is || !also {
			continue
		}
		if strings.HasPrefix(layer, "block/") && !strings.HasPrefix(array, m.body) {
			array = m.body + array // the weights had been saved without a head
		}
		array = "base_model.model." + array
		how.Names = append(how.Names, weights.Name{Variable: layer + "/lora_a", Array: array + ".lora_A.weight", Order: []int{1, 0}},
			weights.Name{Variable: layer + "/lora_b", Array: array + ".lora_B.weight", Order: []int{1, 0}, From: n.From, To: n.To})
	}
	return how
}

// SaveAdapter writes a net's LoRA as peft does. The net is a fit.Net of the model's.
func (m *Model) SaveAdapter(dir string, net interface {
	Model() models.Net
	SaveWeights(path string, how ...weights.Map) error
}) error {
	lora := net.Model().LoRA
	if lora.Rank == 0 {
		return fmt.Errorf("hub: SaveAdapter: the net has no LoRA: want models.Net.LoRA set, or SaveWeights")
	}
	c := adapterConfig{Type: "LORA", Base: m.Dir, Rank: lora.Rank, Alpha: lora.Scale() * float64(lora.Rank), Bias: "none", Ranks: map[string]any{}, Alphas: map[string]any{}}
	if m.causal() {
		c.Task = "CAUSAL_LM"
	}
	adapted := func(layer string) bool { return net.Model().Adapted(strings.ReplaceAll(layer, "*", "0")) }
	modules, of := map[string]bool{}, map[string]string{} // of: the adapted layer that an array is of
	for layer, array := range m.matrices() {
		if !adapted(layer) {
			continue
		}
		if other, joined := of[array]; joined {
			return fmt.Errorf("hub: SaveAdapter: %s and %s are one array %s in peft, with one matrix lora_A, and each has its own here: want SaveWeights with Merge, which writes the whole model", min(layer, other), max(layer, other), array)
		}
		modules[array[strings.LastIndex(array, ".")+1:]], of[array] = true, layer
	}
	var list []string
	for layer, array := range m.matrices() {
		name := array[strings.LastIndex(array, ".")+1:]
		switch {
		case !modules[name]:
			continue
		case adapted(layer):
		case of[array] != "":
			return fmt.Errorf("hub: SaveAdapter: LoRA is on %s and not on %s, and peft has one array %s for both: want SaveWeights with Merge, which writes the whole model", of[array], layer, array)
		default:
			return fmt.Errorf("hub: SaveAdapter: LoRA is not on %s, and peft has it by the name %s, as of other layers: want LoRA on these, too, or SaveWeights with Merge", layer, name)
		}
		if !slices.Contains(list, name) {
			list = append(list, name)
		}
	}
	slices.Sort(list)
	c.Modules = list
	b, err := json.MarshalIndent(c, "", "  ")
	if err == nil {
		err = os.MkdirAll(dir, 0o777)
	}
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "adapter_config.json"), append(b, '\n'), 0o666)
	}
	if err != nil {
		return fmt.Errorf("hub: %w", err)
	}
	return net.SaveWeights(filepath.Join(dir, "adapter_model.safetensors"), m.adapterNames())
}

func (m *Model) causal() bool { return m.Kind != "vit" && !strings.HasSuffix(m.Kind, "bert") }
