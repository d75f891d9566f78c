module @m attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 2 : i32} {
  func.func public @main(%arg0: tensor<f32> {jax.buffer_donor = true}, %arg1: tensor<2xi32>, %arg2: tensor<3xf32>) -> (tensor<f32>, tensor<2xi32>, tensor<3xf32>) {
    %0:2 = "stablehlo.all_reduce"(%arg0, %arg2) <{replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>}> ({
    ^bb0(%a: tensor<f32>, %b: tensor<f32>):
      %c = stablehlo.add %a, %b : tensor<f32>
      stablehlo.return %c : tensor<f32>
    }) : (tensor<f32>, tensor<3xf32>) -> (tensor<f32>, tensor<3xf32>)
    %1 = "stablehlo.all_reduce"(%arg1) <{replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>}> ({
    ^bb0(%a: tensor<i32>, %b: tensor<i32>):
      %c = stablehlo.add %a, %b : tensor<i32>
      stablehlo.return %c : tensor<i32>
    }) : (tensor<2xi32>) -> tensor<2xi32>
    return %0#0, %1, %0#1 : tensor<f32>, tensor<2xi32>, tensor<3xf32>
  }
}
