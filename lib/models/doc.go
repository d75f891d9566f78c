// Package models holds layers, and the nets of the articles that the notebooks reproduce, one
// page each.
//
// A [Net] is a list of named layers; examples go in at the top and logits come
// out at the end:
//
//	net := models.Net{Name: "small", Input: []int{28, 28, 1}, Layers: []models.Layer{
//		models.Conv2D{Name: "conv", Channels: 10, Kernel: 3, Same: true, Act: models.ReLU}, // [n 28 28 10]
//		models.MaxPool2D{Name: "pool", Window: 2},                                          // [n 14 14 10]
//		models.Flatten{},                                                                    // [n 1960]
//		models.Dense{Name: "output", Units: 10},                                             // [n 10]
//	}}
//	fmt.Println(fit.New("net", net, fit.Config{}).Summary())
//
// Every layer is a struct whose zero fields have useful defaults. Its method Apply
// is plain GoMLX: (scope, x) in, y out. Variables are named by layer,
// "conv/weights", and package fit gives them those names in the session. Any
// GoMLX model function is a Net too. It may take several inputs, and [Call] shares a layer:
//
//	words := models.Embedding{Name: "words", Vocab: 1000, Units: 64}
//	net := models.Net{Name: "two", Inputs: []models.Input{
//		{Name: "question", Dims: []int{32}, Integers: true, Vocab: 1000},
//		{Name: "numbers", Dims: []int{5}},
//	}, Function: func(scope *model.Scope, in models.Inputs) *Node {
//		q := models.Call(scope, words, in["question"]) // [n 32 64]
//		return graph.Concatenate([]*Node{graph.ReduceMean(q, 1), in["numbers"]}, -1)
//	}, Layers: []models.Layer{models.Dense{Name: "output", Units: 3}}}
//
// Images are [n height width channels], 0 to 1; sequences are [n length units], and ids of
// an [Embedding] integers [n length]. The nets of this package have their shapes as comments. [Residual],
// [Sequential], [Repeat] and [Concat] hold other layers; [Scan] is a recurrent layer with a
// cell of your own.
//
// [RandomFlip], [RandomCrop], [RandomAffine], [ColorJitter], [Cutout] and [MixUp] change
// images at random during training, on the device. The seed of the net decides how. They
// must be the first layers.
//
// # What it refuses
//
// The package knows GoMLX and nothing else: no device, no session, no data, no
// training. A [Lowering] chooses how a device computes an operation.
// Shapes that do not fit panic while the graph is built, as everywhere in
// GoMLX, with the layer's name; package fit turns that into an error.
package models
