package trial

import (
	"fmt"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/shapes"

	"gaiden/lib/engine/hlo"
	"gaiden/lib/engine/triton"
)

// raw is a Triton kernel in words of one's own, which package triton has not checked: from
// one integer to another.
type raw struct{ name, text string }

// call runs it in a program.
func (k raw) call(f *hlo.Function, operands ...compute.Value) ([]compute.Value, error) {
	return f.CustomCall(triton.Target, operands, []shapes.Shape{one}, hlo.CallConfig{Backend: map[string]any{
		"name": k.name, "ir": k.text, "grid_x": int32(1), "grid_y": int32(1), "grid_z": int32(1), "num_warps": int32(1), "num_stages": int32(1),
	}})
}

// broken are kernels of assembly that fails at two places of the compiler. The first names
// more inputs than it has, which ends the process: of Triton 3.6 in Python, which aborts,
// and of the session's worker on an H100, by a segmentation fault. The second is no
// instruction, and ptxas says so in an error. Package triton writes no assembly, so none
// can come of a kernel of its own.
func broken() []raw {
	assembly := func(name, text, constraints string) raw {
		return raw{name, fmt.Sprintf(`module {
  tt.func public @%s(%%in0: !tt.ptr<i32> {tt.divisibility = 16 : i32}, %%out0: !tt.ptr<i32> {tt.divisibility = 16 : i32}) {
    %%x = tt.load %%in0 : !tt.ptr<i32>
    %%y = tt.elementwise_inline_asm "%s" {constraints = "%s", packed_element = 1 : i32, pure = true} %%x : i32 -> i32
    tt.store %%out0, %%y : !tt.ptr<i32>
    tt.return
  }
}
`, name, text, constraints)}
	}
	return []raw{
		assembly("no_inputs", "mov.u32 $0, $1;", "=r,r,r,r"),
		assembly("no_instruction", "no such instruction;", "=r,r"),
	}
}
