// RUN: %tenon-opt %s --pass=expand-all-quantize --pass=dispatch --check | FileCheck %s

// A residual block of 8-bit tensors, from the model's inputs on, is one loop.
// CHECK-LABEL: @residual
func.func @residual(%x: tensor<4x64xui8>, %y: tensor<4x64xi8>, %s: tensor<f32>, %z: tensor<ui8>, %zi: tensor<i8>) -> tensor<4x64xui8> {
  // CHECK: tn.region "cpu" "elementwise"
  // CHECK-NOT: quantize
  // CHECK: tn.relu
  // CHECK: tn.cast {{.*}} -> tensor<4x64xui8>
  // CHECK-NEXT: tn.yield
  // CHECK-NOT: tn.region
  %0 = tn.dequantize %x, %s, %z {axis = 0 : i64} : (tensor<4x64xui8>, tensor<f32>, tensor<ui8>) -> tensor<4x64xf32>
  %1 = tn.dequantize %y, %s, %zi {axis = 0 : i64} : (tensor<4x64xi8>, tensor<f32>, tensor<i8>) -> tensor<4x64xf32>
  %2 = tn.add %0, %1 : (tensor<4x64xf32>, tensor<4x64xf32>) -> tensor<4x64xf32>
  %3 = tn.relu %2 : tensor<4x64xf32>
  %4 = tn.quantize %3, %s, %z {axis = 0 : i64} : (tensor<4x64xf32>, tensor<f32>, tensor<ui8>) -> tensor<4x64xui8>
  return %4 : tensor<4x64xui8>
}

// -----

// A product of small integers ends as they do.
// CHECK-LABEL: @product
func.func @product(%x: tensor<16x32xi8>, %w: tensor<32x64xi8>, %s: tensor<64xf32>, %z: tensor<i8>, %t: tensor<f32>) -> tensor<16x64xi8> {
  // CHECK: tn.region "cpu" "contraction"
  // CHECK: tn.matmul
  // CHECK-NEXT: tn.cast {{.*}} -> tensor<16x64xf32>
  // CHECK-NEXT: tn.mul
  // CHECK-NEXT: tn.div
  // CHECK: tn.cast {{.*}} -> tensor<16x64xi8>
  // CHECK-NEXT: tn.yield
  // CHECK-NOT: tn.region
  %0 = tn.cast %x : (tensor<16x32xi8>) -> tensor<16x32xi32>
  %1 = tn.cast %w : (tensor<32x64xi8>) -> tensor<32x64xi32>
  %2 = tn.matmul %0, %1 : (tensor<16x32xi32>, tensor<32x64xi32>) -> tensor<16x64xi32>
  %3 = tn.cast %2 : (tensor<16x64xi32>) -> tensor<16x64xf32>
  %4 = tn.mul %3, %s : (tensor<16x64xf32>, tensor<64xf32>) -> tensor<16x64xf32>
  %5 = tn.quantize %4, %t, %z {axis = 0 : i64} : (tensor<16x64xf32>, tensor<f32>, tensor<i8>) -> tensor<16x64xi8>
  return %5 : tensor<16x64xi8>
}

// -----

// A norm of halves takes the residual and gives it too.
// CHECK-LABEL: @norm
func.func @norm(%x: tensor<4x96xf16>, %y: tensor<4x96xf16>, %s: tensor<96xf16>) -> (tensor<4x96xf16>, tensor<4x96xf16>) {
  // CHECK: tn.region "cpu" "rows"
  // CHECK: tn.add
  // CHECK-NEXT: tn.rms_norm
  // CHECK-NEXT: tn.yield
  // CHECK-NOT: tn.region
  %0 = tn.add %x, %y : (tensor<4x96xf16>, tensor<4x96xf16>) -> tensor<4x96xf16>
  %1 = tn.rms_norm %0 scale %s {axis = 1 : i64, epsilon = 1.0e-5 : f64} : (tensor<4x96xf16>, tensor<96xf16>) -> tensor<4x96xf16>
  return %0, %1 : tensor<4x96xf16>, tensor<4x96xf16>
}
