// RUN: %tenon-opt %s --pass=fold-transposes --check | FileCheck %s

// CHECK-LABEL: @both
func.func @both(%a: tensor<2x4x3xf32>, %b: tensor<5x4xf32>) -> tensor<2x3x5xf32> {
  // CHECK-NEXT: %[[Y:.*]] = tn.matmul %arg0, %arg1 {transposeA, transposeB}
  // CHECK-NEXT: return %[[Y]]
  %0 = tn.transpose %a [0, 2, 1] : (tensor<2x4x3xf32>) -> tensor<2x3x4xf32>
  %1 = tn.transpose %b [1, 0] : (tensor<5x4xf32>) -> tensor<4x5xf32>
  %2 = tn.matmul %0, %1 : (tensor<2x3x4xf32>, tensor<4x5xf32>) -> tensor<2x3x5xf32>
  return %2 : tensor<2x3x5xf32>
}
// -----
// One on top of the product's own cancels it.
// CHECK-LABEL: @twice
func.func @twice(%a: tensor<3x4xf32>, %b: tensor<4x5xf32>) -> tensor<3x5xf32> {
  // CHECK-NEXT: %[[Y:.*]] = tn.matmul %arg0, %arg1 :
  // CHECK-NEXT: return %[[Y]]
  %0 = tn.transpose %b [1, 0] : (tensor<4x5xf32>) -> tensor<5x4xf32>
  %1 = tn.matmul %a, %0 {transposeB} : (tensor<3x4xf32>, tensor<5x4xf32>) -> tensor<3x5xf32>
  return %1 : tensor<3x5xf32>
}
// -----
// Heads moved as well: more than the last two dims.
// CHECK-LABEL: @refused
func.func @refused(%a: tensor<2x3x5x4xf32>, %b: tensor<2x6x3x4xf32>) -> tensor<2x3x5x6xf32> {
  // CHECK: tn.transpose
  // CHECK: tn.matmul {{.*}} :
  %0 = tn.transpose %b [0, 2, 3, 1] : (tensor<2x6x3x4xf32>) -> tensor<2x3x4x6xf32>
  %1 = tn.matmul %a, %0 : (tensor<2x3x5x4xf32>, tensor<2x3x4x6xf32>) -> tensor<2x3x5x6xf32>
  return %1 : tensor<2x3x5x6xf32>
}
