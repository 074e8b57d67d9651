// RUN: %tenon-opt %s --pass=dispatch --check | FileCheck %s
#list = #tn.shape<()[s0] -> (s0)>

// What binds a size is a region of its own, which stays though nobody reads it; what names the size stands behind it, though
// no value leads there.
module attributes {tn.symbols = [#tn.symbol<"kept", 0, 9>]} {
// CHECK-LABEL: @main
func.func @main(%x: tensor<9xf32>, %one: tensor<f32>) -> tensor<?xf32, #list> {
  %zero = tn.constant dense<0.0> : tensor<f32> : tensor<f32>
  %mask = tn.compare %x <gt> %zero : (tensor<9xf32>, tensor<f32>) -> tensor<9xi1>
  // CHECK: tn.region "cpu" "single"
  // CHECK: tn.true_positions
  // CHECK: tn.region "cpu" "single"
  // CHECK: tn.take_first
  %p, %n = tn.true_positions %mask : (tensor<9xi1>) -> (tensor<9xi64>, tensor<i64>)
  %k = tn.take_first %p, %n : (tensor<9xi64>, tensor<i64>) -> tensor<?xi64, #list>
  // CHECK: tn.region "cpu" "elementwise"
  // CHECK: tn.broadcast
  // CHECK-NEXT: tn.exp
  %b = tn.broadcast %one : (tensor<f32>) -> tensor<?xf32, #list>
  %y = tn.exp %b : tensor<?xf32, #list>
  return %y : tensor<?xf32, #list>
}
}
