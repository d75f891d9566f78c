package fit

import (
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
)

// parts divides what is trained: all vectors and scalars are one part, each
// matrix is one. (To take a matrix out of a long vector is a copy for XLA, whose
// library calls want arrays of their own; a vector is read in place.)
func (l *layout) parts() [][]int {
	parts := [][]int{nil}
	for _, i := range l.trained {
		if l.variables[i].shape.Rank() < 2 {
			parts[0] = append(parts[0], i)
		} else {
			parts = append(parts, []int{i})
		}
	}
	if len(parts[0]) == 0 {
		return parts[1:]
	}
	return parts
}

// shapeOf is that of a part: a vector, or the only variable's.
func (l *layout) shapeOf(part []int) shapes.Shape {
	if len(part) == 1 {
		return l.variables[part[0]].shape
	}
	return shapes.Make(dtypes.Float32, l.sizeOf(part))
}

// sizeOf is how many numbers some variables have.
func (l *layout) sizeOf(variables []int) int {
	size := 0
	for _, i := range variables {
		size += l.variables[i].shape.Size()
	}
	return size
}

// untrained are the variables that are float32, the means of batch norm, and
// the others, the state of random numbers.
func (l *layout) untrained() (means, others []int) {
	for i, v := range l.variables {
		switch {
		case v.trainable:
		case v.shape.DType == dtypes.Float32:
			means = append(means, i)
		default:
			others = append(others, i)
		}
	}
	return means, others
}
