package hlo

import (
	"fmt"
	"math"
	"strconv"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
)

// elementTypes are MLIR's names of the element types. XLA has 8-bit and 4-bit
// floats too, but GoMLX does not know their size.
var elementTypes = map[dtypes.DType]string{
	dtypes.Bool:       "i1",
	dtypes.Int2:       "i2",
	dtypes.Int4:       "i4",
	dtypes.Int8:       "i8",
	dtypes.Int16:      "i16",
	dtypes.Int32:      "i32",
	dtypes.Int64:      "i64",
	dtypes.Uint2:      "ui2",
	dtypes.Uint4:      "ui4",
	dtypes.Uint8:      "ui8",
	dtypes.Uint16:     "ui16",
	dtypes.Uint32:     "ui32",
	dtypes.Uint64:     "ui64",
	dtypes.Float16:    "f16",
	dtypes.BFloat16:   "bf16",
	dtypes.Float32:    "f32",
	dtypes.Float64:    "f64",
	dtypes.Complex64:  "complex<f32>",
	dtypes.Complex128: "complex<f64>",
}

// writable reports why a shape cannot stand in a program.
func writable(what string, s shapes.Shape) error {
	if _, ok := elementTypes[s.DType]; !ok {
		return fmt.Errorf("hlo: %s: got %s, which is not an element type of XLA", what, s)
	}
	bytes := s.DType.Size()
	for _, d := range s.Dimensions {
		if d < 0 {
			return fmt.Errorf("hlo: %s: got shape %s, want no dynamic or negative axes; build one program for each shape, or pad", what, s)
		}
		if d > 0 && bytes > math.MaxInt/2/d { // wire.Type.Bytes has the same limit
			return fmt.Errorf("hlo: %s: got shape %s, want fewer than 2⁶² bytes", what, s)
		}
		bytes *= d
	}
	return nil
}

// appendType appends the MLIR type of a tensor, such as tensor<2x3xf32>.
func appendType(b []byte, s shapes.Shape) []byte {
	b = append(b, "tensor<"...)
	for _, d := range s.Dimensions {
		b = append(strconv.AppendInt(b, int64(d), 10), 'x')
	}
	b = append(b, elementTypes[s.DType]...)
	return append(b, '>')
}

// Capabilities says what a backend that builds with this package can do.
// The result is the caller's own.
func Capabilities() compute.Capabilities { return capabilities.Clone() }

var capabilities = compute.Capabilities{
	Functions: true,
	DTypes: map[dtypes.DType]bool{
		dtypes.Bool: true,
		dtypes.Int8: true, dtypes.Int16: true, dtypes.Int32: true, dtypes.Int64: true,
		dtypes.Uint8: true, dtypes.Uint16: true, dtypes.Uint32: true, dtypes.Uint64: true,
		dtypes.Float16: true, dtypes.BFloat16: true, dtypes.Float32: true, dtypes.Float64: true,
		dtypes.Complex64: true, dtypes.Complex128: true,
	},
	Operations: operations(),
}

// operations are the keys of the tables of unary, binary and comparison ops,
// and the ops that have a method of their own.
func operations() map[compute.OpType]bool {
	ops := map[compute.OpType]bool{}
	for op := range unaryOps {
		ops[op] = true
	}
	for op := range binaryOps {
		ops[op] = true
	}
	for op := range comparisons {
		ops[op] = true
	}
	for _, op := range []compute.OpType{
		compute.OpTypeParameter, compute.OpTypeConstant, compute.OpTypeIdentity,
		compute.OpTypeAbs, compute.OpTypeSign, compute.OpTypeIsFinite, compute.OpTypeIsNaN, compute.OpTypeClamp, compute.OpTypeWhere,
		compute.OpTypeComplex, compute.OpTypeConj, compute.OpTypeReal, compute.OpTypeImag,
		compute.OpTypeConvertDType, compute.OpTypeBitcast,
		compute.OpTypeReshape, compute.OpTypeTranspose, compute.OpTypeBroadcastInDim, compute.OpTypeIota,
		compute.OpTypeSlice, compute.OpTypePad, compute.OpTypeConcatenate, compute.OpTypeReverse,
		compute.OpTypeDynamicSlice, compute.OpTypeDynamicUpdateSlice, compute.OpTypeGather,
		compute.OpTypeScatterMax, compute.OpTypeScatterMin, compute.OpTypeScatterSum,
		compute.OpTypeReduceSum, compute.OpTypeReduceProduct, compute.OpTypeReduceMax, compute.OpTypeReduceMin,
		compute.OpTypeReduceBitwiseAnd, compute.OpTypeReduceBitwiseOr, compute.OpTypeReduceBitwiseXor,
		compute.OpTypeReduceLogicalAnd, compute.OpTypeReduceLogicalOr, compute.OpTypeReduceLogicalXor,
		compute.OpTypeReduceWindow, compute.OpTypeSelectAndScatterMax, compute.OpTypeSelectAndScatterMin, compute.OpTypeArgMinMax,
		compute.OpTypeDot, compute.OpTypeDotGeneral, compute.OpTypeConvGeneral,
		compute.OpTypeBatchNormForInference, compute.OpTypeBatchNormForTraining, compute.OpTypeBatchNormGradient,
		compute.OpTypeFFT, compute.OpTypeRNGBitGenerator,
		compute.OpTypeCall, compute.OpTypeSort, compute.OpTypeWhile, compute.OpTypeIf,
		compute.OpTypeOptimizationBarrier, compute.OpTypeSchedulingBarrier, compute.OpTypeAllReduce,
	} {
		ops[op] = true
	}
	return ops
}
