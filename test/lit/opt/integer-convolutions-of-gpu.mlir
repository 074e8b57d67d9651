// RUN: %tenon-opt %s --pass=integer-products-of-gpu | FileCheck %s

// Signed numbers of a symmetric scale are multiplied as they are: their padding is zeros.
// CHECK-LABEL: @signed
func.func @signed(%x: tensor<1x8x8x16xi8>) -> tensor<1x8x8x32xf32> {
  // CHECK-NOT: tn.pad
  // CHECK: tn.conv %arg0, %{{.*}} {{.*}}pads = array<i64: 1, 1, 1, 1>{{.*}} : (tensor<1x8x8x16xi8>, tensor<32x16x3x3xi8>) -> tensor<1x8x8x32xi32>
  %s = tn.constant dense<0.5> : tensor<f32> : tensor<f32>
  %z = tn.constant dense<0> : tensor<i8> : tensor<i8>
  %w = tn.constant dense<3> : tensor<32x16x3x3xi8> : tensor<32x16x3x3xi8>
  %0 = tn.dequantize %x, %s, %z {axis = 0 : i64} : (tensor<1x8x8x16xi8>, tensor<f32>, tensor<i8>) -> tensor<1x8x8x16xf32>
  %1 = tn.dequantize %w, %s, %z {axis = 0 : i64} : (tensor<32x16x3x3xi8>, tensor<f32>, tensor<i8>) -> tensor<32x16x3x3xf32>
  %2 = tn.conv %0, %1 {strides = array<i64: 1, 1>, pads = array<i64: 1, 1, 1, 1>, dilations = array<i64: 1, 1>, groups = 1 : i64, channelsLast = true} : (tensor<1x8x8x16xf32>, tensor<32x16x3x3xf32>) -> tensor<1x8x8x32xf32>
  return %2 : tensor<1x8x8x32xf32>
}
// -----
// Other zero points are padding of their own, and fill up the channels of pictures.
// CHECK-LABEL: @picture
func.func @picture(%x: tensor<1x8x8x3xui8>) -> tensor<1x8x8x32xf32> {
  // CHECK: tn.pad {{.*}} -> tensor<1x10x10x4xui8>
  // CHECK: tn.conv {{.*}}pads = array<i64: 0, 0, 0, 0>{{.*}} : (tensor<1x10x10x4xui8>, tensor<32x4x3x3xi8>) -> tensor<1x8x8x32xi32>
  %s = tn.constant dense<0.5> : tensor<f32> : tensor<f32>
  %z = tn.constant dense<114> : tensor<ui8> : tensor<ui8>
  %wz = tn.constant dense<0> : tensor<i8> : tensor<i8>
  %w = tn.constant dense<3> : tensor<32x3x3x3xi8> : tensor<32x3x3x3xi8>
  %0 = tn.dequantize %x, %s, %z {axis = 0 : i64} : (tensor<1x8x8x3xui8>, tensor<f32>, tensor<ui8>) -> tensor<1x8x8x3xf32>
  %1 = tn.dequantize %w, %s, %wz {axis = 0 : i64} : (tensor<32x3x3x3xi8>, tensor<f32>, tensor<i8>) -> tensor<32x3x3x3xf32>
  %2 = tn.conv %0, %1 {strides = array<i64: 1, 1>, pads = array<i64: 1, 1, 1, 1>, dilations = array<i64: 1, 1>, groups = 1 : i64, channelsLast = true} : (tensor<1x8x8x3xf32>, tensor<32x3x3x3xf32>) -> tensor<1x8x8x32xf32>
  return %2 : tensor<1x8x8x32xf32>
}
// -----
// CHECK-LABEL: @depthwise
func.func @depthwise(%x: tensor<1x8x8x32xui8>) -> tensor<1x8x8x32xf32> {
  // CHECK: tn.conv {{.*}} : (tensor<1x8x8x32xui8>, tensor<32x1x3x3xi8>) -> tensor<1x8x8x32xi32>
  %s = tn.constant dense<0.5> : tensor<f32> : tensor<f32>
  %z = tn.constant dense<0> : tensor<ui8> : tensor<ui8>
  %wz = tn.constant dense<0> : tensor<i8> : tensor<i8>
  %w = tn.constant dense<3> : tensor<32x1x3x3xi8> : tensor<32x1x3x3xi8>
  %0 = tn.dequantize %x, %s, %z {axis = 0 : i64} : (tensor<1x8x8x32xui8>, tensor<f32>, tensor<ui8>) -> tensor<1x8x8x32xf32>
  %1 = tn.dequantize %w, %s, %wz {axis = 0 : i64} : (tensor<32x1x3x3xi8>, tensor<f32>, tensor<i8>) -> tensor<32x1x3x3xf32>
  %2 = tn.conv %0, %1 {strides = array<i64: 1, 1>, pads = array<i64: 1, 1, 1, 1>, dilations = array<i64: 1, 1>, groups = 32 : i64, channelsLast = true} : (tensor<1x8x8x32xf32>, tensor<32x1x3x3xf32>) -> tensor<1x8x8x32xf32>
  return %2 : tensor<1x8x8x32xf32>
}
