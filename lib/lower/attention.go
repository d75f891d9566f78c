package lower

import "fmt"

// Attention is the shape of attention with multiple heads.
type Attention struct {
	N, Queries, Keys    int
	Heads, Groups, Size int // of queries; of keys and values; numbers of a head
	Window              int // how far a query sees; 0: all
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
		if t.CPU() && a.Scores() >= blockwiseScores {
			c.Form = BlockwiseAttention
		}
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

// Reason says in words why.
func (a Attention) Reason(t Target, o Options) string {
	what := fmt.Sprintf("%d × %d scores of %d heads", a.Queries, a.Keys, a.N*a.Heads)
	if c := a.Choose(t, o); c.Form == BlockwiseAttention {
		return fmt.Sprintf("in blocks of %d × %d: %s would take %d MiB of memory", c.Queries, c.Keys, what, a.Scores()>>18)
	}
	return "plain: " + what + " fit in memory"
}
