// Package kernels has the GPU kernels of small nets' training steps, written
// with package triton: each is a struct of sizes whose Kernel method is one
// page, with its tiling as a parameter.
//
// A step of a net of dense layers is, from batch to new weights:
//
//	[Gather]        the batch: rows of the data by the order of the epoch
//	[Linear]        y = act(x·w + bias), a layer forwards
//	[Head]          the last layer, softmax, cross entropy, hits and the gradient of the logits
//	[LinearInput]   the gradient of a layer's input, times the slope of the activation before it
//	[LinearUpdate]  the gradients of weights and biases and the optimizer's step on
//	                them, in place: the gradients never reach memory
//
// and convolutions have [Conv] with its gradients. Batch normalization is a
// [Norm]: two kernels each way, and a [Recurrence] one. A kernel is used like this:
//
//	k := kernels.Linear{Batch: 100, In: 784, Out: 1000, Act: kernels.ReLU}.Kernel()
//	y, err := k.Call(f, x, w, bias) // f is an *hlo.Function
//
// Sizes are arbitrary; masks cover what tiles leave over. A zero Tile is a
// reasonable one for the size, and Tiles lists those worth trying on a device.
//
// # Numbers
//
// Products of float32 are TF32 with float32 sums, as XLA's own on these
// devices; with Compute BFloat16, weights stay float32 in memory and are rounded
// in registers. Sums are always in one order: results are equal bit for bit
// from run to run.
//
// # What it refuses
//
// The package knows no graphs: package fused is where they call these kernels,
// next to a plain form of each for other devices. Sizes that make no sense are
// refused by triton.Kernel.Text, with the kernel's name.
package kernels
