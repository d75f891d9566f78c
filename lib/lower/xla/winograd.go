package xla

import (
	. "github.com/gomlx/gomlx/core/graph"

	"gaiden/lib/lower"
)

// winograd is a convolution of stride 1 by Winograd's minimal filtering (Lavin and
// Gray, 2015, "Fast algorithms for convolutional neural networks"). The outputs are
// divided into tiles, of out outputs a side. What a tile sees of the image, and the
// kernel, are turned to out+taps-1 values a side, for which the convolution is a
// product of each with each:
//
//	tile = Aᵀ [(G kernel Gᵀ) ⊙ (Bᵀ seen B)] A
//
// The sums over channels are matmuls, one for each value. The gradients
// are transposes of this.
//
// 3×3 kernels and tiles of 3×3 take 25 multiplications for 81, and numbers that are
// not small differences of large ones: float32 keeps six digits where XLA's convolution
// keeps seven.
type winograd struct {
	out, taps int
	a, g, b   matrix // Aᵀ [out values], G [values taps], Bᵀ [values values]
}

// convolve is the convolution of images [n height width in] with weights
// [taps taps in out].
func (w winograd) convolve(x, weights *Node, pads [2][2]int) *Node {
	d, y := x.Shape().Dimensions, StopGradient(w.output(x, weights, pads))
	y = derived(y, weights, func(v *Node) *Node { return w.weights(x, v, pads) })
	return derived(y, x, func(v *Node) *Node { return w.image(v, weights, d[1], d[2], pads) })
}

// output is the convolution, without gradients.
func (w winograd) output(x, weights *Node, pads [2][2]int) *Node {
	d, channels := x.Shape().Dimensions, weights.Shape().Dimensions[3]
	var out [2]int
	for i, p := range pads {
		out[i] = d[1+i] + p[0] + p[1] - w.taps + 1
	}
	tall, wide := w.tiles(out[0]), w.tiles(out[1])
	one := func(x *Node, kernels []*Node) *Node {
		l := w.spread(w.framed(x, pads, tall, wide, w.taps-1), w.b, tall, wide)
		for i, k := range kernels {
			l[i] = DotGeneral(l[i], []int{2}, []int{0}, k, []int{1}, []int{0})
		}
		return Slice(w.gathered(l, x.Shape().Dimensions[0], tall, wide), AxisRange(), AxisRange(0, out[0]), AxisRange(0, out[1]))
	}
	kernels := w.kernels(weights)
	size := w.part(d[0], tall*wide*(d[3]+channels))
	if size == d[0] {
		return one(x, kernels)
	}
	parts, rest := split(x, size)
	all := BroadcastToDims(number(x, 0), parts.Shape().Dimensions[0], size, out[0], out[1], channels)
	end := timeSteps(parts.Shape().Dimensions[0], append([]*Node{all, parts}, kernels...), func(at func(*Node) *Node, put func(all, one *Node) *Node, s []*Node) []*Node {
		return append([]*Node{put(s[0], alone(one(at(s[1]), s[2:])))}, s[1:]...)
	}, false)
	y := Reshape(end[0], d[0]/size*size, out[0], out[1], channels)
	if rest != nil {
		y = Concatenate([]*Node{y, one(rest, kernels)}, 0)
	}
	return y
}

// image is the gradient of images of height × width, where v is that of the output: a
// convolution with the kernels turned around.
func (w winograd) image(v, weights *Node, height, width int, pads [2][2]int) *Node {
	d := v.Shape().Dimensions
	var back [2][2]int
	for i, side := range []int{height, width} {
		back[i][0] = w.taps - 1 - pads[i][0]
		back[i][1] = side + w.taps - 1 - d[1+i] - back[i][0]
	}
	return w.output(v, TransposeAllAxes(Reverse(weights, 0, 1), 0, 1, 3, 2), back)
}

// weights is the gradient of the weights.
func (w winograd) weights(x, v *Node, pads [2][2]int) *Node {
	d, out := x.Shape().Dimensions, v.Shape().Dimensions
	tall, wide := w.tiles(out[1]), w.tiles(out[2])
	one := func(x, v *Node) []*Node {
		l := w.spread(w.framed(x, pads, tall, wide, w.taps-1), w.b, tall, wide)
		for i, r := range w.spread(w.framed(v, [2][2]int{}, tall, wide, 0), w.a.transposed(), tall, wide) {
			l[i] = DotGeneral(l[i], []int{1}, []int{0}, r, []int{1}, []int{0})
		}
		return l
	}
	size := w.part(d[0], tall*wide*(d[3]+out[3]))
	if size == d[0] {
		return w.taken(one(x, v))
	}
	images, rest := split(x, size)
	arrived, last := split(v, size)
	state := []*Node{images, arrived}
	for range w.values() {
		state = append(state, BroadcastToDims(number(x, 0), w.values(), d[3], out[3]))
	}
	sum := func(all, one []*Node) []*Node {
		for i := range one {
			one[i] = Add(all[i], one[i])
		}
		return one
	}
	end := timeSteps(d[0]/size, state, func(at func(*Node) *Node, _ func(all, one *Node) *Node, s []*Node) []*Node {
		return append(s[:2:2], sum(s[2:], one(at(s[0]), at(s[1])))...)
	}, false)[2:]
	if rest != nil {
		end = sum(end, one(rest, last))
	}
	return w.taken(end)
}

