package models

// SeedCNN is the net of notebook 01's article, the CuPy "Gaiden": one convolution, max
// pooling, one dense layer, softmax outside. Weights and biases start normal
// with deviation 0.05 (its wb_width). 197,210 parameters.
func SeedCNN() Net {
	width := Normal(0.05)
	return Net{Name: "SeedCNN", Input: []int{28, 28, 1}, Layers: []Layer{
		Conv2D{Name: "conv", Channels: 10, Kernel: 3, Same: true, Act: ReLU, Init: width, BiasInit: width}, // [n 28 28 10]
		MaxPool2D{Name: "pool", Window: 2}, // [n 14 14 10]
		Flatten{Name: "flatten"},           // [n 1960]
		Dense{Name: "dense", Units: 100, Act: ReLU, Init: width, BiasInit: width}, // [n 100]
		Dense{Name: "output", Units: 10, Init: width, BiasInit: width},            // [n 10]
	}}
}
