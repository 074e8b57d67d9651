// RUN: %tenon-opt %s --pass=fit-convs --check | FileCheck %s

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

// Pictures of which our own kernel multiplies two pixels at once.
// CHECK-LABEL: @picture
func.func @picture(%x: tensor<2x6x6x3xf16>) -> tensor<2x3x3x8xf16> {
  %w = tn.weight "picture" : tensor<8x3x2x2xf16>
  // CHECK: tn.pad <constant> %arg0 {{.*}} -> tensor<2x6x6x4xf16>
  %0 = tn.conv %x, %w {strides = array<i64: 2, 2>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>, groups = 1 : i64, channelsLast = true} : (tensor<2x6x6x3xf16>, tensor<8x3x2x2xf16>) -> tensor<2x3x3x8xf16>
  return %0 : tensor<2x3x3x8xf16>
}

// Over three dims, three channels become four.
// CHECK-LABEL: @video
func.func @video(%x: tensor<1x4x6x6x3xf16>) -> tensor<1x4x3x3x4xf16> {
  // CHECK: %[[P:.*]] = tn.pad <constant> %arg0 {{.*}} -> tensor<1x4x6x6x4xf16>
  // CHECK: %[[W:.*]] = tn.weight "wv.padded" : tensor<4x4x1x2x2xf16>
  // CHECK: tn.conv %[[P]], %[[W]]
  %w = tn.weight "wv" : tensor<4x3x1x2x2xf16>
  %0 = tn.conv %x, %w {strides = array<i64: 1, 2, 2>, pads = array<i64: 0, 0, 0, 0, 0, 0>, dilations = array<i64: 1, 1, 1>, groups = 1 : i64, channelsLast = true} : (tensor<1x4x6x6x3xf16>, tensor<4x3x1x2x2xf16>) -> tensor<1x4x3x3x4xf16>
  return %0 : tensor<1x4x3x3x4xf16>
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

// The padding that one end has more than the other is an operation of its own.
// CHECK-LABEL: @uneven
// CHECK: %[[P:.*]] = tn.pad <constant> %arg0 {begins = array<i64: 0, 0, 0, 0>, ends = array<i64: 0, 1, 2, 0>}
// CHECK: tn.conv %[[P]]{{.*}}pads = array<i64: 0, 1, 0, 1>
func.func @uneven(%x: tensor<1x4x4x8xf32>) -> tensor<1x2x3x4xf32> {
  %w = tn.weight "q" : tensor<4x8x3x3xf32>
  %0 = tn.conv %x, %w {strides = array<i64: 2, 2>, pads = array<i64: 0, 1, 1, 3>, dilations = array<i64: 1, 1>, groups = 1 : i64, channelsLast = true} : (tensor<1x4x4x8xf32>, tensor<4x8x3x3xf32>) -> tensor<1x2x3x4xf32>
  return %0 : tensor<1x2x3x4xf32>
}

// One dim becomes two.
// CHECK-LABEL: @line
// CHECK: %[[X:.*]] = tn.reshape %arg0 : {{.*}} -> tensor<2x1x9x8xf32>
// CHECK: %[[W:.*]] = tn.weight "l" : tensor<4x8x1x3xf32>
// CHECK: %[[Y:.*]] = tn.conv %[[X]], %[[W]] {{.*}}dilations = array<i64: 1, 2>{{.*}}pads = array<i64: 0, 2, 0, 2>, strides = array<i64: 1, 2>
// CHECK: tn.reshape %[[Y]] : {{.*}} -> tensor<2x5x4xf32>
func.func @line(%x: tensor<2x9x8xf32>) -> tensor<2x5x4xf32> {
  %w = tn.weight "l" : tensor<4x8x3xf32>
  %0 = tn.conv %x, %w {strides = array<i64: 2>, pads = array<i64: 2, 2>, dilations = array<i64: 2>, groups = 1 : i64, channelsLast = true} : (tensor<2x9x8xf32>, tensor<4x8x3xf32>) -> tensor<2x5x4xf32>
  return %0 : tensor<2x5x4xf32>
}

// What follows it runs in two dims too.
// CHECK-LABEL: @line_and_more
// CHECK: %[[Y:.*]] = tn.conv
// CHECK: %[[A:.*]] = tn.add %[[Y]], %arg1 : (tensor<2x1x7x8xf32>, tensor<8xf32>) -> tensor<2x1x7x8xf32>
// CHECK: %[[R:.*]] = tn.reshape %arg0 : {{.*}} -> tensor<2x1x7x8xf32>
// CHECK: %[[S:.*]] = tn.add %[[R]], %[[A]]
// CHECK: %[[G:.*]] = tn.gelu %[[S]] : tensor<2x1x7x8xf32>
// CHECK: tn.reshape %[[G]] : {{.*}} -> tensor<2x7x8xf32>
// CHECK-NEXT: return
func.func @line_and_more(%x: tensor<2x7x8xf32>, %b: tensor<8xf32>) -> tensor<2x7x8xf32> {
  %w = tn.weight "lm" : tensor<8x8x3xf32>
  %0 = tn.conv %x, %w {strides = array<i64: 1>, pads = array<i64: 1, 1>, dilations = array<i64: 1>, groups = 1 : i64, channelsLast = true} : (tensor<2x7x8xf32>, tensor<8x8x3xf32>) -> tensor<2x7x8xf32>
  %1 = tn.add %0, %b : (tensor<2x7x8xf32>, tensor<8xf32>) -> tensor<2x7x8xf32>
  %2 = tn.add %x, %1 : (tensor<2x7x8xf32>, tensor<2x7x8xf32>) -> tensor<2x7x8xf32>
  %3 = tn.gelu %2 : tensor<2x7x8xf32>
  return %3 : tensor<2x7x8xf32>
}

// Few outputs of many terms are widened to 16 bytes; with fewer terms, or in FP32, they stay.
// CHECK-LABEL: @few_outputs
func.func @few_outputs(%x: tensor<1x6x6x128xf16>, %y: tensor<1x6x6x64xf16>, %z: tensor<1x6x6x128xf32>) -> (tensor<1x6x6x4xf16>, tensor<1x6x6x4xf16>, tensor<1x6x6x4xf32>) {
  // CHECK: %[[WIDE:.*]] = tn.conv %arg0, %{{.*}} bias %{{.*}} -> tensor<1x6x6x8xf16>
  // CHECK: tn.slice %[[WIDE]] {{.*}} -> tensor<1x6x6x4xf16>
  // CHECK: tn.conv %arg1, {{.*}} -> tensor<1x6x6x4xf16>
  // CHECK: tn.conv %arg2, {{.*}} -> tensor<1x6x6x4xf32>
  %v = tn.constant dense<1.0> : tensor<4x128x3x3xf16> : tensor<4x128x3x3xf16>
  %w = tn.constant dense<1.0> : tensor<4x64x3x3xf16> : tensor<4x64x3x3xf16>
  %u = tn.constant dense<1.0> : tensor<4x128x3x3xf32> : tensor<4x128x3x3xf32>
  %b = tn.constant dense<1.0> : tensor<4xf16> : tensor<4xf16>
  %0 = tn.conv %x, %v bias %b {strides = array<i64: 1, 1>, pads = array<i64: 1, 1, 1, 1>, dilations = array<i64: 1, 1>, groups = 1 : i64, channelsLast = true} : (tensor<1x6x6x128xf16>, tensor<4x128x3x3xf16>, tensor<4xf16>) -> tensor<1x6x6x4xf16>
  %1 = tn.conv %y, %w {strides = array<i64: 1, 1>, pads = array<i64: 1, 1, 1, 1>, dilations = array<i64: 1, 1>, groups = 1 : i64, channelsLast = true} : (tensor<1x6x6x64xf16>, tensor<4x64x3x3xf16>) -> tensor<1x6x6x4xf16>
  %2 = tn.conv %z, %u {strides = array<i64: 1, 1>, pads = array<i64: 1, 1, 1, 1>, dilations = array<i64: 1, 1>, groups = 1 : i64, channelsLast = true} : (tensor<1x6x6x128xf32>, tensor<4x128x3x3xf32>) -> tensor<1x6x6x4xf32>
  return %0, %1, %2 : tensor<1x6x6x4xf16>, tensor<1x6x6x4xf16>, tensor<1x6x6x4xf32>
}
