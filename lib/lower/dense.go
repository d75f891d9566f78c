package lower

// TransposesFirst says whether the gradient of weights [in out] transposes x [rows in]
// before it multiplies: XLA's matmul on a CPU is slower for a matrix that it reads across,
// where there is much to multiply by more than the transposition costs.
func TransposesFirst(t Target, rows, in, out int) bool {
	return t.CPU() && rows >= transposeLeast && rows%TransposeRows == 0 &&
		(out >= transposeUnits || out >= transposeLeast && in >= transposeInputs)
}

// JoinsGradients says whether the gradients of several matmuls of one x, whose results have so
// many bytes each, are computed as one matmul: larger ones fill a GPU by themselves.
func JoinsGradients(t Target, bytes int) bool { return !t.CPU() && bytes <= joinedBytes }

// ExamplesLast says whether dense layers from in to each of units are computed with the
// examples along the last axis, where they fill the vectors of a CPU. All must be narrow:
// XLA transposes nothing between them then.
func ExamplesLast(t Target, in int, units ...int) bool {
	for _, u := range units {
		if min(in, u) > narrowSide || max(in, u) > wideSide {
			return false
		}
		in = u
	}
	return t.CPU()
}

// BiasParts is how many equal parts of rows the gradient of biases is the sum of. XLA's
// CUDA compiler gives a block of threads 32 columns and all rows unless there are very many,
// which leaves most of a GPU without work.
func BiasParts(t Target, rows int) int {
	if t.CPU() || rows > mostRows {
		return 1
	}
	for k := rows / blockRows; k > 1; k-- {
		if rows%k == 0 {
			return k
		}
	}
	return 1
}

// OneRow says whether dense layers of so many rows, whose gradients nobody asks for, are a kernel
// that reads the weights as fast as memory gives them: see kernels.OneRow.
func OneRow(t Target, rows int) bool { return t.Triton && rows == 1 }
