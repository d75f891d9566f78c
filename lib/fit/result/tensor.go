package result

import "fmt"

// Tensor is an array's values on the host, such as a variable's.
type Tensor struct {
	Name string // without the net's: "conv/weights"
	Dims []int
	Data []float32 // row-major
}

// DrawTensors, if it is set, shows tensors as HTML. Package report sets it in notebooks.
var DrawTensors func(...Tensor) string

func (t Tensor) String() string { return fmt.Sprintf("%s %v: %s", t.Name, t.Dims, Brief(t.Data, 8)) }

// HTML shows shape, statistics, a histogram and, where it can be one, an image. It is "" where
// nothing is there to draw it.
func (t Tensor) HTML() string { return Tensors{t}.HTML() }

// Tensors are several.
type Tensors []Tensor

// String has a line for each.
func (l Tensors) String() string {
	text := ""
	for _, t := range l {
		text += t.String() + "\n"
	}
	return text
}

// HTML is that of each Tensor.
func (l Tensors) HTML() string {
	if DrawTensors == nil {
		return ""
	}
	return DrawTensors(l...)
}

// Find is the tensor of a name.
func (l Tensors) Find(name string) (Tensor, error) {
	for _, t := range l {
		if t.Name == name {
			return t, nil
		}
	}
	var names []string
	for _, t := range l {
		names = append(names, t.Name)
	}
	return Tensor{}, fmt.Errorf("fit: no tensor is called %q: want one of %s", name, Brief(names, 100))
}
