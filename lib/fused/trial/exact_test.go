package main

import (
	"regexp"
	"testing"

	"gaiden/lib/engine/triton/kernels"
	"gaiden/lib/models"
)

// TestDrill trains a small net both ways. On a CPU the fused one is the plain form of the
// same step: it learns as GoMLX's does, but for the order of sums, and from weights that are
// nudged the curve is another.
func TestDrill(t *testing.T) {
	d := serve(t)
	l := drill{training{name: "small", net: dense(models.ReLU, 24, 16, 10), batch: 250, n: examples}, kernels.Adam{}, 0.01}
	set := settings{only: regexp.MustCompile(""), epochs: 2}
	var all []*curve
	for _, kind := range kinds {
		c := l.train(d, kind, set)
		if c.Note != "" || len(c.Losses) != 2 || c.Losses[1] > 0.9*c.Losses[0] || c.Right[1] < 0.4 || c.First <= 0 || c.Micros <= 0 {
			t.Fatalf("got %+v, want two epochs in which it learns", c)
		}
		all = append(all, &c)
	}
	measure(all)
	if all[2].Apart == all[3].Apart {
		t.Errorf("got the same curve from both draws")
	}
	if fused, noise := all[1].Apart, all[2].Apart; fused > 1e-3 || noise == 0 || noise > 1e-3 {
		t.Errorf("got curves apart by %g, and by %g of float32's noise, want both small, and some noise", fused, noise)
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
