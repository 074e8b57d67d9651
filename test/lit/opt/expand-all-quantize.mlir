// RUN: %tenon-opt %s --pass=expand-all-quantize --check | FileCheck %s

// Numbers from outside too, and results of 16 bits, whose products FP32 holds exactly.
// CHECK-LABEL: @inputs
func.func @inputs(%x: tensor<4xf32>, %q: tensor<4xui8>, %s: tensor<f32>, %h: tensor<f16>, %z: tensor<ui8>) -> (tensor<4xui8>, tensor<4xf16>) {
  // CHECK-NOT: quantize
  // CHECK: tn.div %arg0, %arg2
  // CHECK: tn.cast %arg1 : (tensor<4xui8>) -> tensor<4xf32>
  // CHECK: tn.mul {{.*}} -> tensor<4xf32>
  // CHECK-NEXT: tn.cast {{.*}} -> tensor<4xf16>
  // CHECK-NOT: quantize
  // CHECK: return
  %0 = tn.quantize %x, %s, %z {axis = 0 : i64} : (tensor<4xf32>, tensor<f32>, tensor<ui8>) -> tensor<4xui8>
  %1 = tn.dequantize %q, %h, %z {axis = 0 : i64} : (tensor<4xui8>, tensor<f16>, tensor<ui8>) -> tensor<4xf16>
  return %0, %1 : tensor<4xui8>, tensor<4xf16>
}

// Not what would be rounded twice, nor integers that FP32 does not hold.
// CHECK-LABEL: @left
func.func @left(%q: tensor<4xi16>, %h: tensor<f16>, %z: tensor<i16>, %x: tensor<4xf32>, %s: tensor<f32>, %w: tensor<i32>) -> (tensor<4xf16>, tensor<4xi32>) {
  // CHECK: tn.dequantize
  // CHECK: tn.quantize
  %0 = tn.dequantize %q, %h, %z {axis = 0 : i64} : (tensor<4xi16>, tensor<f16>, tensor<i16>) -> tensor<4xf16>
  %1 = tn.quantize %x, %s, %w {axis = 0 : i64} : (tensor<4xf32>, tensor<f32>, tensor<i32>) -> tensor<4xi32>
  return %0, %1 : tensor<4xf16>, tensor<4xi32>
}

// A level that nothing stores has no zero point: it is added where the level is stored for another product.
// CHECK-LABEL: @levels
func.func @levels(%x: tensor<4xf32>, %w: tensor<4x4xf32>, %s: tensor<f32>, %z: tensor<ui8>) -> (tensor<4xf32>, tensor<4x4xf32>) {
  // CHECK: tn.round
  // CHECK-NOT: tensor<4xui8>
  // CHECK: tn.mul
  // CHECK: tn.round
  // CHECK: tn.cast {{.*}} -> tensor<4x4xui8>
  // CHECK: tn.matmul
  %0 = tn.quantize %x, %s, %z {axis = 0 : i64} : (tensor<4xf32>, tensor<f32>, tensor<ui8>) -> tensor<4xui8>
  %1 = tn.dequantize %0, %s, %z {axis = 0 : i64} : (tensor<4xui8>, tensor<f32>, tensor<ui8>) -> tensor<4xf32>
  %2 = tn.neg %1 : tensor<4xf32>
  %3 = tn.quantize %w, %s, %z {axis = 0 : i64} : (tensor<4x4xf32>, tensor<f32>, tensor<ui8>) -> tensor<4x4xui8>
  %4 = tn.matmul %w, %w : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %5 = tn.dequantize %3, %s, %z {axis = 0 : i64} : (tensor<4x4xui8>, tensor<f32>, tensor<ui8>) -> tensor<4x4xf32>
  %6 = tn.add %4, %5 : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  return %2, %6 : tensor<4xf32>, tensor<4x4xf32>
}
