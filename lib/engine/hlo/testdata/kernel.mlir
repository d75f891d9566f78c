module @m {
  func.func public @main(%arg0: tensor<1024xf32> {jax.buffer_donor = true}, %arg1: tensor<1024xf32>) -> (tensor<1024xf32>) {
    %0 = stablehlo.custom_call @__gpu$xla.gpu.triton(%arg0, %arg1) {api_version = 4 : i32, operand_layouts = [dense<[0]> : tensor<1xindex>, dense<[0]> : tensor<1xindex>], result_layouts = [dense<[0]> : tensor<1xindex>], backend_config = {fast = 1 : i64, grid_x = 8 : i32, ir = "module {\0A}", name = "add2", num_warps = 4 : i32}, output_operand_aliases = [#stablehlo.output_operand_alias<output_tuple_indices = [], operand_index = 1, operand_tuple_indices = []>]} : (tensor<1024xf32>, tensor<1024xf32>) -> tensor<1024xf32> loc(#l0)
    return %0 : tensor<1024xf32>
  }
}
#l0 = loc("a \22quoted\22 label")
