module @m {
  func.func public @main(%arg0: tensor<4xf32> {jax.buffer_donor = true}, %arg1: tensor<i32>) -> (tensor<i32>, tensor<4xf32>) {
    %0 = stablehlo.constant dense<0> : tensor<i32>
    %1:2 = "stablehlo.while"(%0, %arg0) ({
    ^bb0(%2: tensor<i32>, %3: tensor<4xf32>):
      %4 = stablehlo.compare LT, %2, %arg1, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %4 : tensor<i1>
    }, {
    ^bb0(%5: tensor<i32>, %6: tensor<4xf32>):
      %7 = stablehlo.constant dense<0> : tensor<i32>
      %8:2 = "stablehlo.while"(%7, %6) ({
      ^bb0(%9: tensor<i32>, %10: tensor<4xf32>):
        %11 = stablehlo.constant dense<3> : tensor<i32>
        %12 = stablehlo.compare LT, %9, %11, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
        stablehlo.return %12 : tensor<i1>
      }, {
      ^bb0(%13: tensor<i32>, %14: tensor<4xf32>):
        %15 = "stablehlo.sort"(%14) <{dimension = 0 : i64, is_stable = true}> ({
        ^bb0(%16: tensor<f32>, %17: tensor<f32>):
          %18 = stablehlo.compare GT, %16, %17, FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>
          stablehlo.return %18 : tensor<i1>
        }) : (tensor<4xf32>) -> tensor<4xf32>
        %19 = stablehlo.constant dense<1> : tensor<i32>
        %20 = stablehlo.add %13, %19 : tensor<i32>
        stablehlo.return %20, %15 : tensor<i32>, tensor<4xf32>
      }) : (tensor<i32>, tensor<4xf32>) -> (tensor<i32>, tensor<4xf32>)
      %21 = stablehlo.constant dense<2> : tensor<i32>
      %22 = stablehlo.remainder %5, %21 : tensor<i32>
      %23 = stablehlo.compare EQ, %22, %7, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      %24 = "stablehlo.if"(%23) ({
        %25 = stablehlo.add %8#1, %arg0 : tensor<4xf32>
        stablehlo.return %25 : tensor<4xf32>
      }, {
        %26 = stablehlo.subtract %8#1, %arg0 : tensor<4xf32>
        stablehlo.return %26 : tensor<4xf32>
      }) : (tensor<i1>) -> tensor<4xf32>
      %27 = stablehlo.constant dense<1> : tensor<i32>
      %28 = stablehlo.add %5, %27 : tensor<i32>
      stablehlo.return %28, %24 : tensor<i32>, tensor<4xf32>
    }) : (tensor<i32>, tensor<4xf32>) -> (tensor<i32>, tensor<4xf32>)
    return %1#0, %1#1 : tensor<i32>, tensor<4xf32>
  }
}
