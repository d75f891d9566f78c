// Package sampling chooses the next token of a text from a net's logits: the settings that
// fit.Net.Generate takes, and the choice itself as GoMLX.
//
//	text, err := net.Generate("To be", fit.Sampling{Length: 200, Temperature: 0.8, TopP: 0.95})
//
// The names and their meaning are those of Hugging Face's generate().
package sampling

import (
	"fmt"
	"math"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"
)

// Tokenizer turns a text into tokens, and back. data.Corpus is one.
type Tokenizer interface {
	Encode(text string) ([]int32, error)
	Decode(tokens []int32) string
}

// Sampling says how a text is generated. The zero value generates 100 tokens, each the most
// likely one.
type Sampling struct {
	Length      int     // tokens to generate at most; default: 100
	Temperature float64 // logits are divided by it; 0: the most likely token is taken (greedy)
	TopK        int     // only so many most likely tokens are considered; 0: all
	TopP        float64 // only the most likely tokens that together have this probability (nucleus sampling, Holtzman et al., 2020); 0: all
	Seed        int64   // of the random numbers: the same seed generates the same text

	Stop       []string // texts that end it, and are part of it; they need a tokenizer
	StopTokens []int32  // tokens that end it, such as the end of a text; they are part of it

	// Chat is the name of a conversation that the session keeps. The prompt continues it, in
	// later cells, after a restart of the kernel and after a crash. "": it is not kept.
	Chat    string
	Restart bool // forget what the chat has so far

	// Stream is called with each piece of text of the first prompt as it is generated.
	Stream func(text string)
	Quiet  bool // no display in a notebook
}

// Check says which setting means nothing, or has no use.
func (s Sampling) Check() error {
	sets := s.TopK > 0 || s.TopP > 0
	switch {
	case s.Length < 0:
		return fmt.Errorf("Length is %d: want 1 or more tokens, or 0 for 100", s.Length)
	case !(s.Temperature >= 0) || math.IsInf(s.Temperature, 0):
		return fmt.Errorf("Temperature is %g: want more than 0, such as 0.8, or 0 for the most likely token", s.Temperature)
	case s.TopK < 0:
		return fmt.Errorf("TopK is %d: want 1 or more, or 0 for all tokens", s.TopK)
	case !(s.TopP >= 0 && s.TopP <= 1):
		return fmt.Errorf("TopP is %g: want a probability, more than 0 and at most 1, or 0 for all tokens", s.TopP)
	case s.Temperature == 0 && sets:
		return fmt.Errorf("TopK is %d and TopP is %g, without a Temperature: the most likely token is taken anyway: want Temperature 1, or neither", s.TopK, s.TopP)
	case s.Restart && s.Chat == "":
		return fmt.Errorf("Restart is set without a Chat: want the name of the chat that begins again")
	}
	for _, stop := range s.Stop {
		if stop == "" {
			return fmt.Errorf("Stop has an empty text, which would end each text at once: want it left out")
		}
	}
	return nil
}

// Next are tokens [n] for logits [n vocab]. temperature and topP are float32 scalars, topK is an
// int32 scalar; nil: not used. random is the key of the random numbers and step the number of
// the token, uint64 scalars: both decide which are drawn. wrong [n] says where logits are NaN
// or +∞, or all -∞.
func Next(logits, temperature, topK, topP, random, step *Node) (tokens, wrong *Node) {
	best := ReduceMax(logits, 1)
	nan := ReduceMax(ConvertDType(IsNaN(logits), dtypes.Float32), 1)
	wrong = LogicalOr(LogicalNot(IsFinite(best)), GreaterThan(nan, ZerosLike(nan)))
	if temperature == nil {
		return ArgMax(logits, -1, dtypes.Int32), wrong
	}
	g, shape := logits.Graph(), logits.Shape()
	logits = Div(Sub(logits, InsertAxes(best, -1)), temperature)
	never := FillScalar(g, shape, math.Inf(-1))
	if topK != nil {
		logits = Where(atLeast(logits, OnesLike(logits), ConvertDType(topK, dtypes.Float32)), logits, never)
	}
	if topP != nil {
		logits = Where(atLeast(logits, Softmax(logits, -1), topP), logits, never)
	}
	// The largest of logits with noise of Gumbel's distribution is a draw from their softmax.
	// Each step has a key of its own: steps of one key would share numbers.
	zero, key := ZerosLike(random), Add(random, Mul(step, Const(g, uint64(0x9e3779b97f4a7c15))))
	_, uniform := RandomUniform(Stack([]*Node{key, zero, zero}, 0), shape)
	noise := Neg(Log(Neg(Log(MaxScalar(uniform, math.Pow(2, -33))))))
	return ArgMax(Add(logits, noise), -1, dtypes.Int32), wrong
}

// atLeast says which of x [n vocab] are among the largest ones whose weights add up to at
// least sum; those that equal the last one are too. It finds the last one bit by bit, as an
// integer of the same order.
func atLeast(x, weights, sum *Node) *Node {
	g, shape := x.Graph(), x.Shape().Clone()
	bits := Bitcast(x, dtypes.Int32)
	order := Where(LessThan(bits, ZerosLike(bits)), BitwiseXor(bits, FillScalar(g, bits.Shape(), math.MaxInt32)), bits)
	n := shape.Dimensions[0]
	enough := func(last *Node) *Node {
		in := GreaterOrEqual(order, BroadcastToDims(InsertAxes(last, -1), shape.Dimensions...))
		return GreaterOrEqual(ReduceSum(Where(in, weights, ZerosLike(weights)), 1), BroadcastToDims(sum, n))
	}
	one := shapes.Make(dtypes.Int32, n)
	last := Where(enough(Zeros(g, one)), Zeros(g, one), FillScalar(g, one, math.MinInt32))
	for bit := 30; bit >= 0; bit-- {
		larger := Add(last, FillScalar(g, one, float64(int64(1)<<bit)))
		last = Where(enough(larger), larger, last)
	}
	return GreaterOrEqual(order, BroadcastToDims(InsertAxes(last, -1), shape.Dimensions...))
}
