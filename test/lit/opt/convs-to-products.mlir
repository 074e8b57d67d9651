// RUN: %tenon-opt %s --pass=convs-to-products --check | FileCheck %s

// CHECK-LABEL: @pointwise
func.func @pointwise(%x: tensor<2x3x3x8xf32>) -> tensor<2x3x3x4xf32> {
  %w = tn.weight "w" : tensor<4x8x1x1xf32>
  %b = tn.weight "b" : tensor<4xf32>
  // CHECK: %[[W:.*]] = tn.weight "w" : tensor<4x8xf32>
  // CHECK-NEXT: %[[P:.*]] = tn.matmul %arg0, %[[W]] {transposeB}
  // CHECK-NEXT: tn.add %[[P]]
  %0 = tn.conv %x, %w bias %b {strides = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>, groups = 1 : i64, channelsLast = true} : (tensor<2x3x3x8xf32>, tensor<4x8x1x1xf32>, tensor<4xf32>) -> tensor<2x3x3x4xf32>
  return %0 : tensor<2x3x3x4xf32>
}

// The patches of a picture are rows of a product, in the order of the weight.
// CHECK-LABEL: @patches
func.func @patches(%x: tensor<2x3x8x6xf32>) -> tensor<2x2x3x5xf32> {
  %w = tn.weight "p" : tensor<5x3x4x2xf32>
  // CHECK: tn.reshape %arg0 : {{.*}} -> tensor<2x3x2x4x3x2xf32>
  // CHECK: tn.transpose {{.*}} [0, 2, 4, 1, 3, 5]
  // CHECK: tn.reshape {{.*}} -> tensor<2x2x3x24xf32>
  // CHECK: tn.matmul {{.*}} {transposeB}
  // CHECK-NOT: tn.conv
  %0 = tn.transpose %x [0, 2, 3, 1] : (tensor<2x3x8x6xf32>) -> tensor<2x8x6x3xf32>
  %1 = tn.conv %0, %w {strides = array<i64: 4, 2>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>, groups = 1 : i64, channelsLast = true} : (tensor<2x8x6x3xf32>, tensor<5x3x4x2xf32>) -> tensor<2x2x3x5xf32>
  return %1 : tensor<2x2x3x5xf32>
}

// A step, a padding, or pixels that no patch has: still convolutions.
// CHECK-LABEL: @others
// CHECK-COUNT-3: tn.conv
func.func @others(%x: tensor<1x3x5x5xf32>) -> (tensor<1x3x3x4xf32>, tensor<1x7x7x4xf32>, tensor<1x2x2x4xf32>) {
  %w = tn.weight "o" : tensor<4x3x1x1xf32>
  %v = tn.weight "v" : tensor<4x3x2x2xf32>
  %0 = tn.transpose %x [0, 2, 3, 1] : (tensor<1x3x5x5xf32>) -> tensor<1x5x5x3xf32>
  %1 = tn.conv %0, %w {strides = array<i64: 2, 2>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>, groups = 1 : i64, channelsLast = true} : (tensor<1x5x5x3xf32>, tensor<4x3x1x1xf32>) -> tensor<1x3x3x4xf32>
  %2 = tn.conv %0, %w {strides = array<i64: 1, 1>, pads = array<i64: 1, 1, 1, 1>, dilations = array<i64: 1, 1>, groups = 1 : i64, channelsLast = true} : (tensor<1x5x5x3xf32>, tensor<4x3x1x1xf32>) -> tensor<1x7x7x4xf32>
  %3 = tn.conv %0, %v {strides = array<i64: 2, 2>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>, groups = 1 : i64, channelsLast = true} : (tensor<1x5x5x3xf32>, tensor<4x3x2x2xf32>) -> tensor<1x2x2x4xf32>
  return %1, %2, %3 : tensor<1x3x3x4xf32>, tensor<1x7x7x4xf32>, tensor<1x2x2x4xf32>
}
