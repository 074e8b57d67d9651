// RUN: %tenon-opt %s --pass=expand-quantize --check | FileCheck %s

// Saturation by comparisons, which NaN fails as it does in tn.quantize.
// CHECK-LABEL: @scalar
func.func @scalar(%x: tensor<4x8xf32>, %s: tensor<f32>, %z: tensor<ui8>) -> tensor<4x8xui8> {
  // CHECK: %[[R:.*]] = tn.relu
  // CHECK: %[[Q:.*]] = tn.div %[[R]], %arg1
  // CHECK: tn.round %[[Q]]
  // CHECK: tn.add
  // CHECK: tn.compare {{.*}} <gt>
  // CHECK: tn.select
  // CHECK: tn.compare {{.*}} <lt>
  // CHECK: tn.select
  // CHECK: tn.cast {{.*}} -> tensor<4x8xui8>
  %0 = tn.relu %x : tensor<4x8xf32>
  %1 = tn.quantize %0, %s, %z {axis = 0 : i64} : (tensor<4x8xf32>, tensor<f32>, tensor<ui8>) -> tensor<4x8xui8>
  return %1 : tensor<4x8xui8>
}

// Along an axis, and back.
// CHECK-LABEL: @axis
func.func @axis(%x: tensor<4x8xf32>, %s: tensor<8xf32>, %z: tensor<8xi8>) -> tensor<4x8xf32> {
  // CHECK-NOT: quantize
  // CHECK: tn.reshape %arg1 : (tensor<8xf32>) -> tensor<1x8xf32>
  // CHECK-NOT: quantize
  // CHECK: return
  %0 = tn.relu %x : tensor<4x8xf32>
  %1 = tn.quantize %0, %s, %z {axis = 1 : i64} : (tensor<4x8xf32>, tensor<8xf32>, tensor<8xi8>) -> tensor<4x8xi8>
  %2 = tn.dequantize %1, %s, %z {axis = 1 : i64} : (tensor<4x8xi8>, tensor<8xf32>, tensor<8xi8>) -> tensor<4x8xf32>
  return %2 : tensor<4x8xf32>
}

// The transposes around two convolutions meet behind it.
// CHECK-LABEL: @transposes
func.func @transposes(%x: tensor<2x3x4x5xf32>, %s: tensor<f32>, %z: tensor<ui8>) -> tensor<2x3x4x5xf32> {
  // CHECK-NOT: tn.transpose
  // CHECK: return
  %0 = tn.transpose %x [0, 3, 1, 2] : (tensor<2x3x4x5xf32>) -> tensor<2x5x3x4xf32>
  %1 = tn.quantize %0, %s, %z {axis = 0 : i64} : (tensor<2x5x3x4xf32>, tensor<f32>, tensor<ui8>) -> tensor<2x5x3x4xui8>
  %2 = tn.dequantize %1, %s, %z {axis = 0 : i64} : (tensor<2x5x3x4xui8>, tensor<f32>, tensor<ui8>) -> tensor<2x5x3x4xf32>
  %3 = tn.transpose %2 [0, 2, 3, 1] : (tensor<2x5x3x4xf32>) -> tensor<2x3x4x5xf32>
  return %3 : tensor<2x3x4x5xf32>
}

// Numbers from outside and integers that FP32 does not hold stay.
// CHECK-LABEL: @left
func.func @left(%x: tensor<4xf32>, %s: tensor<f32>, %z: tensor<ui8>, %w: tensor<i32>) -> (tensor<4xui8>, tensor<4xi32>) {
  // CHECK: tn.quantize %arg0
  // CHECK: tn.quantize
  %0 = tn.quantize %x, %s, %z {axis = 0 : i64} : (tensor<4xf32>, tensor<f32>, tensor<ui8>) -> tensor<4xui8>
  %1 = tn.relu %x : tensor<4xf32>
  %2 = tn.quantize %1, %s, %w {axis = 0 : i64} : (tensor<4xf32>, tensor<f32>, tensor<i32>) -> tensor<4xi32>
  return %0, %2 : tensor<4xui8>, tensor<4xi32>
}

// Numbers of 16 bits are multiplied by a factor that gives each of them the level of the quotient.
// CHECK-LABEL: @half
func.func @half(%x: tensor<8xf16>) -> tensor<8xui8> {
  // CHECK: tn.mul {{.*}}tensor<f32>
  // CHECK-NOT: tn.div
  %s = tn.constant dense<0.0271357> : tensor<f32> : tensor<f32>
  %z = tn.constant dense<0> : tensor<ui8> : tensor<ui8>
  %0 = tn.cast %x : (tensor<8xf16>) -> tensor<8xf32>
  %1 = tn.relu %0 : tensor<8xf32>
  %2 = tn.quantize %1, %s, %z {axis = 0 : i64} : (tensor<8xf32>, tensor<f32>, tensor<ui8>) -> tensor<8xui8>
  return %2 : tensor<8xui8>
}

// No factor does so of every scale.
// CHECK-LABEL: @tie
func.func @tie(%x: tensor<8xf16>) -> tensor<8xui8> {
  // CHECK: tn.div
  %s = tn.constant dense<3.0> : tensor<f32> : tensor<f32>
  %z = tn.constant dense<0> : tensor<ui8> : tensor<ui8>
  %0 = tn.cast %x : (tensor<8xf16>) -> tensor<8xf32>
  %2 = tn.quantize %0, %s, %z {axis = 0 : i64} : (tensor<8xf32>, tensor<f32>, tensor<ui8>) -> tensor<8xui8>
  return %2 : tensor<8xui8>
}
