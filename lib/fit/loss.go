package fit

import "gaiden/lib/losses"

// The losses, of package losses.
type (
	Loss         = losses.Loss
	CrossEntropy = losses.CrossEntropy
	MSE          = losses.MSE
	Visibility   = losses.Visibility
)
