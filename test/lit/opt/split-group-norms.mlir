// RUN: %tenon-opt %s --pass=split-group-norms --check | FileCheck %s

// Channels are last, as the convolution before it has them; the transposes cancel. One reduction
// goes over positions and the channels of a group, in one index space with what follows.
// CHECK-LABEL: @normed
func.func @normed(%x: tensor<2x5x3x8xf16>, %s: tensor<8xf16>, %b: tensor<8xf16>) -> tensor<2x5x3x8xf16> {
  // CHECK-NOT: tn.transpose
  // CHECK: tn.reduce <mean> %{{.*}} {axes = array<i64: 1, 3>{{.*}} : (tensor<2x15x4x2xf32>) -> tensor<2x1x4x1xf32>
  // CHECK-NOT: tn.group_norm
  // CHECK: %[[Y:.*]] = tn.cast {{.*}} -> tensor<2x15x4x2xf16>
  // CHECK: %[[Z:.*]] = tn.silu %[[Y]]
  // CHECK: tn.reshape %[[Z]]
  // CHECK-NOT: tn.transpose
  %0 = tn.transpose %x [0, 3, 1, 2] : (tensor<2x5x3x8xf16>) -> tensor<2x8x5x3xf16>
  %1 = tn.group_norm %0, %s, %b {groups = 4 : i64, epsilon = 1.0e-05 : f64} : (tensor<2x8x5x3xf16>, tensor<8xf16>, tensor<8xf16>) -> tensor<2x8x5x3xf16>
  %2 = tn.silu %1 : tensor<2x8x5x3xf16>
  %3 = tn.transpose %2 [0, 2, 3, 1] : (tensor<2x8x5x3xf16>) -> tensor<2x5x3x8xf16>
  return %3 : tensor<2x5x3x8xf16>
}

// Squares of 32-bit floats would lose digits, and channels that are first need no other form.
// CHECK-LABEL: @kept
func.func @kept(%x: tensor<2x5x8xf32>, %y: tensor<2x8x5xf16>, %s: tensor<8xf32>, %t: tensor<8xf16>) -> (tensor<2x8x5xf32>, tensor<2x8x5xf16>) {
  // CHECK: tn.group_norm
  // CHECK: tn.group_norm
  %0 = tn.transpose %x [0, 2, 1] : (tensor<2x5x8xf32>) -> tensor<2x8x5xf32>
  %1 = tn.group_norm %0, %s, %s {groups = 2 : i64, epsilon = 1.0e-05 : f64} : (tensor<2x8x5xf32>, tensor<8xf32>, tensor<8xf32>) -> tensor<2x8x5xf32>
  %2 = tn.group_norm %y, %t, %t {groups = 2 : i64, epsilon = 1.0e-05 : f64} : (tensor<2x8x5xf16>, tensor<8xf16>, tensor<8xf16>) -> tensor<2x8x5xf16>
  return %1, %2 : tensor<2x8x5xf32>, tensor<2x8x5xf16>
}

// Without an operator for it: groups become the channels of an instance norm, and what multiplies
// channels behind it its scale and bias.
// CHECK-LABEL: @reshaped
func.func @reshaped(%x: tensor<2x5x3x8xf16>) -> tensor<2x8x5x3xf16> {
  // CHECK: %[[S:.*]] = tn.constant dense<{{.*}}2.000000e+00, 4.000000e+00], [6.000000e+00, 8.000000e+00]
  // CHECK-NOT: tn.group_norm
  // CHECK: tn.reduce <mean>
  // CHECK: tn.mul %{{.*}}, %[[S]] :
  // CHECK-NOT: tn.mul
  // CHECK: tn.transpose
  %0 = tn.transpose %x [0, 3, 1, 2] : (tensor<2x5x3x8xf16>) -> tensor<2x8x5x3xf16>
  %1 = tn.reshape %0 : (tensor<2x8x5x3xf16>) -> tensor<2x4x30xf16>
  %s = tn.constant dense<[1.0, 2.0, 1.0, 0.5]> : tensor<4xf16> : tensor<4xf16>
  %b = tn.constant dense<[0.0, 1.0, 0.0, 0.0]> : tensor<4xf16> : tensor<4xf16>
  %2 = tn.group_norm %1, %s, %b {groups = 4 : i64, epsilon = 1.0e-05 : f64} : (tensor<2x4x30xf16>, tensor<4xf16>, tensor<4xf16>) -> tensor<2x4x30xf16>
  %3 = tn.reshape %2 : (tensor<2x4x30xf16>) -> tensor<2x8x5x3xf16>
  %c = tn.constant dense<[[[2.0]], [[4.0]], [[3.0]], [[4.0]], [[1.0]], [[1.0]], [[2.0]], [[2.0]]]> : tensor<8x1x1xf16> : tensor<8x1x1xf16>
  %4 = tn.mul %3, %c : (tensor<2x8x5x3xf16>, tensor<8x1x1xf16>) -> tensor<2x8x5x3xf16>
  return %4 : tensor<2x8x5x3xf16>
}