// values is how many there are a side, for a tile.
func (w winograd) values() int { return w.out + w.taps - 1 }

// tiles is how many so many outputs make.
func (w winograd) tiles(outputs int) int { return (outputs + w.out - 1) / w.out }

// part is how many images of a batch are worked on at a time: as many as have
// lower.LargestTiles numbers, if each has some for each of a tile's values. One that leaves no
// rest is taken before a larger one.
func (w winograd) part(n, each int) int {
	most := min(n, max(1, lower.LargestTiles/(w.values()*w.values()*each)))
	for size := most; 2*size > most; size-- {
		if n%size == 0 {
			return size
		}
	}
	return most
}

// split divides a batch [n …] into parts [n/size size …] and what is left of it, nil for
// nothing.
func split(x *Node, size int) (parts, rest *Node) {
	d := x.Shape().Dimensions
	whole := d[0] / size
	if whole*size < d[0] {
		x, rest = Slice(x, AxisRange(0, whole*size)), Slice(x, AxisRange(whole*size))
	}
	return Reshape(x, append([]int{whole, size}, d[1:]...)...), rest
}

// framed is x with its padding, and with zeros to the end of the last tile and of what
// it overlaps with.
func (w winograd) framed(x *Node, pads [2][2]int, tall, wide, overlap int) *Node {
	for i, tiles := range []int{tall, wide} {
		pads[i][1] = tiles*w.out + overlap - x.Shape().Dimensions[1+i] - pads[i][0]
	}
	return frame(x, pads)
}

// spread turns the tiles of x [n height width channels] to values, by a matrix for
// either side: for each value of a tile's columns those of its rows,
// [values n·tall·wide channels].
func (w winograd) spread(x *Node, m matrix, tall, wide int) []*Node {
	d := x.Shape().Dimensions
	rows := Stack(m.times(func(i int) *Node {
		return Slice(x, AxisRange(), AxisRange(i, i+(tall-1)*w.out+1).Stride(w.out))
	}), 0)
	l := m.times(func(i int) *Node {
		return Slice(rows, AxisRange(), AxisRange(), AxisRange(), AxisRange(i, i+(wide-1)*w.out+1).Stride(w.out))
	})
	for i := range l {
		l[i] = Reshape(l[i], len(m), d[0]*tall*wide, d[3])
	}
	return l
}

// gathered turns values to outputs, [n tall·out wide·out channels].
func (w winograd) gathered(l []*Node, n, tall, wide int) *Node {
	channels := l[0].Shape().Dimensions[2]
	var rows []*Node
	columns := w.a.times(func(i int) *Node { return l[i] })
	for _, weights := range w.a {
		var row []*Node
		for _, c := range columns {
			y := weighted(weights, func(i int) *Node { return Slice(c, AxisElem(i)) })
			row = append(row, Reshape(y, n, tall, 1, wide, 1, channels))
		}
		rows = append(rows, Concatenate(row, 4))
	}
	return Reshape(Concatenate(rows, 2), n, tall*w.out, wide*w.out, channels)
}

// kernels turns weights [taps taps in out] to values: for each of the columns those of
// the rows, [values in out].
func (w winograd) kernels(weights *Node) []*Node {
	d := weights.Shape().Dimensions
	rows := Concatenate(w.g.times(func(i int) *Node { return Slice(weights, AxisElem(i)) }), 0)
	l := w.g.times(func(i int) *Node { return Slice(rows, AxisRange(), AxisElem(i)) })
	for i := range l {
		l[i] = Reshape(l[i], w.values(), d[2], d[3])
	}
	return l
}

// taken turns values to weights, as the transpose of kernels does.
func (w winograd) taken(values []*Node) *Node {
	g, d := w.g.transposed(), values[0].Shape().Dimensions
	columns := g.times(func(i int) *Node { return values[i] })
	var l []*Node
	for _, weights := range g {
		for _, c := range columns {
			l = append(l, weighted(weights, func(i int) *Node { return Slice(c, AxisElem(i)) }))
		}
	}
	return Reshape(Concatenate(l, 0), w.taps, w.taps, d[1], d[2])
}
