// RUN: %tenon-opt %s --pass=narrow-integer-products --check | FileCheck %s

// Run-time numbers less run-time zero points; a constant becomes f16 at once.
// CHECK-LABEL: @product
func.func @product(%x: tensor<4x8xui8>, %zero: tensor<ui8>) -> tensor<4x3xi32> {
  // CHECK: %[[W:.*]] = tn.constant dense<{{.*}}> : tensor<8x3xf16>
  // CHECK: %[[D:.*]] = tn.sub
  // CHECK: %[[A:.*]] = tn.cast %[[D]] : (tensor<4x8xi32>) -> tensor<4x8xf16>
  // CHECK: %[[AI:.*]] = tn.cast %[[A]] : (tensor<4x8xf16>) -> tensor<4x8xi32>
  // CHECK: %[[WI:.*]] = tn.cast %[[W]] : (tensor<8x3xf16>) -> tensor<8x3xi32>
  // CHECK: tn.matmul %[[AI]], %[[WI]] {tn.narrow_integers}
  %0 = tn.cast %x : (tensor<4x8xui8>) -> tensor<4x8xi32>
  %1 = tn.cast %zero : (tensor<ui8>) -> tensor<i32>
  %2 = tn.sub %0, %1 : (tensor<4x8xi32>, tensor<i32>) -> tensor<4x8xi32>
  %w = tn.constant dense<[[1, 2, 3], [4, 5, 6], [-7, 8, 255], [-255, 0, 0], [1, 1, 1], [2, 2, 2], [3, 3, 3], [4, 4, 4]]> : tensor<8x3xi32> : tensor<8x3xi32>
  %3 = tn.matmul %2, %w : (tensor<4x8xi32>, tensor<8x3xi32>) -> tensor<4x3xi32>
  return %3 : tensor<4x3xi32>
}

// The filter gets its channels last, while it is as small as it can be.
// CHECK-LABEL: @conv
func.func @conv(%x: tensor<1x6x6x4xi8>, %f: tensor<5x4x3x3xi8>) -> tensor<1x4x4x5xi32> {
  // CHECK: tn.transpose %arg1 [0, 2, 3, 1] : (tensor<5x4x3x3xi8>) -> tensor<5x3x3x4xi8>
  // CHECK: %[[S:.*]] = tn.cast {{.*}} -> tensor<5x3x3x4xf16>
  // CHECK: %[[L:.*]] = tn.transpose %[[S]] [0, 3, 1, 2]
  // CHECK: tn.cast {{.*}} : (tensor<1x6x6x4xf16>) -> tensor<1x6x6x4xi32>
  // CHECK: %[[F:.*]] = tn.cast %[[L]] : (tensor<5x4x3x3xf16>) -> tensor<5x4x3x3xi32>
  // CHECK: tn.conv %{{.*}}, %[[F]] {{.*}}tn.narrow_integers
  %0 = tn.cast %x : (tensor<1x6x6x4xi8>) -> tensor<1x6x6x4xi32>
  %1 = tn.cast %f : (tensor<5x4x3x3xi8>) -> tensor<5x4x3x3xi32>
  %2 = tn.conv %0, %1 {strides = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>, groups = 1 : i64, channelsLast = true} : (tensor<1x6x6x4xi32>, tensor<5x4x3x3xi32>) -> tensor<1x4x4x5xi32>
  return %2 : tensor<1x4x4x5xi32>
}

// Numbers that may be larger, and depthwise convolutions, stay.
// CHECK-LABEL: @refused
func.func @refused(%x: tensor<4x8xi32>, %i: tensor<4x8xi8>, %p: tensor<1x6x6x4xi8>, %f: tensor<4x1x3x3xi8>) -> (tensor<4x4xi32>, tensor<4x4xi32>, tensor<1x4x4x4xi32>) {
  // CHECK-NOT: narrow_integers
  %0 = tn.cast %i : (tensor<4x8xi8>) -> tensor<4x8xi32>
  %1 = tn.matmul %0, %x {transposeB} : (tensor<4x8xi32>, tensor<4x8xi32>) -> tensor<4x4xi32>
  %2 = tn.add %0, %0 : (tensor<4x8xi32>, tensor<4x8xi32>) -> tensor<4x8xi32>
  %3 = tn.matmul %2, %0 {transposeB} : (tensor<4x8xi32>, tensor<4x8xi32>) -> tensor<4x4xi32>
  %4 = tn.cast %p : (tensor<1x6x6x4xi8>) -> tensor<1x6x6x4xi32>
  %5 = tn.cast %f : (tensor<4x1x3x3xi8>) -> tensor<4x1x3x3xi32>
  %6 = tn.conv %4, %5 {strides = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>, groups = 4 : i64, channelsLast = true} : (tensor<1x6x6x4xi32>, tensor<4x1x3x3xi32>) -> tensor<1x4x4x4xi32>
  return %1, %3, %6 : tensor<4x4xi32>, tensor<4x4xi32>, tensor<1x4x4x4xi32>
}
