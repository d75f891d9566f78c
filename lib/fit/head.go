package fit

import (
	"reflect"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"

	"gaiden/lib/gradient"
	"gaiden/lib/losses"
	"gaiden/lib/lower"
	"gaiden/lib/metrics"
	"gaiden/lib/models"
)

// head is a product that may have made logits: rows [rows in] and weights [in classes]. biases
// may be nil.
type head struct{ rows, weights, biases, product *Node }

// made says whether the net returns the product, but for its shape and type.
func (h *head) made(out *Node) bool {
	for h != nil && out != h.product {
		switch out.Type() {
		case NodeTypeIdentity, NodeTypeReshape, NodeTypeConvertDType:
			out = out.Inputs()[0]
		default:
			return false
		}
	}
	return h != nil
}

// headOf is the shape of the last layer's product for so many examples, if cross entropy can
// be computed with it in pieces. why says what stands against that, where there are labels.
func (n *Net) headOf(s *Set, examples int) (h lower.Head, why string) {
	if _, is := n.lossOf(s).(losses.CrossEntropy); !is || !n.labelled(s) || len(n.output) == 0 {
		return h, ""
	}
	h.Rows, h.Classes = examples, n.output[len(n.output)-1]
	for _, d := range n.positions() {
		h.Rows *= d
	}
	layers := n.model.Listed().Layers
	switch l := layers[len(layers)-1].(type) {
	case models.Dense:
		if l.Act != nil {
			why = "the last layer has an activation"
		}
	case models.Tied:
		if (models.Net{Int8: n.model.Int8}).Adapted(l.Of) {
			why = "the table of the last layer has int8 weights"
		}
	default:
		why = "the last layer is neither a Dense nor a Tied"
	}
	if names := n.model.Names(); n.model.Adapted(names[len(names)-1]) {
		why = "the last layer is not its weights alone (LoRA or Int8)"
	}
	if n.mixes {
		why = "MixUp mixes targets"
	}
	for _, m := range n.config.Metrics {
		if _, is := m.(metrics.Func); is || reflect.TypeOf(m).PkgPath() != reflect.TypeFor[metrics.Func]().PkgPath() {
			why = "metric " + m.Title() + " takes the logits of whole examples"
		}
	}
	return h, why
}

// results are those of a batch: the sum of its losses, the number it is divided by, how many
// answers were right, and the sums of metrics (nil without). mask is 0 for examples that do not
// count.
func (t *trace) results(s *Set, out *Node, b batch, mask *Node) (sum, weight, right, measured *Node) {
	h, why := t.net.headOf(s, out.Shape().Dimensions[0])
	if pieces := h.Pieces(t.w.target, t.w.options); pieces > 0 && why == "" && t.w.head.made(out) {
		return t.inPieces(s, *t.w.head, pieces, b, mask)
	}
	sum, weight, right = t.score(t.net.lossOf(s), out, b, mask)
	return sum, weight, right, t.sums(s, out, b, mask, right)
}

// headPieces are the rows of a batch for a head, cut into pieces of one size.
type headPieces struct {
	t             *trace
	set           *Set
	loss          losses.CrossEntropy
	x             *Node // rows [pieces size in]
	w, biases     *Node // the biases may be nil
	labels, v     *Node // [pieces size]; v may be nil, as counts may
	counts        *Node // 0 for rows that do not count
	layer         string
	first, number int // of the gradients in the state of the loop, and of pieces
}

// inPieces is results with the logits of some rows at a time, each of which counts as an
// example there. The logits' gradients are used at once, for those of rows, weights and
// biases, which wait for that of the loss.
func (t *trace) inPieces(s *Set, h head, pieces int, b batch, mask *Node) (sum, weight, right, measured *Node) {
	n, rows := b.y.Shape().Dimensions[0], b.y.Shape().Size()
	size := (rows + pieces - 1) / pieces
	pieces = (rows + size - 1) / size
	cut := func(x *Node) *Node { // [rows …] to [pieces size …]
		if x == nil {
			return nil
		}
		d := x.Shape().Dimensions[1:]
		if lack := pieces*size - rows; lack > 0 {
			x = Concatenate([]*Node{x, Zeros(t.g, shapes.Make(x.DType(), append([]int{lack}, d...)...))}, 0)
		}
		return Reshape(x, append([]int{pieces, size}, d...)...)
	}
	each := func(x *Node) *Node { // of examples or rows, for rows
		if x == nil {
			return nil
		}
		return Reshape(losses.Spread(x, b.y), rows)
	}
	full := mask == nil
	if full && rows%size != 0 {
		mask = Ones(t.g, shapes.Make(dtypes.Float32, n))
	}
	names := t.net.model.Names()
	p := &headPieces{t: t, set: s, loss: t.net.lossOf(s).(losses.CrossEntropy), x: cut(StopGradient(h.rows)), w: StopGradient(h.weights), biases: h.biases,
		labels: cut(Reshape(b.y, rows)), v: cut(each(b.v)), counts: cut(each(mask)), layer: names[len(names)-1], number: pieces}
	added := t.added
	t.added = nil
	state := p.all()
	sum, weight, right = state[0], state[1], state[2]
	if p.first > 3 {
		measured = state[3]
	}
	if t.training {
		wrt := []*Node{h.weights}
		if h.biases != nil {
			wrt = append(wrt, h.biases)
		}
		last := len(state) - 1
		state[last] = Slice(Reshape(state[last], pieces*size, -1), AxisRange(0, rows))
		sum = gradient.Define(sum, append(wrt, h.rows), func(v *Node) (l []*Node) {
			t.mark(p.layer + "/backward")
			for _, x := range state[p.first:] {
				l = append(l, Mul(x, ConvertDType(v, x.DType())))
			}
			return l
		})
	}
	if p.loss.Plain() && (b.v == nil || b.v.Rank() == 1) { // an example's loss is the mean of its rows
		sum, weight = DivScalar(sum, float64(rows/n)), DivScalar(weight, float64(rows/n))
		if b.v == nil && full {
			weight = t.scalar(float32(n))
		}
	}
	if added != nil {
		sum = Add(sum, Mul(added, weight))
	}
	return sum, weight, right, measured
}

