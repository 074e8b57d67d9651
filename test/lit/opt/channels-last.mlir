// RUN: %tenon-opt %s --pass=channels-last,simplify --check | FileCheck %s
#x = #tn.shape<()[s0] -> (s0, 3, 8, 8)>
#c = #tn.shape<()[s0] -> (s0, 4, 8, 8)>
#p = #tn.shape<()[s0] -> (s0, 4, 4, 4)>
#g = #tn.shape<()[s0] -> (s0, 4, 1, 1)>
#y = #tn.shape<()[s0] -> (s0, 4)>

// A residual block, a pooling, a gate, the global mean and the flattening: one transpose, at the input.
module attributes {tn.symbols = [#tn.symbol<"batch", 1, 8>]} {
// CHECK-LABEL: @residual
func.func @residual(%x: tensor<?x3x8x8xf32, #x>) -> tensor<?x4xf32, #y> {
  // CHECK: tn.transpose %arg0 [0, 2, 3, 1]
  // CHECK-NOT: tn.transpose
  // CHECK-COUNT-3: channelsLast = true
  // CHECK: return
  %w = tn.weight "w" : tensor<4x3x3x3xf32>
  %v = tn.weight "v" : tensor<4x4x1x1xf32>
  %b = tn.weight "b" : tensor<4x1x1xf32>
  %0 = tn.conv %x, %w {strides = array<i64: 1, 1>, pads = array<i64: 1, 1, 1, 1>, dilations = array<i64: 1, 1>, groups = 1 : i64, channelsLast = false} : (tensor<?x3x8x8xf32, #x>, tensor<4x3x3x3xf32>) -> tensor<?x4x8x8xf32, #c>
  %1 = tn.add %0, %b : (tensor<?x4x8x8xf32, #c>, tensor<4x1x1xf32>) -> tensor<?x4x8x8xf32, #c>
  %2 = tn.clamp %1 {lo = 0.0 : f64, hi = 6.0 : f64} : tensor<?x4x8x8xf32, #c>
  %3 = tn.conv %2, %v {strides = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>, groups = 1 : i64, channelsLast = false} : (tensor<?x4x8x8xf32, #c>, tensor<4x4x1x1xf32>) -> tensor<?x4x8x8xf32, #c>
  %4 = tn.add %3, %2 : (tensor<?x4x8x8xf32, #c>, tensor<?x4x8x8xf32, #c>) -> tensor<?x4x8x8xf32, #c>
  %5 = tn.max_pool %4 {kernel = array<i64: 2, 2>, strides = array<i64: 2, 2>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>, ceilMode = false, channelsLast = false} : (tensor<?x4x8x8xf32, #c>) -> tensor<?x4x4x4xf32, #p>
  %6 = tn.reduce <mean> %5 {axes = array<i64: 2, 3>, keepdims = true} : (tensor<?x4x4x4xf32, #p>) -> tensor<?x4x1x1xf32, #g>
  %7 = tn.sigmoid %6 : tensor<?x4x1x1xf32, #g>
  %8 = tn.mul %5, %7 : (tensor<?x4x4x4xf32, #p>, tensor<?x4x1x1xf32, #g>) -> tensor<?x4x4x4xf32, #p>
  %9 = tn.reduce <mean> %8 {axes = array<i64: 2, 3>, keepdims = true} : (tensor<?x4x4x4xf32, #p>) -> tensor<?x4x1x1xf32, #g>
  %10 = tn.reshape %9 : (tensor<?x4x1x1xf32, #g>) -> tensor<?x4xf32, #y>
  return %10 : tensor<?x4xf32, #y>
}
}
// -----
// One channel: its transpose is a reshape. One and three spatial dims, an average that does not count pads.
// CHECK-LABEL: @other_ranks
func.func @other_ranks(%x: tensor<2x1x7xf32>, %z: tensor<2x3x4x5x6xf32>) -> (tensor<2x4xf32>, tensor<2x3xf32>) {
  // CHECK-DAG: tn.reshape %arg0 : (tensor<2x1x7xf32>) -> tensor<2x7x1xf32>
  // CHECK-DAG: tn.transpose %arg1 [0, 2, 3, 4, 1]
  // CHECK-DAG: tn.reduce <max> %{{.*}} {axes = array<i64: 1>
  // CHECK-DAG: tn.reduce <max> %{{.*}} {axes = array<i64: 1, 2, 3>
  // CHECK-NOT: tn.transpose
  %w = tn.weight "w" : tensor<4x1x3xf32>
  %0 = tn.conv %x, %w {strides = array<i64: 2>, pads = array<i64: 1, 1>, dilations = array<i64: 1>, groups = 1 : i64, channelsLast = false} : (tensor<2x1x7xf32>, tensor<4x1x3xf32>) -> tensor<2x4x4xf32>
  %1 = tn.reduce <max> %0 {axes = array<i64: 2>, keepdims = false} : (tensor<2x4x4xf32>) -> tensor<2x4xf32>
  %2 = tn.avg_pool %z {kernel = array<i64: 3, 3, 3>, strides = array<i64: 1, 1, 1>, pads = array<i64: 1, 1, 1, 1, 1, 1>, ceilMode = false, dilations = array<i64: 1, 1, 1>, countIncludePad = false, channelsLast = false} : (tensor<2x3x4x5x6xf32>) -> tensor<2x3x4x5x6xf32>
  %3 = tn.reduce <max> %2 {axes = array<i64: 2, 3, 4>, keepdims = false} : (tensor<2x3x4x5x6xf32>) -> tensor<2x3xf32>
  return %1, %3 : tensor<2x4xf32>, tensor<2x3xf32>
}
// -----
// The result is asked for channels-first: one transpose in, one out. What is channels-last stays.
// CHECK-LABEL: @ends
func.func @ends(%x: tensor<1x3x8x8xf32>, %l: tensor<1x8x8x3xf32>) -> (tensor<1x4x8x8xf32>, tensor<1x8x8x4xf32>) {
  // CHECK: %[[I:.*]] = tn.transpose %arg0 [0, 2, 3, 1]
  // CHECK: %[[C:.*]] = tn.conv %[[I]]
  // CHECK: tn.transpose %[[C]] [0, 3, 1, 2]
  // CHECK: tn.conv %arg1
  // CHECK-NOT: tn.transpose
  %w = tn.weight "w" : tensor<4x3x3x3xf32>
  %0 = tn.conv %x, %w {strides = array<i64: 1, 1>, pads = array<i64: 1, 1, 1, 1>, dilations = array<i64: 1, 1>, groups = 1 : i64, channelsLast = false} : (tensor<1x3x8x8xf32>, tensor<4x3x3x3xf32>) -> tensor<1x4x8x8xf32>
  %1 = tn.conv %l, %w {strides = array<i64: 1, 1>, pads = array<i64: 1, 1, 1, 1>, dilations = array<i64: 1, 1>, groups = 1 : i64, channelsLast = true} : (tensor<1x8x8x3xf32>, tensor<4x3x3x3xf32>) -> tensor<1x8x8x4xf32>
  return %0, %1 : tensor<1x4x8x8xf32>, tensor<1x8x8x4xf32>
}
