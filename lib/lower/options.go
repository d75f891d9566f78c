package lower

// Options are what the user of a net, or who builds one of its programs, has chosen.
// The zero value leaves everything to the lowering.
type Options struct {
	// Convolution chooses in place of Convolution.Choose, in tests of the algorithms.
	Convolution func(Convolution) Choice
	// Attention is the form of all attention, and its blocks.
	Attention AttentionChoice
	// LogitsBytes is the size of the logits that are computed at once, where the last layer is
	// followed by cross entropy; 0: see Head.
	LogitsBytes int64
	// OneDNN says that XLA gives the convolutions of a CPU to oneDNN.
	OneDNN bool
	// RecurrentKernels says that recurrences are Gaiden's kernels where there are some.
	RecurrentKernels bool
	// Recompute is the size from which outputs of batch norms are computed a second time on
	// the backward pass instead of kept, in bytes; 0: all are kept.
	Recompute int64
	// ExamplesLast says that dense layers are computed with the examples along the last
	// axis; see ExamplesLast.
	ExamplesLast bool
}
