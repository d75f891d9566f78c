package models

import (
	"cmp"

	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/ml/model"
)

// FeedForward is two dense layers with an activation between them, at each time step.
type FeedForward struct {
	Name    string
	Hidden  int     // units of the first one; default: 4 times the width of x
	Act     Act     // default: GELU
	Gated   bool    // multiplies act(x·gate) by x·up (Shazeer, 2020): with SiLU it is Llama's SwiGLU
	Dropout float64 // of the result
	NoBias  bool
	Init    Init // of the weights; default: Glorot
}

func (l FeedForward) Title() (name, kind string) { return l.Name, "FeedForward" }

func (l FeedForward) check() error {
	return cmp.Or(usual("Hidden", l.Hidden, "4 times the width"), share("Dropout", l.Dropout))
}

// Apply takes x shaped [n … width] and returns the same shape.
func (l FeedForward) Apply(scope *model.Scope, x *Node) *Node {
	must(l)
	width, act := lastAxis(x), l.Act
	if act == nil {
		act = GELU
	}
	hidden := cmp.Or(l.Hidden, 4*width)
	dense := func(name string, units int, act Act) scoped {
		return scoped{Dense{Units: units, Act: act, NoBias: l.NoBias, Init: l.Init}, scope.In("%s", name)}
	}
	var y *Node
	if l.Gated {
		both := denses(x, dense("gate", hidden, act), dense("up", hidden, nil))
		y = Mul(both[0], both[1])
	} else {
		y = denses(x, dense("up", hidden, act))[0]
	}
	return Dropout{Rate: l.Dropout}.Apply(scope, denses(y, dense("down", width, nil))[0])
}

// TransformerBlock is self-attention and a feed-forward net, each on normalized input and
// added to it (Vaswani et al., 2017, with the norms first, as in GPT-2). With RMSNorm, RoPE,
// Gated, NoBias and SiLU it is Llama's.
type TransformerBlock struct {
	Name    string
	Heads   int
	KVHeads int     // as in [Attention]
	Hidden  int     // as in [FeedForward]
	Causal  bool    // a time step does not see those after it
	Window  int     // as in [Attention]
	RoPE    float64 // as in [Attention]
	ALiBi   bool    // as in [Attention]
	Act     Act     // of the feed-forward net; default: GELU
	Gated   bool    // as in [FeedForward]
	RMSNorm bool    // normalizes by root mean squares rather than by mean and variance
	Dropout float64 // of attention weights, and of what is added
	NoBias  bool
	Init    Init // of the weights; default: Glorot
}

func (l TransformerBlock) Title() (name, kind string) { return l.Name, "TransformerBlock" }

func (l TransformerBlock) check() error {
	return cmp.Or(l.attention().check(), l.feedForward().check())
}

func (l TransformerBlock) attention() Attention {
	return Attention{Name: "attention", Heads: l.Heads, KVHeads: l.KVHeads, Causal: l.Causal, Window: l.Window, RoPE: l.RoPE, ALiBi: l.ALiBi, Dropout: l.Dropout, NoBias: l.NoBias, Init: l.Init}
}

func (l TransformerBlock) feedForward() FeedForward {
	return FeedForward{Name: "feedforward", Hidden: l.Hidden, Act: l.Act, Gated: l.Gated, Dropout: l.Dropout, NoBias: l.NoBias, Init: l.Init}
}

// Apply takes x shaped [n length width] and returns the same shape.
func (l TransformerBlock) Apply(scope *model.Scope, x *Node) *Node {
	must(l)
	sequences(x)
	return sequence(l.halves(), scope, x)
}
