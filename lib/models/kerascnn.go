package models

// KerasCNN is Keras' example mnist_cnn, which notebook 03's article compares itself with.
// 1,199,882 parameters.
func KerasCNN() Net {
	return Net{Name: "KerasCNN", Input: []int{28, 28, 1}, Layers: []Layer{
		Conv2D{Name: "conv2d", Channels: 32, Kernel: 3, Act: ReLU},   // [n 26 26 32]
		Conv2D{Name: "conv2d_1", Channels: 64, Kernel: 3, Act: ReLU}, // [n 24 24 64]
		MaxPool2D{Name: "max_pooling2d", Window: 2},                  // [n 12 12 64]
		Dropout{Name: "dropout", Rate: 0.25},
		Flatten{Name: "flatten"},                    // [n 9216]
		Dense{Name: "dense", Units: 128, Act: ReLU}, // [n 128]
		Dropout{Name: "dropout_1", Rate: 0.5},
		Dense{Name: "dense_1", Units: 10}, // [n 10]
	}}
}
