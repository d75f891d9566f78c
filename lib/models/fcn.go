package models

import (
	"fmt"

	. "github.com/gomlx/gomlx/core/graph"
)

// FCN is a fully connected net with hidden layers of sigmoids, the first kind
// in the table that notebook 06's article takes from Shi et al., 2016 (arXiv 1608.07249).
func FCN(inputs int, hidden []int, outputs int) Net {
	net := Net{Name: "FCN", Input: []int{inputs}}
	for i, units := range hidden {
		net.Layers = append(net.Layers, Dense{Name: fmt.Sprintf("l%d", i+1), Units: units, Act: Sigmoid}) // [n units]
	}
	net.Layers = append(net.Layers, Dense{Name: "output", Units: outputs}) // [n outputs]
	return net
}
