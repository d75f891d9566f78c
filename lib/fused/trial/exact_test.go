package main

import (
	"regexp"
	"testing"

	"gaiden/lib/models"
	"gaiden/lib/optim"
)

// TestDrill trains a small net both ways. On a CPU the fused one is the plain form of the
// same step: it learns as GoMLX's does, but for the order of sums, and with any noise the curve
// is another.
func TestDrill(t *testing.T) {
	d := serve(t)
	l := drill{training{name: "small", net: dense(models.ReLU, 24, 16, 10), batch: 250, n: examples}, optim.Adam{}.Rule(), 0.01}
	set := settings{only: regexp.MustCompile(""), epochs: 2}
	var all []*curve
	for _, arm := range arms {
		c := l.train(d, arm, set)
		if c.Note != "" || len(c.Losses) != 2 || c.Losses[1] > 0.9*c.Losses[0] || c.Right[1] < 0.4 || c.First <= 0 || c.Micros <= 0 {
			t.Fatalf("got %+v, want two epochs in which it learns", c)
		}
		all = append(all, &c)
	}
	measure(all)
	if fused := all[1].Apart; fused > 1e-3 {
		t.Errorf("got curves apart by %g, want next to nothing", fused)
	}
	seen := map[float64]string{}
	for _, c := range all[2:] {
		if c.Apart == 0 || c.Apart > 1e-3 || seen[c.Apart] != "" {
			t.Errorf("%s: got a curve apart by %g (%s: the same), want some noise, and other than another draw's", c.Kernels, c.Apart, seen[c.Apart])
		}
		seen[c.Apart] = c.Kernels
	}
}

// TestDrills holds that each drill's step has kernels, none of which rounds a factor.
func TestDrills(t *testing.T) {
	for _, l := range drills() {
		text, err := exact(step(l.net, l.batch, l.rule, false)).text()
		if err != nil {
			t.Fatal(err)
		}
		if n := len(regexp.MustCompile(`@__gpu\$xla\.gpu\.triton\(`).FindAll(text, -1)); n < 3 {
			t.Errorf("%s: got %d kernels, want a step of them", l.name, n)
		}
		if found := regexp.MustCompile(`@__gpu\$xla\.gpu\.ptx|inputPrecision = tf32|stablehlo\.(dot_general|convolution)`).Find(text); found != nil {
			t.Errorf("%s: got %s in its step, want float32 products in kernels", l.name, found)
		}
	}
}
