// RUN: %tenon-opt %s --pass=simplify,recognize-silu --check | FileCheck %s

// CHECK-LABEL: @product
func.func @product(%x: tensor<4x8xbf16>) -> tensor<4x8xbf16> {
  // CHECK-NEXT: %[[Y:.*]] = tn.silu %arg0 : tensor<4x8xbf16>
  // CHECK-NEXT: return %[[Y]]
  %0 = tn.sigmoid %x : tensor<4x8xbf16>
  %1 = tn.mul %0, %x : (tensor<4x8xbf16>, tensor<4x8xbf16>) -> tensor<4x8xbf16>
  return %1 : tensor<4x8xbf16>
}
// -----
// x / (1 + exp(-x))
// CHECK-LABEL: @quotient
func.func @quotient(%x: tensor<8xf32>) -> tensor<8xf32> {
  %one = tn.constant dense<1.0> : tensor<f32> : tensor<f32>
  // CHECK-NEXT: %[[Y:.*]] = tn.silu %arg0 : tensor<8xf32>
  // CHECK-NEXT: return %[[Y]]
  %0 = tn.neg %x : tensor<8xf32>
  %1 = tn.exp %0 : tensor<8xf32>
  %2 = tn.add %1, %one : (tensor<8xf32>, tensor<f32>) -> tensor<8xf32>
  %3 = tn.div %x, %2 : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  return %3 : tensor<8xf32>
}
// -----
// 1 / (1 + exp(-1 * x)), then a product
// CHECK-LABEL: @spelled_sigmoid
func.func @spelled_sigmoid(%x: tensor<8xf32>) -> tensor<8xf32> {
  %one = tn.constant dense<1.0> : tensor<f32> : tensor<f32>
  %minus = tn.constant dense<-1.0> : tensor<f32> : tensor<f32>
  // CHECK-NEXT: %[[Y:.*]] = tn.silu %arg0 : tensor<8xf32>
  // CHECK-NEXT: return %[[Y]]
  %0 = tn.mul %minus, %x : (tensor<f32>, tensor<8xf32>) -> tensor<8xf32>
  %1 = tn.exp %0 : tensor<8xf32>
  %2 = tn.add %one, %1 : (tensor<f32>, tensor<8xf32>) -> tensor<8xf32>
  %3 = tn.reciprocal %2 : tensor<8xf32>
  %4 = tn.mul %x, %3 : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  return %4 : tensor<8xf32>
}
// -----
// The sigmoid is needed anyway; and a scaled sigmoid is another function.
// CHECK-LABEL: @refused
// CHECK-NOT: tn.silu
func.func @refused(%x: tensor<8xf32>) -> (tensor<8xf32>, tensor<8xf32>, tensor<8xf32>) {
  %c = tn.constant dense<1.702> : tensor<f32> : tensor<f32>
  %0 = tn.sigmoid %x : tensor<8xf32>
  %1 = tn.mul %0, %x : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  %2 = tn.mul %x, %c : (tensor<8xf32>, tensor<f32>) -> tensor<8xf32>
  %3 = tn.sigmoid %2 : tensor<8xf32>
  %4 = tn.mul %x, %3 : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  return %0, %1, %4 : tensor<8xf32>, tensor<8xf32>, tensor<8xf32>
}
