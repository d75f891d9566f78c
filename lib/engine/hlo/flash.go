package hlo

import (
	"fmt"
	"strconv"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
)

// Flash is attention as XLA's CUDA plugin computes it with a graph of cuDNN. Queries are
// [n length heads size], keys and values [n keys groups size], bfloat16 or float16. The calls
// are those that JAX 0.8.1 writes; see testdata/attention_cudnn.mlir.
type Flash struct {
	Scale  float64
	Causal bool // a query does not see keys after it
	Window int  // if Causal, how many keys a query sees, with its own; 0: all
}

// Attention returns the result, [n length heads size], and float32 statistics of the rows for
// AttentionGradient. lengths are how many queries and keys of each example there are, int32 [n]
// each; none: all.
func (c Flash) Attention(f *Function, q, k, v compute.Value, lengths ...compute.Value) (y, statistics compute.Value, err error) {
	in, err := f.operands("Attention", append([]compute.Value{q, k, v}, lengths...)...)
	if err != nil {
		return nil, nil, err
	}
	config, err := c.config(in, lengths, "bmm1", [4]string{"3", "3", "02", "02"}, "bmm2", [4]string{"3", "1", "01", "02"})
	if err != nil {
		return nil, nil, err
	}
	d := in[0].shape.Dimensions
	rows := shapes.Make(dtypes.Float32, d[0], d[2], d[1])
	out := f.cudnn("__cudnn$fmhaSoftmax", in, config, 2, heads(in[0]), rows)
	y, err = f.Transpose(out[0], 0, 2, 1, 3)
	return y, out[1], err
}

// AttentionGradient returns the gradients of queries, keys and values, by that of the result y.
func (c Flash) AttentionGradient(f *Function, q, k, v, statistics, gradient, y compute.Value, lengths ...compute.Value) (gradients []compute.Value, err error) {
	in, err := f.operands("AttentionGradient", append([]compute.Value{q, k, v, statistics, gradient, y}, lengths...)...)
	if err != nil {
		return nil, err
	}
	config, err := c.config(in, lengths, "bmm1_grad_gemm1", [4]string{"2", "1", "01", "02"}, "bmm1_grad_gemm2", [4]string{"3", "1", "01", "02"},
		"bmm2_grad_gemm1", [4]string{"2", "1", "01", "02"}, "bmm2_grad_gemm2", [4]string{"3", "3", "02", "02"})
	if err != nil {
		return nil, err
	}
	for _, x := range f.cudnn("__cudnn$fmhaSoftmaxBackward", in, config, 5, heads(in[0]), heads(in[1]), heads(in[2])) {
		g, err := f.Transpose(x, 0, 2, 1, 3)
		if err != nil {
			return nil, err
		}
		gradients = append(gradients, g)
	}
	return gradients, nil
}

// heads is the shape that cuDNN's results have: [n heads length size].
func heads(x *value) shapes.Shape {
	d := x.shape.Dimensions
	return shapes.Make(x.shape.DType, d[0], d[2], d[1], d[3])
}

// config is the text of a call's settings. products are names, and their contracting axes
// and batch axes on both sides.
func (c Flash) config(in []*value, lengths []compute.Value, products ...any) (string, error) {
	q, k := in[0].shape, in[1].shape
	kind := map[dtypes.DType]string{dtypes.BFloat16: "BF16", dtypes.Float16: "F16"}[q.DType]
	if kind == "" || q.Rank() != 4 || k.Rank() != 4 || len(lengths) != 0 && len(lengths) != 2 {
		return "", fmt.Errorf("hlo: Attention of %s, keys %s and %d lengths: want bfloat16 or float16 of rank 4, and lengths of queries and keys or none", q, k, len(lengths))
	}
	mask := map[[2]bool]string{{}: "NO_MASK", {true, false}: "CAUSAL", {false, true}: "PADDING", {true, true}: "PADDING_CAUSAL"}[[2]bool{c.Causal, len(lengths) > 0}]
	d := q.Dimensions
	text := `{"operation_queue_id": "0", "cudnn_fmha_backend_config": {"algorithm": {"algo_id": "0", "math_type": "TENSOR_OP_MATH", "tuning_knobs": {"17": "1", "24": "0"}, "is_cudnn_frontend": true, "workspace_size": "0"}, ` +
		`"fmha_scale": ` + strconv.FormatFloat(c.Scale, 'g', -1, 64) + `, "intermediate_tensor_shape": {"element_type": "` + kind + `", "dimensions": ` + words(d[0], d[2], d[1], k.Dimensions[1]) +
		`, "tuple_shapes": [], "layout": {"dim_level_types": [], "dim_unique": [], "dim_ordered": [], "minor_to_major": ["3", "2", "1", "0"], "tiles": [], "element_size_in_bits": "0", "memory_space": "0", ` +
		`"index_primitive_type": "PRIMITIVE_TYPE_INVALID", "pointer_primitive_type": "PRIMITIVE_TYPE_INVALID", "dynamic_shape_metadata_prefix_bytes": "0"}, "is_dynamic_dimension": [false, false, false, false]}, ` +
		`"is_flash_attention": true, "mask_type": "` + mask + `"`
	for i := 0; i < len(products); i += 2 {
		axes := products[i+1].([4]string)
		text += fmt.Sprintf(`, "%s_dot_dimension_numbers": {"lhs_contracting_dimensions": ["%s"], "rhs_contracting_dimensions": ["%s"], "lhs_batch_dimensions": ["%c", "%c"], "rhs_batch_dimensions": ["%c", "%c"]}`,
			products[i], axes[0], axes[1], axes[2][0], axes[2][1], axes[3][0], axes[3][1])
	}
	return text + `, "dropout_rate": 0.0, "seed": 42, "sliding_window_length": ` + strconv.Itoa(c.Window) + `, "max_seg_per_batch": 1, "is_paged_attention": false}}`, nil
}

func words(l ...int) string {
	text := "["
	for i, n := range l {
		if i > 0 {
			text += ", "
		}
		text += `"` + strconv.Itoa(n) + `"`
	}
	return text + "]"
}

// cudnn writes a call with results of these shapes, for each of which it makes so many
// products, and with a workspace, whose size XLA finds. Results of rank 4 lie as their
// transposition [n length heads size] lies row by row.
func (f *Function) cudnn(target string, in []*value, config string, products int, results ...shapes.Shape) []compute.Value {
	layout := ""
	for _, s := range results {
		if s.Rank() == 4 {
			layout += "dense<[3, 1, 2, 0]> : tensor<4xindex>, "
		} else {
			layout += "dense<[2, 1, 0]> : tensor<3xindex>, "
		}
	}
	shape := append(append([]shapes.Shape{}, results...), shapes.Shape{DType: dtypes.Uint8, Dimensions: []int{0}})
	q, k := in[0].shape.Dimensions, in[1].shape.Dimensions
	flops := 2 * float64(products) * float64(q[0]*q[1]*q[2]*q[3]) * float64(k[1])
	out := f.add(&statement{
		op: "stablehlo.custom_call @" + target, form: formCall, in: in, call: target,
		attrs: " {api_version = 2 : i32, backend_config = " + quote(config) + ", operand_layouts = " + layouts(shapesOf(in)) + ", result_layouts = [" + layout + "dense<0> : tensor<1xindex>]}",
		cost:  Cost{FLOPs: flops, Bytes: bytesOf(shapesOf(in)...) + bytesOf(results...)},
	}, shape...)
	return values(out[:len(results)])
}
