package lower

import (
	"fmt"

	"github.com/gomlx/compute/dtypes"
)

// Attention is the shape of attention with multiple heads.
type Attention struct {
	N, Queries, Keys    int
	Heads, Groups, Size int // of queries; of keys and values; numbers of a head
	Window              int // how far a query sees; 0: all
	DType               dtypes.DType
	Causal              bool // a query does not see keys after it
	// Masked says that scores are more than scaled products, and that a query sees other keys
	// than all, or those up to its own position: what cuDNN's attention does not have.
	Masked bool
}

// AttentionForm is how attention is computed.
type AttentionForm int

const (
	// AutomaticAttention is what Attention.Choose finds best.
	AutomaticAttention AttentionForm = iota
	// PlainAttention has the scores of all queries and keys in memory.
	PlainAttention
	// BlockwiseAttention has those of a block of queries and a block of keys, which are
	// computed again on the backward pass.
	BlockwiseAttention
	// CuDNNAttention is cuDNN's, where it has it, and else plain.
	CuDNNAttention
)

// AttentionChoice is how attention is computed.
type AttentionChoice struct {
	Form          AttentionForm
	Queries, Keys int // of a block
}

// Scores is how many there are.
func (a Attention) Scores() int { return a.N * a.Heads * a.Queries * a.Keys }

// Choose decides how attention is computed.
func (a Attention) Choose(t Target, o Options) AttentionChoice {
	c := o.Attention
	if c.Form == AutomaticAttention {
		c.Form = PlainAttention
		switch {
		case t.CPU() && a.Scores() >= blockwiseScores:
			c.Form = BlockwiseAttention
		case !t.CPU() && a.Queries >= cuDNNQueries:
			c.Form = CuDNNAttention
		}
	}
	if c.Form == CuDNNAttention && !a.cuDNN(t) {
		c.Form = PlainAttention
	}
	if c.Form == BlockwiseAttention && c.Queries == 0 {
		c.Queries = largestBlock
		for c.Queries > smallestBlock && (a.N*a.Heads*c.Queries*c.Queries > blockScores || a.Window > 0 && 2*c.Queries > a.Window) {
			c.Queries /= 2
		}
		c.Keys = c.Queries
	}
	return c
}

// cuDNN says whether cuDNN has this attention: 16-bit numbers, and heads of a multiple of 8
// numbers up to 128, or 256 on a Hopper GPU.
func (a Attention) cuDNN(t Target) bool {
	most := 128
	if t.Hopper() {
		most = 256
	}
	return t.CuDNN && !a.Masked && (a.DType == dtypes.BFloat16 || a.DType == dtypes.Float16) && a.Size%8 == 0 && a.Size <= most && (a.Window == 0 || a.Causal)
}

// Reason says in words why.
func (a Attention) Reason(t Target, o Options) string {
	what := fmt.Sprintf("%d × %d scores of %d heads", a.Queries, a.Keys, a.N*a.Heads)
	c := a.Choose(t, o)
	if c.Form == CuDNNAttention {
		return "cuDNN's: " + what + " do not lie in memory"
	}
	if c.Form == BlockwiseAttention {
		return fmt.Sprintf("in blocks of %d × %d: %s would take %d MiB of memory", c.Queries, c.Keys, what, a.Scores()>>18)
	}
	return "plain: " + what + " at once"
}
