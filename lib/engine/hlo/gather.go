package hlo

import (
	"fmt"
	"strconv"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/shapeinference"
	"github.com/gomlx/compute/shapes"
)

// Gather takes slices of x from the positions that startIndices name. Its
// arguments are those of the StableHLO op, without batching axes. Positions
// outside x are moved to its border.
func (f *Function) Gather(x, startIndices compute.Value, indexVectorAxis int,
	offsetOutputAxes, collapsedSliceAxes, startIndexMap, sliceSizes []int, indicesAreSorted bool) (compute.Value, error) {
	in, err := f.operands("Gather", x, startIndices)
	if err != nil {
		return nil, err
	}
	indices := in[1].shape
	shape, err := infer("Gather", func() (shapes.Shape, error) {
		if !indices.DType.IsInt() {
			return indices, fmt.Errorf("got indices %s, want integers", indices)
		}
		// GoMLX's inference has no rule for the axis of length 1 that is implied
		// when indexVectorAxis is the rank; with that axis it is the same.
		explicit := indices.Clone()
		if indexVectorAxis == indices.Rank() {
			explicit.Dimensions = append(explicit.Dimensions, 1)
		}
		return shapeinference.Gather(in[0].shape, explicit, indexVectorAxis, offsetOutputAxes,
			collapsedSliceAxes, startIndexMap, sliceSizes, indicesAreSorted)
	})
	if err != nil {
		return nil, err
	}
	if err := writable("Gather", shape); err != nil {
		return nil, err
	}
	cost := movementCost(shape, shape)
	cost.Bytes += bytesOf(indices)
	return f.one(&statement{
		op: "stablehlo.gather", form: formGeneric, in: in,
		attrs: "dimension_numbers = #stablehlo.gather<offset_dims = " + list(offsetOutputAxes) +
			", collapsed_slice_dims = " + list(collapsedSliceAxes) + ", start_index_map = " + list(startIndexMap) +
			", index_vector_dim = " + strconv.Itoa(indexVectorAxis) + ">, indices_are_sorted = " +
			strconv.FormatBool(indicesAreSorted) + ", slice_sizes = " + array(sliceSizes),
		cost: cost,
	}, shape), nil
}

// ScatterSum adds updates to x at the positions that indices name. Its arguments
// are those of the StableHLO op, without batching axes. Updates outside x are
// dropped.
func (f *Function) ScatterSum(x, indices, updates compute.Value, indexVectorAxis int,
	updateWindowAxes, insertedWindowAxes, scatterAxesToOperandAxes []int, indicesAreSorted, uniqueIndices bool) (compute.Value, error) {
	return f.scatter(compute.OpTypeScatterSum, compute.OpTypeReduceSum, x, indices, updates, indexVectorAxis,
		updateWindowAxes, insertedWindowAxes, scatterAxesToOperandAxes, indicesAreSorted, uniqueIndices)
}

// ScatterMax keeps the greater of each element and its updates.
func (f *Function) ScatterMax(x, indices, updates compute.Value, indexVectorAxis int,
	updateWindowAxes, insertedWindowAxes, scatterAxesToOperandAxes []int, indicesAreSorted, uniqueIndices bool) (compute.Value, error) {
	return f.scatter(compute.OpTypeScatterMax, compute.OpTypeReduceMax, x, indices, updates, indexVectorAxis,
		updateWindowAxes, insertedWindowAxes, scatterAxesToOperandAxes, indicesAreSorted, uniqueIndices)
}

// ScatterMin keeps the lesser of each element and its updates.
func (f *Function) ScatterMin(x, indices, updates compute.Value, indexVectorAxis int,
	updateWindowAxes, insertedWindowAxes, scatterAxesToOperandAxes []int, indicesAreSorted, uniqueIndices bool) (compute.Value, error) {
	return f.scatter(compute.OpTypeScatterMin, compute.OpTypeReduceMin, x, indices, updates, indexVectorAxis,
		updateWindowAxes, insertedWindowAxes, scatterAxesToOperandAxes, indicesAreSorted, uniqueIndices)
}

func (f *Function) scatter(t, reduce compute.OpType, x, indices, updates compute.Value, indexVectorAxis int,
	updateWindowAxes, insertedWindowAxes, scatterAxesToOperandAxes []int, indicesAreSorted, uniqueIndices bool) (compute.Value, error) {
	in, err := f.operands(t.String(), x, indices, updates)
	if err != nil {
		return nil, err
	}
	shape, err := infer(t.String(), func() (shapes.Shape, error) {
		return shapeinference.Scatter(in[0].shape, in[1].shape, in[2].shape, indexVectorAxis,
			updateWindowAxes, insertedWindowAxes, scatterAxesToOperandAxes)
	})
	if err != nil {
		return nil, err
	}
	cost := movementCost(in[2].shape, in[2].shape) // XLA updates in place
	cost.Bytes += bytesOf(in[1].shape)
	cost.FLOPs = float64(in[2].shape.Size())
	return f.one(&statement{
		op: "stablehlo.scatter", form: formGeneric, in: in,
		attrs: "scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = " + list(updateWindowAxes) +
			", inserted_window_dims = " + list(insertedWindowAxes) +
			", scatter_dims_to_operand_dims = " + list(scatterAxesToOperandAxes) +
			", index_vector_dim = " + strconv.Itoa(indexVectorAxis) + ">, indices_are_sorted = " +
			strconv.FormatBool(indicesAreSorted) + ", unique_indices = " + strconv.FormatBool(uniqueIndices),
		body: reductions[reduce].body(shape.DType),
		cost: cost,
	}, shape), nil
}
