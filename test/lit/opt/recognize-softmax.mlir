// RUN: %tenon-opt %s --pass=simplify,recognize-softmax --check | FileCheck %s

// CHECK-LABEL: @with_maximum
func.func @with_maximum(%x: tensor<2x3x4xf32>) -> tensor<2x3x4xf32> {
  // CHECK-NEXT: %[[Y:.*]] = tn.softmax %arg0 {axis = 1 : i64}
  // CHECK-NEXT: return %[[Y]]
  %0 = tn.reduce <max> %x {axes = array<i64: 1>, keepdims = true} : (tensor<2x3x4xf32>) -> tensor<2x1x4xf32>
  %1 = tn.sub %x, %0 : (tensor<2x3x4xf32>, tensor<2x1x4xf32>) -> tensor<2x3x4xf32>
  %2 = tn.exp %1 : tensor<2x3x4xf32>
  %3 = tn.reduce <sum> %2 {axes = array<i64: 1>, keepdims = true} : (tensor<2x3x4xf32>) -> tensor<2x1x4xf32>
  %4 = tn.div %2, %3 : (tensor<2x3x4xf32>, tensor<2x1x4xf32>) -> tensor<2x3x4xf32>
  return %4 : tensor<2x3x4xf32>
}
// -----
// CHECK-LABEL: @without_maximum_log
func.func @without_maximum_log(%x: tensor<2x4xf32>) -> tensor<2x4xf32> {
  // CHECK-NEXT: %[[Y:.*]] = tn.softmax %arg0 {axis = 1 : i64, log}
  // CHECK-NEXT: return %[[Y]]
  %0 = tn.exp %x : tensor<2x4xf32>
  %1 = tn.reduce <sum> %0 {axes = array<i64: 1>, keepdims = true} : (tensor<2x4xf32>) -> tensor<2x1xf32>
  %2 = tn.div %0, %1 : (tensor<2x4xf32>, tensor<2x1xf32>) -> tensor<2x4xf32>
  %3 = tn.log %2 : tensor<2x4xf32>
  return %3 : tensor<2x4xf32>
}
// -----
// The sum runs over two axes.
// CHECK-LABEL: @two_axes
// CHECK-NOT: tn.softmax
func.func @two_axes(%x: tensor<2x3x4xf32>) -> tensor<2x3x4xf32> {
  %0 = tn.exp %x : tensor<2x3x4xf32>
  %1 = tn.reduce <sum> %0 {axes = array<i64: 1, 2>, keepdims = true} : (tensor<2x3x4xf32>) -> tensor<2x1x1xf32>
  %2 = tn.div %0, %1 : (tensor<2x3x4xf32>, tensor<2x1x1xf32>) -> tensor<2x3x4xf32>
  return %2 : tensor<2x3x4xf32>
}
// -----
// Without keepdims the sum belongs to another axis than it was taken over.
// CHECK-LABEL: @no_keepdims
// CHECK-NOT: tn.softmax
func.func @no_keepdims(%x: tensor<4x4xf32>) -> tensor<4x4xf32> {
  %0 = tn.exp %x : tensor<4x4xf32>
  %1 = tn.reduce <sum> %0 {axes = array<i64: 1>, keepdims = false} : (tensor<4x4xf32>) -> tensor<4xf32>
  %2 = tn.div %0, %1 : (tensor<4x4xf32>, tensor<4xf32>) -> tensor<4x4xf32>
  return %2 : tensor<4x4xf32>
}
// -----
// The maximum is over another axis: right as a softmax by its value, but the shift is not ours to drop.
// CHECK-LABEL: @maximum_elsewhere
func.func @maximum_elsewhere(%x: tensor<3x4xf32>) -> tensor<3x4xf32> {
  // CHECK: %[[D:.*]] = tn.sub
  // CHECK-NEXT: tn.softmax %[[D]] {axis = 1 : i64}
  %0 = tn.reduce <max> %x {axes = array<i64: 0>, keepdims = true} : (tensor<3x4xf32>) -> tensor<1x4xf32>
  %1 = tn.sub %x, %0 : (tensor<3x4xf32>, tensor<1x4xf32>) -> tensor<3x4xf32>
  %2 = tn.exp %1 : tensor<3x4xf32>
  %3 = tn.reduce <sum> %2 {axes = array<i64: 1>, keepdims = true} : (tensor<3x4xf32>) -> tensor<3x1xf32>
  %4 = tn.div %2, %3 : (tensor<3x4xf32>, tensor<3x1xf32>) -> tensor<3x4xf32>
  return %4 : tensor<3x4xf32>
}
// -----
// The exponentials are a result too.
// CHECK-LABEL: @shared
// CHECK-NOT: tn.softmax
func.func @shared(%x: tensor<3x4xf32>) -> (tensor<3x4xf32>, tensor<3x4xf32>) {
  %0 = tn.exp %x : tensor<3x4xf32>
  %1 = tn.reduce <sum> %0 {axes = array<i64: 1>, keepdims = true} : (tensor<3x4xf32>) -> tensor<3x1xf32>
  %2 = tn.div %0, %1 : (tensor<3x4xf32>, tensor<3x1xf32>) -> tensor<3x4xf32>
  return %0, %2 : tensor<3x4xf32>, tensor<3x4xf32>
}
