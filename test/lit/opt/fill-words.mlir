// RUN: %tenon-opt %s --pass=fill-words --check | FileCheck %s
// Three channels of bf16 become four, which are two words; those that fill words, f16 and groups stay.

// CHECK-LABEL: @picture
func.func @picture(%x: tensor<2x6x6x3xbf16>) -> tensor<2x3x3x4xbf16> {
  // CHECK: %[[P:.*]] = tn.pad <constant> %arg0 {{.*}} -> tensor<2x6x6x4xbf16>
  // CHECK: %[[W:.*]] = tn.weight "w.padded" : tensor<4x4x2x2xbf16>
  // CHECK: tn.conv %[[P]], %[[W]]
  %w = tn.weight "w" : tensor<4x3x2x2xbf16>
  %0 = tn.conv %x, %w {strides = array<i64: 2, 2>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>, groups = 1 : i64, channelsLast = true} : (tensor<2x6x6x3xbf16>, tensor<4x3x2x2xbf16>) -> tensor<2x3x3x4xbf16>
  return %0 : tensor<2x3x3x4xbf16>
}

// Ahead of a transpose, where a channel is a plane that is copied whole.
// CHECK-LABEL: @planes
func.func @planes(%x: tensor<2x3x6x6xbf16>) -> tensor<2x3x3x4xbf16> {
  // CHECK: %[[P:.*]] = tn.pad <constant> %arg0 {{.*}} -> tensor<2x4x6x6xbf16>
  // CHECK: %[[T:.*]] = tn.transpose %[[P]] [0, 2, 3, 1]
  // CHECK: tn.conv %[[T]]
  %w = tn.weight "w" : tensor<4x3x2x2xbf16>
  %0 = tn.transpose %x [0, 2, 3, 1] : (tensor<2x3x6x6xbf16>) -> tensor<2x6x6x3xbf16>
  %1 = tn.conv %0, %w {strides = array<i64: 2, 2>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>, groups = 1 : i64, channelsLast = true} : (tensor<2x6x6x3xbf16>, tensor<4x3x2x2xbf16>) -> tensor<2x3x3x4xbf16>
  return %1 : tensor<2x3x3x4xbf16>
}

// CHECK-LABEL: @left
// CHECK-NOT: tn.pad
func.func @left(%x: tensor<1x2x2x6xbf16>, %y: tensor<1x2x2x3xf16>) -> (tensor<1x1x1x2xbf16>, tensor<1x1x1x4xf16>) {
  %w = tn.weight "v" : tensor<2x3x2x2xbf16>
  %v = tn.weight "u" : tensor<4x3x2x2xf16>
  %0 = tn.conv %x, %w {strides = array<i64: 2, 2>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>, groups = 2 : i64, channelsLast = true} : (tensor<1x2x2x6xbf16>, tensor<2x3x2x2xbf16>) -> tensor<1x1x1x2xbf16>
  %1 = tn.conv %y, %v {strides = array<i64: 2, 2>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>, groups = 1 : i64, channelsLast = true} : (tensor<1x2x2x3xf16>, tensor<4x3x2x2xf16>) -> tensor<1x1x1x4xf16>
  return %0, %1 : tensor<1x1x1x2xbf16>, tensor<1x1x1x4xf16>
}
