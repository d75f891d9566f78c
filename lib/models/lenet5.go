package models

import . "github.com/gomlx/gomlx/core/graph"

// LeNet5 is the net of notebook 04's article for CIFAR-10, Chainer's variant of LeCun's
// (1998): sigmoids, and a third convolution in place of a dense layer.
// 74,966 parameters.
func LeNet5() Net {
	return Net{Name: "LeNet5", Input: []int{32, 32, 3}, Layers: []Layer{
		Conv2D{Name: "conv1", Channels: 6, Kernel: 5, Act: Sigmoid, Init: LeCun},   // [n 28 28 6]
		MaxPool2D{Name: "pool1", Window: 2},                                        // [n 14 14 6]
		Conv2D{Name: "conv2", Channels: 16, Kernel: 5, Act: Sigmoid, Init: LeCun},  // [n 10 10 16]
		MaxPool2D{Name: "pool2", Window: 2},                                        // [n 5 5 16]
		Conv2D{Name: "conv3", Channels: 120, Kernel: 4, Act: Sigmoid, Init: LeCun}, // [n 2 2 120]
		Flatten{Name: "flatten"},                                                   // [n 480]
		Dense{Name: "fc4", Units: 84, Act: Sigmoid, Init: LeCun},                   // [n 84]
		Dense{Name: "fc5", Units: 10, Init: LeCun},                                 // [n 10]
	}}
}
