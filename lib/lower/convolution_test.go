package lower

import (
	"testing"

	"github.com/gomlx/compute/dtypes"
)

// TestChoose holds how convolutions are computed.
func TestChoose(t *testing.T) {
	cpu, gpu := Target{}, Target{Platform: "cuda", Triton: true}
	one := [2][2]int{{1, 1}, {1, 1}}
	two := [2][2]int{{2, 2}, {2, 2}}
	oneDNN := Options{OneDNN: true}
	for _, tt := range []struct {
		name        string
		convolution Convolution
		target      Target
		options     Options
		want        Choice
	}{
		{"SeedCNN, CPU", Convolution{[4]int{100, 28, 28, 1}, 10, 3, 1, one, dtypes.Float32}, cpu, Options{},
			Choice{Algorithm: Library, Split: Split{Output: true, Rows: true, Weights: true, Parts: 1}}},
		{"SeedCNN, GPU", Convolution{[4]int{100, 28, 28, 1}, 10, 3, 1, one, dtypes.Float32}, gpu, Options{}, Choice{Algorithm: Patches}},
		{"patches that leave the cache, GPU", Convolution{[4]int{73, 48, 48, 3}, 26, 5, 1, two, dtypes.Float32}, gpu, Options{}, Choice{Algorithm: Library, In: 4, Out: 28}},
		{"a platform without kernels is no CPU", Convolution{[4]int{8, 28, 28, 3}, 10, 3, 1, one, dtypes.Float32}, Target{Platform: "tpu"}, Options{}, Choice{Algorithm: Patches}},
		{"KerasCNN's second, CPU", Convolution{[4]int{128, 26, 26, 32}, 64, 3, 1, [2][2]int{}, dtypes.Float32}, cpu, Options{}, Choice{Algorithm: Winograd, Tile: 4}},
		{"KerasCNN's second, oneDNN", Convolution{[4]int{128, 26, 26, 32}, 64, 3, 1, [2][2]int{}, dtypes.Float32}, cpu, oneDNN,
			Choice{Algorithm: Library, Split: Split{Weights: true, Parts: 3}}},
		{"in bfloat16", Convolution{[4]int{128, 26, 26, 32}, 64, 3, 1, [2][2]int{}, dtypes.BFloat16}, cpu, Options{}, Choice{Algorithm: Library, Split: Split{Parts: 3}}},
		{"KerasCNN's second, GPU", Convolution{[4]int{128, 26, 26, 32}, 64, 3, 1, [2][2]int{}, dtypes.Float32}, gpu, Options{}, Choice{Algorithm: Library}},
		{"few taps, GPU", Convolution{[4]int{4, 8, 8, 32}, 64, 3, 1, one, dtypes.Float32}, gpu, Options{}, Choice{Algorithm: Library, Split: Split{Taps: true}}},
		{"DeepPose's second, CPU", Convolution{[4]int{32, 27, 27, 96}, 256, 5, 1, two, dtypes.Float32}, cpu, Options{}, Choice{Algorithm: Winograd, Tile: 3}},
		{"DeepPose's first, CPU", Convolution{[4]int{128, 227, 227, 3}, 96, 11, 4, [2][2]int{}, dtypes.Float32}, cpu, Options{}, Choice{Algorithm: Library, Split: Split{Parts: 48}}},
		{"channels of no whole words, GPU", Convolution{[4]int{207, 28, 28, 43}, 43, 3, 1, one, dtypes.Float32}, gpu, Options{}, Choice{Algorithm: Library, In: 44, Out: 44}},
		{"the same, bfloat16", Convolution{[4]int{207, 28, 28, 43}, 64, 3, 1, one, dtypes.BFloat16}, gpu, Options{}, Choice{Algorithm: Library, In: 48, Out: 64}},
		{"words that would be mostly zeros, GPU", Convolution{[4]int{207, 48, 48, 9}, 5, 3, 1, one, dtypes.BFloat16}, gpu, Options{}, Choice{Algorithm: Library}},
		{"1×1", Convolution{[4]int{64, 16, 16, 64}, 256, 1, 1, [2][2]int{}, dtypes.Float32}, gpu, Options{}, Choice{Algorithm: Patches}},
		{"a stride, CPU", Convolution{[4]int{64, 16, 16, 64}, 64, 3, 2, one, dtypes.Float32}, cpu, Options{}, Choice{Algorithm: Patches}},
		{"a stride, GPU", Convolution{[4]int{512, 16, 16, 64}, 64, 3, 2, one, dtypes.Float32}, gpu, Options{}, Choice{Algorithm: Library}},
		{"an image of 2×2", Convolution{[4]int{64, 2, 2, 512}, 512, 3, 1, one, dtypes.Float32}, gpu, Options{}, Choice{Algorithm: WholeImage}},
		{"one channel, oneDNN", Convolution{[4]int{4, 13, 6, 2}, 1, 1, 1, [2][2]int{}, dtypes.Float32}, cpu, oneDNN, Choice{Algorithm: Patches}},
		{"an image smaller than the kernel", Convolution{[4]int{100, 10, 10, 16}, 120, 6, 1, [2][2]int{}, dtypes.Float32}, cpu, Options{},
			Choice{Algorithm: Library, Split: Split{Image: true, Parts: 1}}},
	} {
		if got := tt.convolution.Choose(tt.target, tt.options); got != tt.want {
			t.Errorf("%s: got %+v, want %+v", tt.name, got, tt.want)
		}
	}
}

// TestBiasParts holds which sums of rows are cut for a GPU.
func TestBiasParts(t *testing.T) {
	for _, tt := range []struct {
		platform   string
		rows, want int
	}{{"cpu", 1024, 1}, {"cuda", 1024, 8}, {"cuda", 384, 3}, {"cuda", 130, 1}, {"cuda", 17, 1}, {"cuda", 8192, 64}, {"cuda", 8320, 1}, {"rocm", 260, 2}} {
		if got := BiasParts(Target{Platform: tt.platform}, tt.rows); got != tt.want {
			t.Errorf("%s, %d rows: got %d parts, want %d", tt.platform, tt.rows, got, tt.want)
		}
	}
}
