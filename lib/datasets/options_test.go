package datasets

import (
	"math"
	"strings"
	"testing"
)

// TestOptions holds that an address that is no folder's on the network is refused before
// anything is looked for.
func TestOptions(t *testing.T) {
	for _, mirror := range []string{"", "://", "mnist", "/data/mnist", "file:///data/mnist", "ftp://host/mnist", "http://", "https:host", "http://a b"} {
		o := Options{Dir: t.TempDir(), Context: t.Context(), Mirrors: []string{"https://host/mnist/", mirror}}
		for name, load := range map[string]func() error{
			"MNIST":    func() error { _, err := MNIST(o); return err },
			"Fashion":  func() error { _, err := Fashion(o); return err },
			"CIFAR-10": func() error { _, err := CIFAR10(o); return err },
		} {
			if err := load(); err == nil || !strings.Contains(err.Error(), "Options.Mirrors[1] is ") {
				t.Errorf("%s of %q: got %v, want it refused", name, mirror, err)
			}
		}
	}
}

// TestSinePeriod holds that a wave without a period is refused.
func TestSinePeriod(t *testing.T) {
	for _, period := range []float64{0, math.NaN(), math.Inf(1)} {
		func() {
			defer func() {
				if err, is := recover().(error); !is || !strings.Contains(err.Error(), "sine: period of ") {
					t.Errorf("period %g: got %v, want it refused", period, err)
				}
			}()
			Sine(3, period)
		}()
	}
}
