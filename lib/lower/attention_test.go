package lower

import (
	"strings"
	"testing"

	"github.com/gomlx/compute/dtypes"
)

// TestAttention holds how attention is computed, in which blocks, and what the plan says of it.
func TestAttention(t *testing.T) {
	cpu, hopper := Target{}, Target{Platform: "cuda", Triton: true, CuDNN: true, Capability: "9.0"}
	flash := Options{Attention: AttentionChoice{Form: CuDNNAttention}}
	shape := func(n, length, heads, size, window int) Attention {
		return Attention{N: n, Queries: length, Keys: length, Heads: heads, Groups: heads, Size: size, Window: window, DType: dtypes.BFloat16, Causal: true}
	}
	masked := shape(1, 512, 4, 64, 0)
	masked.Masked = true
	aside := shape(8, 1024, 12, 64, 100)
	aside.Causal = false
	for _, tt := range []struct {
		name    string
		shape   Attention
		target  Target
		options Options
		want    AttentionChoice
		reason  string
	}{
		{"tiny GPT", shape(12, 64, 4, 32, 0), cpu, Options{}, AttentionChoice{Form: PlainAttention}, "plain: 64 × 64 scores of 48 heads at once"},
		{"one long text", shape(1, 2048, 4, 64, 0), cpu, Options{}, AttentionChoice{BlockwiseAttention, 256, 256}, "in blocks of 256 × 256: 2048 × 2048 scores of 4 heads would take 64 MiB"},
		{"many heads", shape(4, 512, 8, 64, 0), cpu, Options{}, AttentionChoice{BlockwiseAttention, 128, 128}, ""},
		{"many examples", shape(64, 128, 4, 16, 0), cpu, Options{}, AttentionChoice{BlockwiseAttention, 64, 64}, ""},
		{"a window", shape(1, 2048, 4, 64, 256), cpu, Options{}, AttentionChoice{BlockwiseAttention, 128, 128}, ""},
		{"a GPU", shape(8, 1024, 12, 64, 0), hopper, Options{}, AttentionChoice{Form: CuDNNAttention}, "cuDNN's: 1024 × 1024 scores of 96 heads do not lie in memory"},
		{"a GPU, short", shape(8, 64, 12, 64, 0), hopper, Options{}, AttentionChoice{Form: PlainAttention}, "plain"},
		{"cuDNN, short", shape(8, 64, 12, 256, 0), hopper, flash, AttentionChoice{Form: CuDNNAttention}, "cuDNN's"},
		{"cuDNN, window", shape(8, 1024, 12, 64, 100), hopper, flash, AttentionChoice{Form: CuDNNAttention}, "cuDNN's"},
		{"cuDNN, window to both sides", aside, hopper, flash, AttentionChoice{Form: PlainAttention}, "plain"},
		{"cuDNN, masked", masked, hopper, flash, AttentionChoice{Form: PlainAttention}, "plain"},
		{"cuDNN on a CPU", shape(8, 1024, 12, 64, 0), cpu, flash, AttentionChoice{Form: PlainAttention}, "plain"},
	} {
		if got := tt.shape.Choose(tt.target, tt.options); got != tt.want {
			t.Errorf("%s: got %+v, want %+v", tt.name, got, tt.want)
		}
		if got := tt.shape.Reason(tt.target, tt.options); !strings.HasPrefix(got, tt.reason) {
			t.Errorf("%s: reason %q, want %q", tt.name, got, tt.reason)
		}
	}
}

// TestHead holds in how many pieces logits are computed.
func TestHead(t *testing.T) {
	for _, tt := range []struct {
		rows, classes int
		piece         int64
		cpu, gpu      int
	}{
		{768, 65, 0, 0, 0}, {4096, 16383, 0, 0, 0}, {4096, 16384, 0, 4, 1}, {8192, 50304, 0, 25, 1}, {16384, 50304, 0, 50, 2}, {10, 8, 4 * 8 * 3, 4, 4}, {2, 1 << 28, 0, 2, 1}, {10, 8, 1 << 40, 0, 1},
	} {
		h, o := Head{Rows: tt.rows, Classes: tt.classes}, Options{LogitsBytes: tt.piece}
		if cpu, gpu := h.Pieces(Target{}, o), h.Pieces(Target{Platform: "cuda", Memory: 140 << 30}, o); cpu != tt.cpu || gpu != tt.gpu {
			t.Errorf("%d rows × %d classes, pieces of %d bytes: got %d on a CPU and %d on a GPU, want %d and %d", tt.rows, tt.classes, tt.piece, cpu, gpu, tt.cpu, tt.gpu)
		}
	}
}
