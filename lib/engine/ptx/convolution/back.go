package convolution

import (
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"

	"gaiden/lib/engine/ptx"
	"gaiden/lib/engine/triton/kernels"
)

// Back is the gradient of a convolution's input, weights and biases.
//
//	inputs:  x [batch height width in], w [size size in out] float32,
//	         g [batch height' width' out] and, with pooling, winner, like g, uint8
//	outputs: d [batch height width in], parts [batch size·size·in+1 out] float32
//
// g is the gradient before the convolution's own activation and behind its pooling, d
// that before the activation Act that made x. Each of parts is of one image; the last
// row is that of the biases. Adding them up is kernels.PartsUpdate's.
type Back struct {
	kernels.Geometry
	Act   kernels.Act // what made x
	Brain bool        // x, g, d and factors are BFloat16; else they are float32, and factors Float16
	Warps int         // of a block, up to 32; default: 12
}

// Fits says whether the sizes are such that there is a kernel.
func (k Back) Fits() bool {
	f := form(k)
	return f.sound() && f.loads(f.image())*f.vector()+f.loads(f.weights())*4+f.loads(f.gradient())*5 <= f.registers() &&
		k.split().sums() <= f.registers() && k.deep().sums() <= f.registers() && k.places().bytes <= ptx.LargestShared
}

// Kernel is the kernel of these sizes.
func (k Back) Kernel() ptx.Kernel {
	x, w, results := form(k).shapes()
	parts := shapes.Make(dtypes.Float32, k.Batch, form(k).taps()+1, k.Out)
	return ptx.Kernel{
		Name: "image_conv_back_" + k.Act.String(), Blocks: k.Batch, Threads: form(k).threads(), Shared: k.places().bytes,
		Inputs: append([]shapes.Shape{x, w}, results...), Outputs: []shapes.Shape{x, parts},
		FLOPs: 2 * form(k).flops(), Bytes: bytes(append(results, x, w, x, parts)),
		Body: func(b *ptx.Block) { backWriter{newWriter(b, form(k), k.places()), k}.all() },
	}
}

func (k Back) places() places {
	p := form(k).places(up(k.In, 8))
	p.next(&p.g, (k.Height+k.Size-1)*p.acrossG*p.rowG)
	p.next(&p.zeros, p.rowG)
	p.clear = p.bytes
	p.next(&p.most, 16*form(k).warps())
	p.next(&p.bias, 16*form(k).threads())
	return p
}

// units are eight channels of a tap each.
func (k Back) units() int { return k.Size * k.Size * up(k.In, 8) / 8 }

// covered is height and width of the part of the convolution's result that has a
// gradient: with pooling, the part that windows look at.
func (k Back) covered() (height, width int) {
	height, width = k.Result()
	if k.Pool {
		return 2 * height, 2 * width
	}
	return height, width
}

// split is how the warps divide the gradient of the weights: rows are pairs of units.
func (k Back) split() split { return form(k).divide((k.units()+1)/2, up(k.Out, 16)/8, 1) }

// deep is how the warps divide the gradient of the image: rows are 16 pixels, which the
// warps have in turns, and columns eight channels.
type deep struct {
	rows, columns int // of a warp at once
	rounds        int
}

func (d deep) sums() int { return 4 * d.rows * d.columns }

func (k Back) deep() (d deep) {
	pixels, warps := (k.Height*k.Width+15)/16, form(k).warps()
	d.columns = up(k.In, 8) / 8
	d.rows = max(1, min((pixels+warps-1)/warps, 4, form(k).registers()/2/(4*d.columns)))
	d.rounds = (pixels + warps*d.rows - 1) / (warps * d.rows)
	return d
}

// backWriter writes the kernel.
type backWriter struct {
	*writer
	k Back
}

func (w backWriter) all() {
	w.above = w.k.Act == kernels.ReLU && !w.k.Brain // see rectified
	gradients, winners := w.gradients()
	w.load(gradients, func(scale ptx.Value) { w.putGradients(gradients, winners, scale) })
	w.weights()
	w.biases()
	w.pixels()
}
