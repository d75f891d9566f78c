package lower

import (
	"testing"

	"gaiden/lib/engine/wire"
)

func TestTargetOf(t *testing.T) {
	for _, c := range []struct {
		welcome wire.WelcomeBody
		want    Target
		text    string
		hopper  bool
	}{
		{wire.WelcomeBody{}, Target{}, "CPU", false},
		{wire.WelcomeBody{Platform: "cpu", Devices: []wire.DeviceInfo{{Kind: "cpu", Memory: 8 << 30}}},
			Target{Platform: "cpu", Kind: "cpu", Devices: 1, Memory: 8 << 30}, "CPU", false},
		{wire.WelcomeBody{Platform: "CUDA", Devices: []wire.DeviceInfo{{Kind: "NVIDIA H200", Capability: "9.0", Memory: 1 << 37}, {}}},
			Target{Platform: "cuda", Kind: "NVIDIA H200", Capability: "9.0", Memory: 1 << 37, Devices: 2, Triton: true, CuDNN: true},
			"CUDA NVIDIA H200, compute capability 9.0, 2 devices", true},
		{wire.WelcomeBody{Platform: "cuda", Devices: []wire.DeviceInfo{{Capability: "8.0"}}},
			Target{Platform: "cuda", Capability: "8.0", Devices: 1, Triton: true, CuDNN: true}, "CUDA, compute capability 8.0", false},
		{wire.WelcomeBody{Platform: "cuda", Devices: []wire.DeviceInfo{{Kind: "Tesla T4", Capability: "7.5"}}}, // cuDNN's attention is for Ampere and newer
			Target{Platform: "cuda", Kind: "Tesla T4", Capability: "7.5", Devices: 1, Triton: true}, "CUDA Tesla T4, compute capability 7.5", false},
		{wire.WelcomeBody{Platform: "rocm", Devices: []wire.DeviceInfo{{Kind: "gfx942", Capability: "9.0"}}},
			Target{Platform: "rocm", Kind: "gfx942", Capability: "9.0", Devices: 1}, "ROCM gfx942, compute capability 9.0", false},
	} {
		got := TargetOf(c.welcome)
		if got != c.want || got.String() != c.text || got.Hopper() != c.hopper {
			t.Errorf("target of %+v is %+v, %q, Hopper %t: want %+v, %q, %t", c.welcome, got, got, got.Hopper(), c.want, c.text, c.hopper)
		}
	}
}
