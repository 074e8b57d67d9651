// RUN: %tenon-opt %s --pass=simplify,recognize-norm,simplify --check | FileCheck %s

// torch's decomposition, with a power; gamma as a weight in front, beta as [1, 8].
// CHECK-LABEL: @torch_spelling
func.func @torch_spelling(%x: tensor<2x3x8xf32>) -> tensor<2x3x8xf32> {
  // CHECK: %[[S:.*]] = tn.weight "gamma" : tensor<8xf32>
  // CHECK: %[[B:.*]] = tn.weight "beta" : tensor<8xf32>
  // CHECK: %[[Y:.*]] = tn.layer_norm %arg0 scale %[[S]] bias %[[B]] {axis = 2 : i64, epsilon = 9.99{{.*}}E-13 : f64}
  // CHECK-NEXT: return %[[Y]]
  %two = tn.constant dense<2.0> : tensor<f32> : tensor<f32>
  %eps = tn.constant dense<1.0e-12> : tensor<f32> : tensor<f32>
  %gamma = tn.weight "gamma" : tensor<8xf32>
  %beta = tn.weight "beta" : tensor<1x8xf32>
  %0 = tn.reduce <mean> %x {axes = array<i64: 2>, keepdims = true} : (tensor<2x3x8xf32>) -> tensor<2x3x1xf32>
  %1 = tn.sub %x, %0 : (tensor<2x3x8xf32>, tensor<2x3x1xf32>) -> tensor<2x3x8xf32>
  %2 = tn.pow %1, %two : (tensor<2x3x8xf32>, tensor<f32>) -> tensor<2x3x8xf32>
  %3 = tn.reduce <mean> %2 {axes = array<i64: 2>, keepdims = true} : (tensor<2x3x8xf32>) -> tensor<2x3x1xf32>
  %4 = tn.add %3, %eps : (tensor<2x3x1xf32>, tensor<f32>) -> tensor<2x3x1xf32>
  %5 = tn.sqrt %4 : tensor<2x3x1xf32>
  %6 = tn.div %1, %5 : (tensor<2x3x8xf32>, tensor<2x3x1xf32>) -> tensor<2x3x8xf32>
  %7 = tn.mul %gamma, %6 : (tensor<8xf32>, tensor<2x3x8xf32>) -> tensor<2x3x8xf32>
  %8 = tn.add %7, %beta : (tensor<2x3x8xf32>, tensor<1x8xf32>) -> tensor<2x3x8xf32>
  return %8 : tensor<2x3x8xf32>
}
// -----
// Two subtractions, a product instead of a power, a reciprocal root, two axes, a symbolic batch.
#x = #tn.shape<()[s0] -> (s0, 3, 8)>
#m = #tn.shape<()[s0] -> (s0, 1, 1)>
module attributes {tn.symbols = [#tn.symbol<"n", 1, 8>]} {
// CHECK-LABEL: @two_axes
func.func @two_axes(%x: tensor<?x3x8xf32, #x>) -> tensor<?x3x8xf32, #x> {
  // CHECK: %[[Y:.*]] = tn.layer_norm %arg0 {axis = 1 : i64, epsilon = 1.000000e+00 : f64}
  // CHECK-NEXT: return %[[Y]]
  %eps = tn.constant dense<1.0> : tensor<1xf32> : tensor<1xf32>
  %0 = tn.reduce <mean> %x {axes = array<i64: 1, 2>, keepdims = true} : (tensor<?x3x8xf32, #x>) -> tensor<?x1x1xf32, #m>
  %1 = tn.sub %x, %0 : (tensor<?x3x8xf32, #x>, tensor<?x1x1xf32, #m>) -> tensor<?x3x8xf32, #x>
  %2 = tn.sub %x, %0 : (tensor<?x3x8xf32, #x>, tensor<?x1x1xf32, #m>) -> tensor<?x3x8xf32, #x>
  %3 = tn.mul %1, %1 : (tensor<?x3x8xf32, #x>, tensor<?x3x8xf32, #x>) -> tensor<?x3x8xf32, #x>
  %4 = tn.reduce <mean> %3 {axes = array<i64: 1, 2>, keepdims = true} : (tensor<?x3x8xf32, #x>) -> tensor<?x1x1xf32, #m>
  %5 = tn.add %eps, %4 : (tensor<1xf32>, tensor<?x1x1xf32, #m>) -> tensor<?x1x1xf32, #m>
  %6 = tn.sqrt %5 : tensor<?x1x1xf32, #m>
  %7 = tn.reciprocal %6 : tensor<?x1x1xf32, #m>
  %8 = tn.mul %2, %7 : (tensor<?x3x8xf32, #x>, tensor<?x1x1xf32, #m>) -> tensor<?x3x8xf32, #x>
  return %8 : tensor<?x3x8xf32, #x>
}
}
// -----
// CHECK-LABEL: @rms
func.func @rms(%x: tensor<2x8xf16>) -> tensor<2x8xf16> {
  // CHECK: %[[S:.*]] = tn.weight "gamma"
  // CHECK: %[[Y:.*]] = tn.rms_norm %arg0 scale %[[S]] {axis = 1 : i64
  // CHECK-NEXT: return %[[Y]]
  %two = tn.constant dense<2.0> : tensor<f16> : tensor<f16>
  %eps = tn.constant dense<1.0e-03> : tensor<f16> : tensor<f16>
  %gamma = tn.weight "gamma" : tensor<8xf16>
  %0 = tn.pow %x, %two : (tensor<2x8xf16>, tensor<f16>) -> tensor<2x8xf16>
  %1 = tn.reduce <mean> %0 {axes = array<i64: 1>, keepdims = true} : (tensor<2x8xf16>) -> tensor<2x1xf16>
  %2 = tn.add %1, %eps : (tensor<2x1xf16>, tensor<f16>) -> tensor<2x1xf16>
  %3 = tn.rsqrt %2 : tensor<2x1xf16>
  %4 = tn.mul %x, %3 : (tensor<2x8xf16>, tensor<2x1xf16>) -> tensor<2x8xf16>
  %5 = tn.mul %gamma, %4 : (tensor<8xf16>, tensor<2x8xf16>) -> tensor<2x8xf16>
  return %5 : tensor<2x8xf16>
}
// -----
// Over the channels of NCHW: not the last axes.
// CHECK-LABEL: @other_axis
// CHECK-NOT: tn.layer_norm
// CHECK-NOT: tn.rms_norm
func.func @other_axis(%x: tensor<2x3x8xf32>) -> tensor<2x3x8xf32> {
  %eps = tn.constant dense<1.0e-05> : tensor<f32> : tensor<f32>
  %0 = tn.reduce <mean> %x {axes = array<i64: 1>, keepdims = true} : (tensor<2x3x8xf32>) -> tensor<2x1x8xf32>
  %1 = tn.sub %x, %0 : (tensor<2x3x8xf32>, tensor<2x1x8xf32>) -> tensor<2x3x8xf32>
  %2 = tn.mul %1, %1 : (tensor<2x3x8xf32>, tensor<2x3x8xf32>) -> tensor<2x3x8xf32>
  %3 = tn.reduce <mean> %2 {axes = array<i64: 1>, keepdims = true} : (tensor<2x3x8xf32>) -> tensor<2x1x8xf32>
  %4 = tn.add %3, %eps : (tensor<2x1x8xf32>, tensor<f32>) -> tensor<2x1x8xf32>
  %5 = tn.sqrt %4 : tensor<2x1x8xf32>
  %6 = tn.div %1, %5 : (tensor<2x3x8xf32>, tensor<2x1x8xf32>) -> tensor<2x3x8xf32>
  return %6 : tensor<2x3x8xf32>
}
// -----
// The variance is a result too; the scale is per row, not per column.
// CHECK-LABEL: @shared_variance
// CHECK-NOT: tn.layer_norm
func.func @shared_variance(%x: tensor<2x8xf32>) -> (tensor<2x8xf32>, tensor<2x1xf32>) {
  %eps = tn.constant dense<1.0e-05> : tensor<f32> : tensor<f32>
  %0 = tn.reduce <mean> %x {axes = array<i64: 1>, keepdims = true} : (tensor<2x8xf32>) -> tensor<2x1xf32>
  %1 = tn.sub %x, %0 : (tensor<2x8xf32>, tensor<2x1xf32>) -> tensor<2x8xf32>
  %2 = tn.mul %1, %1 : (tensor<2x8xf32>, tensor<2x8xf32>) -> tensor<2x8xf32>
  %3 = tn.reduce <mean> %2 {axes = array<i64: 1>, keepdims = true} : (tensor<2x8xf32>) -> tensor<2x1xf32>
  %4 = tn.add %3, %eps : (tensor<2x1xf32>, tensor<f32>) -> tensor<2x1xf32>
  %5 = tn.sqrt %4 : tensor<2x1xf32>
  %6 = tn.div %1, %5 : (tensor<2x8xf32>, tensor<2x1xf32>) -> tensor<2x8xf32>
  return %6, %3 : tensor<2x8xf32>, tensor<2x1xf32>
}
// -----
// CHECK-LABEL: @scale_per_row
func.func @scale_per_row(%x: tensor<8x8xf32>) -> tensor<8x8xf32> {
  // CHECK: %[[N:.*]] = tn.rms_norm %arg0 {axis
  // CHECK: tn.mul %[[N]]
  %eps = tn.constant dense<1.0e-05> : tensor<f32> : tensor<f32>
  %rows = tn.weight "rows" : tensor<8x1xf32>
  %0 = tn.mul %x, %x : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  %1 = tn.reduce <mean> %0 {axes = array<i64: 1>, keepdims = true} : (tensor<8x8xf32>) -> tensor<8x1xf32>
  %2 = tn.add %1, %eps : (tensor<8x1xf32>, tensor<f32>) -> tensor<8x1xf32>
  %3 = tn.sqrt %2 : tensor<8x1xf32>
  %4 = tn.div %x, %3 : (tensor<8x8xf32>, tensor<8x1xf32>) -> tensor<8x8xf32>
  %5 = tn.mul %4, %rows : (tensor<8x8xf32>, tensor<8x1xf32>) -> tensor<8x8xf32>
  return %5 : tensor<8x8xf32>
}
