package hub

import (
	"cmp"
	"math"
)

// rotary are the bases of rotary position embeddings, local for layers with a window, and their
// scaling: fields of their own, or, since version 5 of transformers, rope_parameters.
func (c *config) rotary() (theta, local float64, scaling map[string]any) {
	of := func(all map[string]any, key string) map[string]any {
		m, _ := all[key].(map[string]any)
		return m
	}
	theta, local = c.float("rope_theta"), c.float("rope_local_base_freq")
	scaling = of(c.keys, "rope_scaling")
	p := of(c.keys, "rope_parameters")
	if p == nil {
		return theta, local, scaling
	}
	if theta != 0 || scaling != nil {
		c.fail("rope_parameters is next to rope_theta or rope_scaling: want one of them")
	}
	if full, near := of(p, "full_attention"), of(p, "sliding_attention"); full != nil {
		s := &config{keys: near}
		if kind := s.text("rope_type"); kind != "" && kind != "default" {
			c.fail("rope_parameters has the rope_type %q for sliding_attention: want default", kind)
		}
		p, local = full, cmp.Or(s.float("rope_theta"), local)
	}
	s := &config{keys: p}
	if part := s.float("partial_rotary_factor"); part != 0 {
		c.keys["partial_rotary_factor"] = part
	}
	return s.float("rope_theta"), local, p
}

// rope are the frequencies of rotary position embeddings with one of transformers' scalings, for
// sequences of a length, and the scale of the dot products of queries and keys that goes with it.
func (c *config) rope(base float64, scaling map[string]any, size, length int) (frequencies []float64, factor float64) {
	if part := c.float("partial_rotary_factor"); part > 0 {
		rotated := int(float64(size) * part)
		if rotated != size && (c.kind != "phi3" || rotated%2 != 0) {
			c.fail("partial_rotary_factor is %g, %d of %d dimensions: want 1, or for phi3 an even number of them", part, rotated, size)
		}
		size = rotated
	}
	if base == 0 {
		base = 10000
		if c.kind == "gemma3_text" {
			base = 1e6
		}
	}
	s := &config{keys: scaling}
	r := &rotary{base: base, length: float64(length), longest: c.float("max_position_embeddings"), by: s.float("factor")}
	r.first = cmp.Or(c.float("original_max_position_embeddings"), s.float("original_max_position_embeddings"), r.longest)
	kind := s.text("rope_type", "type")
	switch kind {
	case "linear", "dynamic", "llama3", "yarn":
		if r.by < 1 {
			c.fail("rope_scaling has a factor of %g: want 1 or more", r.by)
			r.by = 1
		}
	}
	if kind == "dynamic" && r.length > r.longest {
		r.base *= math.Pow(r.by*r.length/r.longest-(r.by-1), float64(size)/float64(size-2))
	}
	r.frequencies = make([]float64, size/2)
	for i := range r.frequencies {
		r.frequencies[i] = math.Pow(r.base, -2*float64(i)/float64(size))
	}
	magnitude := 1.0 // of cosines and sines
	switch kind {
	case "", "default", "mrope", "dynamic":
	case "linear":
		for i := range r.frequencies {
			r.frequencies[i] /= r.by
		}
	case "llama3":
		r.llama3(c, s)
	case "yarn":
		magnitude = r.yarn(s, float64(size))
	case "longrope":
		magnitude = r.longrope(c, scaling)
	default:
		c.fail("rope_scaling has the rope_type %q: want linear, dynamic, yarn, longrope or llama3", kind)
	}
	if s.err != nil {
		c.fail("rope_scaling: %w", s.err)
	}
	magnitude = cmp.Or(s.float("attention_factor"), magnitude)
	return r.frequencies, magnitude * magnitude
}

// rotary is frequencies that a scaling changes.
type rotary struct {
	base, length, longest float64
	first                 float64 // the longest when the model was trained first
	by                    float64 // factor of the length
	frequencies           []float64
}

func (r *rotary) llama3(c, s *config) {
	low, high := s.float("low_freq_factor"), s.float("high_freq_factor")
	if low == 0 || high <= low {
		c.fail("rope_scaling of llama3: want low_freq_factor, and a larger high_freq_factor")
	}
	for i, f := range r.frequencies {
		turns := r.first * f / (2 * math.Pi) // within the original length
		smooth := min(1, max(0, (turns-low)/(high-low)))
		r.frequencies[i] = (1-smooth)*f/r.by + smooth*f
	}
}

func (r *rotary) yarn(s *config, size float64) (magnitude float64) {
	scale := func(weight float64) float64 {
		if r.by <= 1 {
			return 1
		}
		return 0.1*weight*math.Log(r.by) + 1
	}
	magnitude = scale(1)
	if a, b := s.float("mscale"), s.float("mscale_all_dim"); a != 0 && b != 0 {
		magnitude = scale(a) / scale(b)
	}
	at := func(turns float64) float64 {
		return size * math.Log(r.first/(turns*2*math.Pi)) / (2 * math.Log(r.base))
	}
	low, high := at(cmp.Or(s.float("beta_fast"), 32)), at(cmp.Or(s.float("beta_slow"), 1))
	if s.bool("truncate", true) {
		low, high = math.Floor(low), math.Ceil(high)
	}
	low, high = max(low, 0), min(high, size-1)
	if low == high {
		high += 0.001
	}
	for i, f := range r.frequencies {
		ramp := min(1, max(0, (float64(i)-low)/(high-low)))
		r.frequencies[i] = f/r.by*ramp + f*(1-ramp)
	}
	return magnitude
}

func (r *rotary) longrope(c *config, scaling map[string]any) (magnitude float64) {
	r.by = cmp.Or(r.by, r.longest/r.first)
	magnitude = 1
	if r.by > 1 {
		magnitude = math.Sqrt(1 + math.Log(r.by)/math.Log(r.first))
	}
	key := "short_factor"
	if r.length > r.first {
		key = "long_factor"
	}
	factors, _ := scaling[key].([]any)
	if len(factors) != len(r.frequencies) {
		c.fail("rope_scaling has %d numbers in %s: want %d", len(factors), key, len(r.frequencies))
		return magnitude
	}
	for i := range r.frequencies {
		f, _ := factors[i].(float64)
		r.frequencies[i] /= cmp.Or(f, 1)
	}
	return magnitude
}
