package models

// MLP is the perceptron of notebook 04's article, Chainer's MNIST example: two hidden
// layers of units neurons each. With 1,000 units: 1,796,010 parameters.
func MLP(units int) Net {
	return Net{Name: "MLP", Input: []int{28, 28, 1}, Layers: []Layer{
		Flatten{Name: "flatten"},                                // [n 784]
		Dense{Name: "l1", Units: units, Act: ReLU, Init: LeCun}, // [n units]
		Dense{Name: "l2", Units: units, Act: ReLU, Init: LeCun}, // [n units]
		Dense{Name: "l3", Units: 10, Init: LeCun},               // [n 10]
	}}
}
