package gradient

import (
	"github.com/gomlx/compute"
	. "github.com/gomlx/gomlx/core/graph"
)

// window are the settings of a convolution.
type window struct {
	axes                                     ConvolveAxesConfig
	strides, inputDilations, kernelDilations []int
	paddings                                 [][2]int
	groups, batchGroups                      int
}

func windowOf(node *Node) (w window) {
	axes := setting(node, "axes")
	axis := func(name string) int { return int(axes.FieldByName(name).Int()) }
	of := func(name string) []int { return ints(axes.FieldByName(name)) }
	w.axes = compute.ConvolveAxesConfig{
		InputBatch: axis("InputBatch"), InputChannels: axis("InputChannels"), InputSpatial: of("InputSpatial"),
		KernelInputChannels: axis("KernelInputChannels"), KernelOutputChannels: axis("KernelOutputChannels"), KernelSpatial: of("KernelSpatial"),
		OutputBatch: axis("OutputBatch"), OutputChannels: axis("OutputChannels"), OutputSpatial: of("OutputSpatial"),
	}
	spatial := len(w.axes.InputSpatial)
	each := func(name string) []int {
		l := ints(setting(node, name))
		for len(l) < spatial {
			l = append(l, 1)
		}
		return l
	}
	w.strides, w.inputDilations, w.kernelDilations = each("strides"), each("inputDilations"), each("kernelDilations")
	w.paddings = make([][2]int, spatial)
	for i, p := 0, setting(node, "paddings"); i < p.Len(); i++ {
		w.paddings[i] = [2]int{int(p.Index(i).Index(0).Int()), int(p.Index(i).Index(1).Int())}
	}
	w.groups, w.batchGroups = max(1, int(setting(node, "channelGroupCount").Int())), max(1, int(setting(node, "batchGroupCount").Int()))
	return w
}

// convolution are the gradients for the images and the kernels of a convolution, where v is that
// of its result. All three are linear in two of images, kernels and results, and the gradient of
// each is made of the other two.
func convolution(node, v *Node) []*Node {
	x, kernel := node.Inputs()[0], node.Inputs()[1]
	got := windowOf(node).gradients(x, kernel, v)
	if !Again(node.Graph()) {
		return got
	}
	of := func(x, kernel *Node) *Node { return node.CloneWithInputs(x, kernel) }
	return []*Node{
		Define(StopGradient(got[0]), []*Node{v, kernel}, func(u *Node) []*Node { return []*Node{of(u, kernel), convolution(of(u, kernel), v)[1]} }),
		Define(StopGradient(got[1]), []*Node{x, v}, func(u *Node) []*Node { return []*Node{convolution(of(x, u), v)[0], of(x, u)} }),
	}
}

// gradients are those for images and kernels, of each group by itself.
func (w window) gradients(x, kernel, v *Node) []*Node {
	groups, over := w.groups, w.axes.InputChannels
	if w.batchGroups > 1 {
		groups, over = w.batchGroups, w.axes.InputBatch
	}
	if groups == 1 {
		return []*Node{w.forImages(x, kernel, v), w.forKernels(x, kernel, v)}
	}
	xs, kernels, vs := Split(x, over, groups), Split(kernel, w.axes.KernelOutputChannels, groups), Split(v, w.axes.OutputChannels, groups)
	var all [2][]*Node
	for i := range groups {
		all[0] = append(all[0], w.forImages(xs[i], kernels[i], vs[i]))
		all[1] = append(all[1], w.forKernels(xs[i], kernels[i], vs[i]))
	}
	return []*Node{Concatenate(all[0], over), Concatenate(all[1], w.axes.KernelOutputChannels)}
}

// sizes are those of images, kernels and results on a spatial axis, with what dilations and
// strides put between their numbers.
func (w window) sizes(i int, x, kernel, v *Node) (image, tap, result int) {
	size := func(n *Node, axis, apart int) int { return (n.Shape().Dimensions[axis]-1)*apart + 1 }
	return size(x, w.axes.InputSpatial[i], w.inputDilations[i]), size(kernel, w.axes.KernelSpatial[i], w.kernelDilations[i]), size(v, w.axes.OutputSpatial[i], w.strides[i])
}

// forImages is a convolution of v with reversed kernels, whose inputs and outputs are exchanged
// by the axes: so XLA sees that it is an input's gradient, for which cuDNN has kernels.
func (w window) forImages(x, kernel, v *Node) *Node {
	axes := w.axes
	axes.InputBatch, axes.InputChannels, axes.InputSpatial = w.axes.OutputBatch, w.axes.OutputChannels, w.axes.OutputSpatial
	axes.OutputBatch, axes.OutputChannels, axes.OutputSpatial = w.axes.InputBatch, w.axes.InputChannels, w.axes.InputSpatial
	axes.KernelInputChannels, axes.KernelOutputChannels = w.axes.KernelOutputChannels, w.axes.KernelInputChannels
	paddings := make([][2]int, len(w.paddings))
	for i, p := range w.paddings {
		image, tap, result := w.sizes(i, x, kernel, v)
		before := tap - 1 - p[0]
		paddings[i] = [2]int{before, image + tap - 1 - result - before}
	}
	return ConvGeneral(v, Reverse(kernel, w.axes.KernelSpatial...), axes, w.inputDilations, paddings, w.strides, w.kernelDilations, 1, 1)
}

// forKernels is a convolution of images with v, for which the batch is what channels are to others.
func (w window) forKernels(x, kernel, v *Node) *Node {
	axes := ConvolveAxesConfig{
		InputBatch: w.axes.InputChannels, InputChannels: w.axes.InputBatch, InputSpatial: w.axes.InputSpatial,
		KernelInputChannels: w.axes.OutputBatch, KernelOutputChannels: w.axes.OutputChannels, KernelSpatial: w.axes.OutputSpatial,
		OutputBatch: w.axes.KernelInputChannels, OutputChannels: w.axes.KernelOutputChannels, OutputSpatial: w.axes.KernelSpatial,
	}
	paddings := make([][2]int, len(w.paddings))
	for i, p := range w.paddings {
		image, tap, result := w.sizes(i, x, kernel, v)
		paddings[i] = [2]int{p[0], result - image + tap - 1 - p[0]}
	}
	return ConvGeneral(x, v, axes, w.kernelDilations, paddings, w.inputDilations, w.strides, 1, 1)
}
