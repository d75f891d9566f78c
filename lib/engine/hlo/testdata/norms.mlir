module @m {
  func.func public @main(%arg0: tensor<64x2x2x3xf32> {jax.buffer_donor = true}, %arg1: tensor<64x2x2x3xf32>, %arg2: tensor<3xf32>, %arg3: tensor<3xf32>) -> (tensor<64x2x2x3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<64x2x2x3xf32>, tensor<3xf32>, tensor<3xf32>) {
    %0 = stablehlo.multiply %arg0, %arg0 : tensor<64x2x2x3xf32>
    %1 = stablehlo.reshape %arg0 : (tensor<64x2x2x3xf32>) -> tensor<2x128x3xf32>
    %2 = stablehlo.reshape %0 : (tensor<64x2x2x3xf32>) -> tensor<2x128x3xf32>
    %3 = stablehlo.constant dense<0.0> : tensor<f32>
    %4:2 = "stablehlo.reduce"(%1, %2, %3, %3) <{dimensions = array<i64: 1>}> ({
    ^bb0(%a: tensor<f32>, %b: tensor<f32>, %c: tensor<f32>, %d: tensor<f32>):
      %e = stablehlo.add %a, %c : tensor<f32>
      %f = stablehlo.add %b, %d : tensor<f32>
      stablehlo.return %e, %f : tensor<f32>, tensor<f32>
    }) : (tensor<2x128x3xf32>, tensor<2x128x3xf32>, tensor<f32>, tensor<f32>) -> (tensor<2x3xf32>, tensor<2x3xf32>)
    %5:2 = "stablehlo.reduce"(%4#0, %4#1, %3, %3) <{dimensions = array<i64: 0>}> ({
    ^bb0(%a: tensor<f32>, %b: tensor<f32>, %c: tensor<f32>, %d: tensor<f32>):
      %e = stablehlo.add %a, %c : tensor<f32>
      %f = stablehlo.add %b, %d : tensor<f32>
      stablehlo.return %e, %f : tensor<f32>, tensor<f32>
    }) : (tensor<2x3xf32>, tensor<2x3xf32>, tensor<f32>, tensor<f32>) -> (tensor<3xf32>, tensor<3xf32>)
    %6 = stablehlo.constant dense<3.90625e-03> : tensor<3xf32>
    %7 = stablehlo.multiply %5#0, %6 : tensor<3xf32>
    %8 = stablehlo.multiply %5#1, %6 : tensor<3xf32>
    %9 = stablehlo.multiply %7, %7 : tensor<3xf32>
    %10 = stablehlo.subtract %8, %9 : tensor<3xf32>
    %11 = stablehlo.constant dense<0.0> : tensor<3xf32>
    %12 = stablehlo.maximum %10, %11 : tensor<3xf32>
    %13 = stablehlo.constant dense<0.001> : tensor<3xf32>
    %14 = stablehlo.add %12, %13 : tensor<3xf32>
    %15 = stablehlo.rsqrt %14 : tensor<3xf32>
    %16 = stablehlo.multiply %arg2, %15 : tensor<3xf32>
    %17 = stablehlo.multiply %7, %16 : tensor<3xf32>
    %18 = stablehlo.subtract %arg3, %17 : tensor<3xf32>
    %19 = stablehlo.broadcast_in_dim %16, dims = [3] : (tensor<3xf32>) -> tensor<64x2x2x3xf32>
    %20 = stablehlo.multiply %arg0, %19 : tensor<64x2x2x3xf32>
    %21 = stablehlo.broadcast_in_dim %18, dims = [3] : (tensor<3xf32>) -> tensor<64x2x2x3xf32>
    %22 = stablehlo.add %20, %21 : tensor<64x2x2x3xf32>
    %23 = stablehlo.add %12, %13 : tensor<3xf32>
    %24 = stablehlo.rsqrt %23 : tensor<3xf32>
    %25 = stablehlo.broadcast_in_dim %7, dims = [3] : (tensor<3xf32>) -> tensor<64x2x2x3xf32>
    %26 = stablehlo.subtract %arg0, %25 : tensor<64x2x2x3xf32>
    %27 = stablehlo.multiply %arg1, %26 : tensor<64x2x2x3xf32>
    %28 = stablehlo.reshape %arg1 : (tensor<64x2x2x3xf32>) -> tensor<2x128x3xf32>
    %29 = stablehlo.reshape %27 : (tensor<64x2x2x3xf32>) -> tensor<2x128x3xf32>
    %30:2 = "stablehlo.reduce"(%28, %29, %3, %3) <{dimensions = array<i64: 1>}> ({
    ^bb0(%a: tensor<f32>, %b: tensor<f32>, %c: tensor<f32>, %d: tensor<f32>):
      %e = stablehlo.add %a, %c : tensor<f32>
      %f = stablehlo.add %b, %d : tensor<f32>
      stablehlo.return %e, %f : tensor<f32>, tensor<f32>
    }) : (tensor<2x128x3xf32>, tensor<2x128x3xf32>, tensor<f32>, tensor<f32>) -> (tensor<2x3xf32>, tensor<2x3xf32>)
    %31:2 = "stablehlo.reduce"(%30#0, %30#1, %3, %3) <{dimensions = array<i64: 0>}> ({
    ^bb0(%a: tensor<f32>, %b: tensor<f32>, %c: tensor<f32>, %d: tensor<f32>):
      %e = stablehlo.add %a, %c : tensor<f32>
      %f = stablehlo.add %b, %d : tensor<f32>
      stablehlo.return %e, %f : tensor<f32>, tensor<f32>
    }) : (tensor<2x3xf32>, tensor<2x3xf32>, tensor<f32>, tensor<f32>) -> (tensor<3xf32>, tensor<3xf32>)
    %32 = stablehlo.multiply %31#1, %24 : tensor<3xf32>
    %33 = stablehlo.multiply %arg2, %24 : tensor<3xf32>
    %34 = stablehlo.multiply %32, %6 : tensor<3xf32>
    %35 = stablehlo.multiply %34, %24 : tensor<3xf32>
    %36 = stablehlo.multiply %35, %33 : tensor<3xf32>
    %37 = stablehlo.multiply %7, %36 : tensor<3xf32>
    %38 = stablehlo.multiply %31#0, %6 : tensor<3xf32>
    %39 = stablehlo.multiply %38, %33 : tensor<3xf32>
    %40 = stablehlo.subtract %37, %39 : tensor<3xf32>
    %41 = stablehlo.broadcast_in_dim %33, dims = [3] : (tensor<3xf32>) -> tensor<64x2x2x3xf32>
    %42 = stablehlo.multiply %arg1, %41 : tensor<64x2x2x3xf32>
    %43 = stablehlo.broadcast_in_dim %36, dims = [3] : (tensor<3xf32>) -> tensor<64x2x2x3xf32>
    %44 = stablehlo.multiply %arg0, %43 : tensor<64x2x2x3xf32>
    %45 = stablehlo.subtract %42, %44 : tensor<64x2x2x3xf32>
    %46 = stablehlo.broadcast_in_dim %40, dims = [3] : (tensor<3xf32>) -> tensor<64x2x2x3xf32>
    %47 = stablehlo.add %45, %46 : tensor<64x2x2x3xf32>
    return %22, %7, %12, %47, %32, %31#0 : tensor<64x2x2x3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<64x2x2x3xf32>, tensor<3xf32>, tensor<3xf32>
  }
}
