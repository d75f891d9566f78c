package models_test

import (
	"fmt"

	"gaiden/lib/fit"
	"gaiden/lib/models"
)

// A net is a list of layers. What it is made of can be asked without a device.
func Example() {
	net := models.Net{Name: "small", Input: []int{28, 28, 1}, Layers: []models.Layer{
		models.Conv2D{Name: "conv", Channels: 10, Kernel: 3, Same: true, Act: models.ReLU}, // [n 28 28 10]
		models.MaxPool2D{Name: "pool", Window: 2},                                          // [n 14 14 10]
		models.Flatten{},                        // [n 1960]
		models.Dense{Name: "output", Units: 10}, // [n 10]
	}}
	summary, err := fit.New("net", net, fit.Config{}).Summary()
	if err != nil {
		fmt.Println(err)
	}
	for _, l := range summary.Rows {
		fmt.Printf("%-8s %v, %d weights\n", l.Name, l.Output, l.Params)
	}
	fmt.Println(summary.Total(), "in all")
	// Output:
	// conv     [28 28 10], 100 weights
	// pool     [14 14 10], 0 weights
	// flatten  [1960], 0 weights
	// output   [10], 19610 weights
	// 19710 in all
}
