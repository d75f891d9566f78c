module @m {
  func.func public @main(%arg0: tensor<2xf32> {jax.buffer_donor = true}) -> (tensor<2xf32>, tensor<2xf32>, tensor<2xf32>) {
    %0:2 = func.call @f0(%arg0) : (tensor<2xf32>) -> (tensor<2xf32>, tensor<2xf32>)
    %1:2 = func.call @f0(%0#0) : (tensor<2xf32>) -> (tensor<2xf32>, tensor<2xf32>)
    return %1#0, %1#1, %0#1 : tensor<2xf32>, tensor<2xf32>, tensor<2xf32>
  }
  func.func private @f0(%arg0: tensor<2xf32>) -> (tensor<2xf32>, tensor<2xf32>) {
    %0 = stablehlo.multiply %arg0, %arg0 : tensor<2xf32>
    %1 = stablehlo.add %arg0, %arg0 : tensor<2xf32>
    return %0, %1 : tensor<2xf32>, tensor<2xf32>
  }
}