// What is added for each channel of an image, in front of a norm that alone reads it, is part of its
// index space.
// CHECK-LABEL: @added
func.func @added(%x: tensor<2x5x3x8xf16>, %t: tensor<2x1x1x8xf16>, %s: tensor<8xf16>) -> tensor<2x8x5x3xf16> {
  // CHECK-DAG: %[[X:.*]] = tn.reshape %arg0 : {{.*}} -> tensor<2x15x4x2xf16>
  // CHECK-DAG: %[[T:.*]] = tn.reshape %arg1 : {{.*}} -> tensor<2x1x4x2xf16>
  // CHECK: %[[A:.*]] = tn.add %[[X]], %[[T]]
  // CHECK: tn.cast %[[A]]
  %0 = tn.add %x, %t : (tensor<2x5x3x8xf16>, tensor<2x1x1x8xf16>) -> tensor<2x5x3x8xf16>
  %1 = tn.transpose %0 [0, 3, 1, 2] : (tensor<2x5x3x8xf16>) -> tensor<2x8x5x3xf16>
  %2 = tn.group_norm %1, %s, %s {groups = 4 : i64, epsilon = 1.0e-05 : f64} : (tensor<2x8x5x3xf16>, tensor<8xf16>, tensor<8xf16>) -> tensor<2x8x5x3xf16>
  return %2 : tensor<2x8x5x3xf16>
}

// Resizing has no order of dims of its own.
// CHECK-LABEL: @resized
func.func @resized(%x: tensor<1x2x3x8xf16>) -> tensor<1x4x6x8xf16> {
  // CHECK-NOT: tn.transpose
  // CHECK: tn.resize <nearest> %arg0 {{.*}}scales = array<f64: 1.000000e+00, 2.000000e+00, 2.000000e+00, 1.000000e+00>{{.*}} -> tensor<1x4x6x8xf16>
  // CHECK-NOT: tn.transpose
  %0 = tn.transpose %x [0, 3, 1, 2] : (tensor<1x2x3x8xf16>) -> tensor<1x8x2x3xf16>
  %1 = tn.resize <nearest> %0 {coordinates = "asymmetric", nearest = "floor", scales = array<f64: 1.0, 1.0, 2.0, 2.0>, cubicA = -7.5e-01 : f64, excludeOutside = false, antialias = false, extrapolation = 0.0 : f64, roi = array<f64>} : (tensor<1x8x2x3xf16>) -> tensor<1x8x4x6xf16>
  %2 = tn.transpose %1 [0, 2, 3, 1] : (tensor<1x8x4x6xf16>) -> tensor<1x4x6x8xf16>
  return %2 : tensor<1x4x6x8xf16>
}

// More positions than a cluster holds, of few columns: parts of these first, then of groups.
// CHECK-LABEL: @parts
func.func @parts(%x: tensor<1x256x256x64xf16>, %s: tensor<64xf16>) -> tensor<1x64x256x256xf16> {
  // CHECK: tn.reduce <mean> {{.*}}tensor<2x32768x64xf32>
  // CHECK: tn.reduce <mean> {{.*}}tensor<1x2x64xf32>
  // CHECK: tn.reduce <mean> {{.*}}tensor<1x32x2xf32>
  %0 = tn.transpose %x [0, 3, 1, 2] : (tensor<1x256x256x64xf16>) -> tensor<1x64x256x256xf16>
  %1 = tn.group_norm %0, %s, %s {groups = 32 : i64, epsilon = 1.0e-05 : f64} : (tensor<1x64x256x256xf16>, tensor<64xf16>, tensor<64xf16>) -> tensor<1x64x256x256xf16>
  return %1 : tensor<1x64x256x256xf16>
}
