module @m {
  func.func public @main(%arg0: tensor<8x4xf32> {jax.buffer_donor = true}, %arg1: tensor<4x2xf32>, %arg2: tensor<1x2xf32>) -> (tensor<f32>, tensor<8xi32>) {
    %0 = stablehlo.dot_general %arg0, %arg1, contracting_dims = [1] x [0] : (tensor<8x4xf32>, tensor<4x2xf32>) -> tensor<8x2xf32> loc(#l0)
    %1 = stablehlo.broadcast_in_dim %arg2, dims = [0, 1] : (tensor<1x2xf32>) -> tensor<8x2xf32> loc(#l0)
    %2 = stablehlo.add %0, %1 : tensor<8x2xf32> loc(#l0)
    %3 = stablehlo.constant dense<0.0> : tensor<8x2xf32>
    %4 = stablehlo.maximum %2, %3 : tensor<8x2xf32> loc(#l1)
    %5 = stablehlo.constant dense<0.0> : tensor<f32>
    %6 = stablehlo.reduce(%4 init: %5) applies stablehlo.add across dimensions = [0, 1] : (tensor<8x2xf32>, tensor<f32>) -> tensor<f32>
    %7 = stablehlo.iota dim = 1 : tensor<8x2xi32>
    %8 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %9 = stablehlo.constant dense<0> : tensor<i32>
    %10:2 = "stablehlo.reduce"(%4, %7, %8, %9) <{dimensions = array<i64: 1>}> ({
    ^bb0(%a: tensor<f32>, %i: tensor<i32>, %b: tensor<f32>, %j: tensor<i32>):
      %before = stablehlo.compare GT, %a, %b, FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>
      %equal = stablehlo.compare EQ, %a, %b, FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>
      %an = stablehlo.compare NE, %a, %a, FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>
      %bn = stablehlo.compare NE, %b, %b, FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>
      %bnot = stablehlo.not %bn : tensor<i1>
      %only = stablehlo.and %an, %bnot : tensor<i1>
      %both = stablehlo.and %an, %bn : tensor<i1>
      %wins = stablehlo.or %before, %only : tensor<i1>
      %tie = stablehlo.or %equal, %both : tensor<i1>
      %lesser = stablehlo.minimum %i, %j : tensor<i32>
      %else = "stablehlo.select"(%tie, %lesser, %j) : (tensor<i1>, tensor<i32>, tensor<i32>) -> tensor<i32>
      %index = "stablehlo.select"(%wins, %i, %else) : (tensor<i1>, tensor<i32>, tensor<i32>) -> tensor<i32>
      %value = "stablehlo.select"(%wins, %a, %b) : (tensor<i1>, tensor<f32>, tensor<f32>) -> tensor<f32>
      stablehlo.return %value, %index : tensor<f32>, tensor<i32>
    }) : (tensor<8x2xf32>, tensor<8x2xi32>, tensor<f32>, tensor<i32>) -> (tensor<8xf32>, tensor<8xi32>)
    return %6, %10#1 : tensor<f32>, tensor<8xi32>
  }
}
#l0 = loc("dense")
#l1 = loc("relu")
