package elementwise

// X is the input of activations.
var X = Input("x")

// What a [Rule]'s expressions are made of, besides its moments.
var (
	Weight   = Input("weight")
	Gradient = Input("gradient")
	Rate     = Scalar("rate") // the learning rate
	Time     = Scalar("t")    // the number of the step, from 1
)

// Rule is the step of an optimizer: what becomes of a weight and of the numbers that are
// kept for it. nil stands for none: the gradient itself.
type Rule struct {
	Title  string   // a word: adam
	Kept   []string // names of the moments: inputs of the expressions
	Weight Expr     // after the step
	Next   []Expr   // the moments after the step
}

// Keep adds a moment with its value after the step, which begins at 0.
func (r *Rule) Keep(name string, next Expr) {
	r.Kept, r.Next = append(r.Kept, name), append(r.Next, next)
}

// Name is a word for the rule.
func (r *Rule) Name() string { return r.Title }

// Moments is how many numbers are kept for each weight.
func (r *Rule) Moments() int { return len(r.Kept) }

// Exprs are the moments after a step, and then the weight.
func (r *Rule) Exprs() []Expr { return append(r.Next[:len(r.Next):len(r.Next)], r.Weight) }

// Scalars are what is the same for all weights; see [Scalars].
func (r *Rule) Scalars() []Expr { return Scalars(r.Exprs()...) }

// Squares says of each moment whether it is never negative: whether a first step with a
// negative gradient makes it positive.
func (r *Rule) Squares() (l []bool) {
	state := make([]float64, 1+len(r.Kept))
	for _, x := range Step(Float64, r, map[string]float64{Rate.Key(): 1, Time.Key(): 1}, state, -1)[1:] {
		l = append(l, x > 0)
	}
	return l
}

// Step computes a step: a weight and its moments, state, after it. values are those of
// [Rate] and [Time], or of what Scalars returns, by their Keys.
func Step[V any](ops Ops[V], r *Rule, values map[string]V, state []V, gradient V) []V {
	all := map[string]V{Weight.Key(): state[0], Gradient.Key(): gradient}
	for name, v := range values {
		all[name] = v
	}
	for i, name := range r.Kept {
		all[name] = state[1+i]
	}
	scalars := r.Scalars() // first: they are no work for each element
	next := Eval(ops, all, append(scalars, r.Exprs()...)...)[len(scalars):]
	n := len(next) - 1
	return append([]V{next[n]}, next[:n]...)
}
