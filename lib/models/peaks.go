package models

// Peaks is the net of notebook 07's article, which learns a surface over the plane.
// 171 parameters.
func Peaks() Net {
	return Net{Name: "Peaks", Input: []int{2}, Layers: []Layer{
		Dense{Name: "l1", Units: 20, Act: ReLU}, // [n 20]
		Dense{Name: "l2", Units: 5, Act: ReLU},  // [n 5]
		Dense{Name: "l3", Units: 1},             // [n 1]
	}}
}
