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
	s := &config{keys: scaling}
	kind := s.text("rope_type", "type")
	if part := c.float("partial_rotary_factor"); part > 0 {
		rotated := int(float64(size) * part)
		if rotated != size && (c.kind != "phi3" || rotated%2 != 0) {
			c.fail("partial_rotary_factor is %g, %d of %d dimensions: want 1, or for phi3 an even number of them", part, rotated, size)
		}
		size = rotated
	}
	frequencies = make([]float64, size/2)
	if base == 0 {
		base = 10000
		if c.kind == "gemma3_text" {
			base = 1e6
		}
	}
	fill := func() {
		for i := range frequencies {
			frequencies[i] = math.Pow(base, -2*float64(i)/float64(size))
		}
	}
	longest := c.float("max_position_embeddings")
	before := s.float("original_max_position_embeddings")
	by := s.float("factor")
	magnitude := s.float("attention_factor") // of cosines and sines
	switch kind {
	case "", "default", "mrope":
	case "dynamic":
		if n := float64(length); n > longest {
			base *= math.Pow(by*n/longest-(by-1), float64(size)/float64(size-2))
		}
	case "linear", "llama3", "yarn", "longrope":
	default:
		c.fail("rope_scaling has the rope_type %q: want linear, dynamic, yarn, longrope or llama3", kind)
	}
	if need := map[string]bool{"linear": true, "dynamic": true, "llama3": true, "yarn": true}; need[kind] && by < 1 {
		c.fail("rope_scaling has a factor of %g: want 1 or more", by)
		by = 1
	}
	fill()
	switch kind {
	case "linear":
		for i := range frequencies {
			frequencies[i] /= by
		}
	case "llama3":
		low, high := s.float("low_freq_factor"), s.float("high_freq_factor")
		if before == 0 || low == 0 || high <= low {
			c.fail("rope_scaling of llama3: want low_freq_factor, a larger high_freq_factor, and original_max_position_embeddings")
		}
		for i, f := range frequencies {
			turns := before * f / (2 * math.Pi) // within the original length
			smooth := min(1, max(0, (turns-low)/(high-low)))
			frequencies[i] = (1-smooth)*f/by + smooth*f
		}
	case "yarn":
		before = cmp.Or(before, longest)
		scale := func(weight float64) float64 {
			if by <= 1 {
				return 1
			}
			return 0.1*weight*math.Log(by) + 1
		}
		if a, b := s.float("mscale"), s.float("mscale_all_dim"); magnitude == 0 && a != 0 && b != 0 {
			magnitude = scale(a) / scale(b)
		} else if magnitude == 0 {
			magnitude = scale(1)
		}
		at := func(turns float64) float64 {
			return float64(size) * math.Log(before/(turns*2*math.Pi)) / (2 * math.Log(base))
		}
		low, high := at(cmp.Or(s.float("beta_fast"), 32)), at(cmp.Or(s.float("beta_slow"), 1))
		if s.bool("truncate", true) {
			low, high = math.Floor(low), math.Ceil(high)
		}
		low, high = max(low, 0), min(high, float64(size-1))
		if low == high {
			high += 0.001
		}
		for i, f := range frequencies {
			ramp := min(1, max(0, (float64(i)-low)/(high-low)))
			frequencies[i] = f/by*ramp + f*(1-ramp)
		}
	case "longrope":
		first := c.float("original_max_position_embeddings")
		if first > 0 {
			by = longest / first
		} else {
			first = longest
		}
		if magnitude == 0 && by > 1 {
			magnitude = math.Sqrt(1 + math.Log(by)/math.Log(first))
		}
		key := "short_factor"
		if float64(length) > first {
			key = "long_factor"
		}
		factors, _ := scaling[key].([]any)
		if len(factors) != len(frequencies) {
			c.fail("rope_scaling has %d numbers in %s: want %d", len(factors), key, len(frequencies))
			break
		}
		for i := range frequencies {
			f, _ := factors[i].(float64)
			frequencies[i] /= cmp.Or(f, 1)
		}
	}
	if s.err != nil {
		c.fail("rope_scaling: %w", s.err)
	}
	m := cmp.Or(magnitude, 1)
	return frequencies, m * m
}
