module @m {
  func.func public @main(%arg0: tensor<2x3xf32> {jax.buffer_donor = true}, %arg1: tensor<3xui64>) -> (tensor<15xf32>, tensor<3xui64>) {
    %0:2 = stablehlo.rng_bit_generator %arg1, algorithm = PHILOX : (tensor<3xui64>) -> (tensor<3xui64>, tensor<2x3xui32>)
    %1 = stablehlo.constant dense<1.0> : tensor<3xf32>
    %2 = stablehlo.constant dense<[1.0, 2.0, 3.0]> : tensor<3xf32>
    %3:3 = "stablehlo.batch_norm_training"(%arg0, %1, %2) <{epsilon = 0.001 : f32, feature_index = 1 : i64}> : (tensor<2x3xf32>, tensor<3xf32>, tensor<3xf32>) -> (tensor<2x3xf32>, tensor<3xf32>, tensor<3xf32>)
    %4 = stablehlo.constant dense<2147483648> : tensor<2x3xui32>
    %5 = stablehlo.compare LT, %0#1, %4, UNSIGNED : (tensor<2x3xui32>, tensor<2x3xui32>) -> tensor<2x3xi1>
    %6 = stablehlo.constant dense<0.0> : tensor<2x3xf32>
    %7 = "stablehlo.select"(%5, %3#0, %6) : (tensor<2x3xi1>, tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>
    %8 = stablehlo.constant dense<-1.0> : tensor<f32>
    %9 = stablehlo.pad %7, %8, low = [1, 0], high = [0, 2], interior = [0, 1] : (tensor<2x3xf32>, tensor<f32>) -> tensor<3x7xf32>
    %10 = "stablehlo.slice"(%9) <{start_indices = array<i64: 0, 1>, limit_indices = array<i64: 3, 7>, strides = array<i64: 1, 2>}> : (tensor<3x7xf32>) -> tensor<3x3xf32>
    %11 = stablehlo.reshape %10 : (tensor<3x3xf32>) -> tensor<9xf32>
    %12 = stablehlo.transpose %11, dims = [0] : (tensor<9xf32>) -> tensor<9xf32>
    %13 = "stablehlo.optimization_barrier"(%12) : (tensor<9xf32>) -> tensor<9xf32>
    %14 = stablehlo.constant dense<0> : tensor<i32>
    %15 = "stablehlo.optimization_barrier"(%14) : (tensor<i32>) -> tensor<i32>
    %16 = "stablehlo.slice"(%13) <{start_indices = array<i64: 0>, limit_indices = array<i64: 1>, strides = array<i64: 1>}> : (tensor<9xf32>) -> tensor<1xf32>
    %17 = stablehlo.reshape %16 : (tensor<1xf32>) -> tensor<f32>
    %18 = stablehlo.convert %17 : (tensor<f32>) -> tensor<i32>
    %19 = stablehlo.and %18, %15 : tensor<i32>
    %20 = stablehlo.or %15, %19 : tensor<i32>
    %21 = "stablehlo.slice"(%0#1) <{start_indices = array<i64: 0, 0>, limit_indices = array<i64: 1, 1>, strides = array<i64: 1, 1>}> : (tensor<2x3xui32>) -> tensor<1x1xui32>
    %22 = stablehlo.reshape %21 : (tensor<1x1xui32>) -> tensor<ui32>
    %23 = stablehlo.convert %22 : (tensor<ui32>) -> tensor<i32>
    %24 = stablehlo.and %23, %15 : tensor<i32>
    %25 = stablehlo.or %20, %24 : tensor<i32>
    %26 = stablehlo.compare NE, %25, %14, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
    %27 = stablehlo.constant dense<0.0> : tensor<3xf32>
    %28 = "stablehlo.select"(%26, %27, %3#1) : (tensor<i1>, tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
    %29 = stablehlo.concatenate %13, %28, %3#2, dim = 0 : (tensor<9xf32>, tensor<3xf32>, tensor<3xf32>) -> tensor<15xf32>
    %30 = "chlo.erf"(%29) : (tensor<15xf32>) -> tensor<15xf32>
    return %30, %0#0 : tensor<15xf32>, tensor<3xui64>
  }
}
