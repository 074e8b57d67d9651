// RUN: %tenon-opt %s --pass=pad-channels --check | FileCheck %s

// The cast of the picture moves behind its transpose, so that cast, transpose and padding are one
// kernel.
// CHECK-LABEL: @stem
func.func @stem(%x: tensor<2x3x6x6xf32>) -> tensor<2x3x3x4xf16> {
  %w = tn.weight "w" : tensor<4x3x2x2xf16>
  // CHECK: %[[T:.*]] = tn.transpose %arg0
  // CHECK: %[[C:.*]] = tn.cast %[[T]]
  // CHECK: %[[P:.*]] = tn.pad <constant> %[[C]] {{.*}} -> tensor<2x6x6x8xf16>
  // CHECK: %[[W:.*]] = tn.weight "w.padded" : tensor<4x8x2x2xf16>
  // CHECK: tn.conv %[[P]], %[[W]]
  %0 = tn.cast %x : (tensor<2x3x6x6xf32>) -> tensor<2x3x6x6xf16>
  %1 = tn.transpose %0 [0, 2, 3, 1] : (tensor<2x3x6x6xf16>) -> tensor<2x6x6x3xf16>
  %2 = tn.conv %1, %w {strides = array<i64: 2, 2>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>, groups = 1 : i64, channelsLast = true} : (tensor<2x6x6x3xf16>, tensor<4x3x2x2xf16>) -> tensor<2x3x3x4xf16>
  return %2 : tensor<2x3x3x4xf16>
}

// Enough channels, or a wide type: nothing to do.
// CHECK-LABEL: @others
// CHECK-NOT: tn.pad
func.func @others(%x: tensor<1x2x2x16xf16>, %y: tensor<1x2x2x3xf32>) -> (tensor<1x1x1x4xf16>, tensor<1x1x1x4xf32>) {
  %w = tn.weight "v" : tensor<4x16x2x2xf16>
  %v = tn.weight "u" : tensor<4x3x2x2xf32>
  %0 = tn.conv %x, %w {strides = array<i64: 2, 2>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>, groups = 1 : i64, channelsLast = true} : (tensor<1x2x2x16xf16>, tensor<4x16x2x2xf16>) -> tensor<1x1x1x4xf16>
  %1 = tn.conv %y, %v {strides = array<i64: 2, 2>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>, groups = 1 : i64, channelsLast = true} : (tensor<1x2x2x3xf32>, tensor<4x3x2x2xf32>) -> tensor<1x1x1x4xf32>
  return %0, %1 : tensor<1x1x1x4xf16>, tensor<1x1x1x4xf32>
}