// all does all pieces: the sums of losses, weights, right answers and metrics, and, in training,
// the gradients for weights, biases and rows.
func (p *headPieces) all() []*Node {
	t := p.t
	state := []*Node{t.scalar(float32(0)), t.scalar(float32(0)), t.scalar(float32(0))}
	if sums := t.net.measured(p.set).size(); sums > 0 {
		state = append(state, Zeros(t.g, shapes.Make(dtypes.Float32, sums)))
	}
	p.first = len(state)
	if t.training {
		state = append(state, Zeros(t.g, shapes.Make(dtypes.Float32, p.w.Shape().Dimensions...)))
		if p.biases != nil {
			state = append(state, Zeros(t.g, shapes.Make(dtypes.Float32, p.biases.Shape().Dimensions...)))
		}
		state = append(state, ZerosLike(p.x))
	}
	// The first piece is not in the loop: see accumulated.
	zero, one, limit := t.scalar(int32(0)), t.scalar(int32(1)), t.scalar(int32(p.number))
	if state = p.turn(zero, state); p.number > 1 {
		state = t.while(one, one, limit, state, p.turn)
	}
	for i := range state {
		state[i] = StopGradient(state[i])
	}
	return state
}

// turn does one piece.
func (p *headPieces) turn(i *Node, state []*Node) []*Node {
	t := p.t
	at := func(x *Node) *Node {
		if x == nil {
			return nil
		}
		return Reshape(window(i, 1, ZerosLike(i))(x), x.Shape().Dimensions[1:]...)
	}
	t.mark(p.layer + "/forward")
	x := at(p.x)
	logits := MatMul(x, p.w)
	if p.biases != nil {
		logits = Add(logits, ExpandLeftToRank(StopGradient(p.biases), 2))
	}
	if logits.DType() != dtypes.Float32 {
		logits = OptimizationBarriers(logits)[0] // else a GPU has them in memory as float32
	}
	wide := t.float(logits)
	piece, counts := batch{y: at(p.labels), v: at(p.v)}, at(p.counts)
	var slope *Node
	if t.training && p.loss.Plain() {
		slope = t.slope(p.loss, wide, &piece, counts)
	}
	sum, weight, right := t.score(p.loss, wide, piece, counts)
	next := []*Node{sum, weight, right}
	if m := t.sums(p.set, wide, piece, counts, right); m != nil {
		next = append(next, m)
	}
	if t.training && slope == nil {
		t.mark("loss/backward")
		slope = gradient.Final(sum, logits)[0]
	}
	var low *Node
	if t.training {
		t.mark(p.layer + "/backward")
		low = ConvertDType(slope, p.w.DType())
		next = append(next, t.float(DotGeneral(x, []int{0}, nil, low, []int{0}, nil)))
		if p.biases != nil {
			next = append(next, ReduceSum(t.float(slope), 0))
		}
	}
	for k, more := range next {
		next[k] = Add(state[k], more)
	}
	if t.training {
		toRows := Reshape(DotGeneral(low, []int{1}, nil, p.w, []int{1}, nil), append([]int{1}, x.Shape().Dimensions...)...)
		next = append(next, DynamicUpdateSlice(state[len(next)], toRows, []*Node{i, ZerosLike(i), ZerosLike(i)}))
	}
	return next
}

// slope is the gradient of the logits of a piece, and computes its losses, which the piece has
// then. The sum that score makes of rows' losses is one of products with factors, which are its
// gradient.
func (t *trace) slope(loss losses.CrossEntropy, logits *Node, piece *batch, counts *Node) (slope *Node) {
	some := *piece
	some.rows = Zeros(t.g, shapes.Make(dtypes.Float32, piece.y.Shape().Dimensions...))
	some.hits = some.rows
	sum, _, _ := t.score(loss, logits, some, counts)
	factors := gradient.Final(sum, some.rows)[0]
	t.mark("loss/forward")
	if t.manyClasses(loss, logits) {
		var ok bool
		if piece.rows, piece.hits, slope, ok = t.w.kernels().CrossEntropyGradient(narrowest(logits), piece.y, factors); ok {
			return slope
		}
	}
	piece.rows, piece.hits = loss.Rows(logits, piece.y), nil
	t.mark("loss/backward")
	return Mul(Sub(Softmax(logits, -1), OneHot(piece.y, logits.Shape().Dimensions[1], logits.DType())), ExpandDims(factors, -1))
}
