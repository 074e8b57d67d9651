// RUN: %tenon-opt %s --pass=integer-products-of-gpu | FileCheck %s

// Tensor cores want the depth of both operands along their rows.
// CHECK-LABEL: @rows
func.func @rows(%x: tensor<16x32xui8>) -> tensor<16x8xf32> {
  // CHECK: %[[W:.*]] = tn.weight {{.*}} : tensor<8x32xi8>
  // CHECK: tn.matmul %arg0, %[[W]] {transposeB} : (tensor<16x32xui8>, tensor<8x32xi8>) -> tensor<16x8xi32>
  %s = tn.constant dense<0.5> : tensor<f32> : tensor<f32>
  %z = tn.constant dense<128> : tensor<ui8> : tensor<ui8>
  %w = tn.constant dense<3> : tensor<32x8xi8> : tensor<32x8xi8>
  %wz = tn.constant dense<0> : tensor<i8> : tensor<i8>
  %0 = tn.dequantize %x, %s, %z {axis = 0 : i64} : (tensor<16x32xui8>, tensor<f32>, tensor<ui8>) -> tensor<16x32xf32>
  %1 = tn.dequantize %w, %s, %wz {axis = 0 : i64} : (tensor<32x8xi8>, tensor<f32>, tensor<i8>) -> tensor<32x8xf32>
  %2 = tn.matmul %0, %1 : (tensor<16x32xf32>, tensor<32x8xf32>) -> tensor<16x8xf32>
  return %2 : tensor<16x8xf32>
}
// -----
// Few rows, and depths that copies of 16 bytes do not divide.
// CHECK-LABEL: @stays
func.func @stays(%x: tensor<8x32xui8>, %y: tensor<16x24xui8>) -> (tensor<8x8xf32>, tensor<16x8xf32>) {
  // CHECK-NOT: -> tensor<{{.*}}xi32>
  %s = tn.constant dense<0.5> : tensor<f32> : tensor<f32>
  %z = tn.constant dense<128> : tensor<ui8> : tensor<ui8>
  %w = tn.constant dense<3> : tensor<32x8xi8> : tensor<32x8xi8>
  %v = tn.constant dense<3> : tensor<24x8xi8> : tensor<24x8xi8>
  %wz = tn.constant dense<0> : tensor<i8> : tensor<i8>
  %0 = tn.dequantize %x, %s, %z {axis = 0 : i64} : (tensor<8x32xui8>, tensor<f32>, tensor<ui8>) -> tensor<8x32xf32>
  %1 = tn.dequantize %w, %s, %wz {axis = 0 : i64} : (tensor<32x8xi8>, tensor<f32>, tensor<i8>) -> tensor<32x8xf32>
  %2 = tn.matmul %0, %1 : (tensor<8x32xf32>, tensor<32x8xf32>) -> tensor<8x8xf32>
  %3 = tn.dequantize %y, %s, %z {axis = 0 : i64} : (tensor<16x24xui8>, tensor<f32>, tensor<ui8>) -> tensor<16x24xf32>
  %4 = tn.dequantize %v, %s, %wz {axis = 0 : i64} : (tensor<24x8xi8>, tensor<f32>, tensor<i8>) -> tensor<24x8xf32>
  %5 = tn.matmul %3, %4 : (tensor<16x24xf32>, tensor<24x8xf32>) -> tensor<16x8xf32>
  return %2, %5 : tensor<8x8xf32>, tensor<16x8xf32>
}
