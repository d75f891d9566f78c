package datasets_test

import (
	"fmt"

	"gaiden/lib/datasets"
)

// Synthetic images need no network, and say in each title what they are.
func Example() {
	images, err := datasets.Synthetic(1, 600, 28, 28, 1)
	if err != nil {
		fmt.Println(err)
		return
	}
	images = images.First(500, 50)
	fmt.Println(images)
	fmt.Println(len(images.Train.Pixels), "bytes of pixels,", len(images.Train.Labels), "labels")
	fmt.Println("the first is of class", images.Class(images.Train.Labels[0]))
	// Output:
	// synthetic 28×28×1 (seed 1): 500 train and 50 test images, 28×28×1, 10 classes
	// 392000 bytes of pixels, 500 labels
	// the first is of class pattern 7
}

// The peaks surface on a grid, as pairs of variables and its height there.
func ExamplePeaks() {
	p := datasets.Peaks(3)
	for i, y := range p.Y {
		fmt.Printf("(%2.0f, %2.0f): %6.3f\n", p.X[2*i], p.X[2*i+1], y)
	}
	// Output:
	// (-3, -3):  0.000
	// (-3,  0): -0.037
	// (-3,  3):  0.000
	// ( 0, -3): -0.245
	// ( 0,  0):  0.981
	// ( 0,  3):  0.300
	// ( 3, -3): -0.000
	// ( 3,  0):  0.033
	// ( 3,  3):  0.000
}
