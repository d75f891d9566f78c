package models

// DeepPose is AlexNet (Krizhevsky et al., 2012) with 2 outputs for each of some
// joints, as notebook 08's article has it after Toshev and Szegedy, 2014: where in the
// image a joint is, 0 to 1. With 14 joints: 58,396,060 parameters.
func DeepPose(joints int) Net {
	return Net{Name: "DeepPose", Input: []int{227, 227, 3}, Layers: []Layer{
		Conv2D{Name: "conv1", Channels: 96, Kernel: 11, Stride: 4, Act: ReLU, Init: LeCun},  // [n 55 55 96]
		MaxPool2D{Name: "pool1", Window: 3, Stride: 2},                                      // [n 27 27 96]
		Conv2D{Name: "conv2", Channels: 256, Kernel: 5, Same: true, Act: ReLU, Init: LeCun}, // [n 27 27 256]
		MaxPool2D{Name: "pool2", Window: 3, Stride: 2},                                      // [n 13 13 256]
		Conv2D{Name: "conv3", Channels: 384, Kernel: 3, Same: true, Act: ReLU, Init: LeCun}, // [n 13 13 384]
		Conv2D{Name: "conv4", Channels: 384, Kernel: 3, Same: true, Act: ReLU, Init: LeCun}, // [n 13 13 384]
		Conv2D{Name: "conv5", Channels: 256, Kernel: 3, Same: true, Act: ReLU, Init: LeCun}, // [n 13 13 256]
		MaxPool2D{Name: "pool5", Window: 3, Stride: 2},                                      // [n 6 6 256]
		Flatten{Name: "flatten"},                                // [n 9216]
		Dense{Name: "fc6", Units: 4096, Act: ReLU, Init: LeCun}, // [n 4096]
		Dropout{Name: "dropout6", Rate: 0.5},
		Dense{Name: "fc7", Units: 4096, Act: ReLU, Init: LeCun}, // [n 4096]
		Dropout{Name: "dropout7", Rate: 0.5},
		Dense{Name: "fc8", Units: 2 * joints, Init: LeCun}, // [n 2·joints]
	}}
}
