// RUN: %tenon-opt %s --pass=fold-constants --check | FileCheck %s

// CHECK-LABEL: @small
func.func @small() -> tensor<2xf32> {
  // CHECK-NEXT: %[[Y:.*]] = tn.constant dense<[3.000000e+00, 5.000000e+00]>
  // CHECK-NEXT: return %[[Y]]
  %a = tn.constant dense<[1.0, 3.0]> : tensor<2xf32> : tensor<2xf32>
  %b = tn.constant dense<2.0> : tensor<f32> : tensor<f32>
  %0 = tn.add %a, %b : (tensor<2xf32>, tensor<f32>) -> tensor<2xf32>
  return %0 : tensor<2xf32>
}
// -----
// ViT's scale: 1 / sqrt of a dim, through tn.sizes.
// CHECK-LABEL: @scale
func.func @scale() -> tensor<1xf32> {
  // CHECK-NEXT: %[[Y:.*]] = tn.constant dense<1.250000e-01>
  // CHECK-NEXT: return %[[Y]]
  %one = tn.constant dense<1.0> : tensor<f32> : tensor<f32>
  %0 = tn.sizes affine_map<() -> (64)> : tensor<1xi64>
  %1 = tn.cast %0 : (tensor<1xi64>) -> tensor<1xf32>
  %2 = tn.sqrt %1 : tensor<1xf32>
  %3 = tn.div %one, %2 : (tensor<f32>, tensor<1xf32>) -> tensor<1xf32>
  return %3 : tensor<1xf32>
}
// -----
// A large result becomes a weight of its own, named after where it comes from.
// CHECK-LABEL: @large
func.func @large() -> tensor<20x30xf32> {
  // CHECK-NEXT: %[[Y:.*]] = tn.weight "w.transpose" : tensor<20x30xf32>
  // CHECK-NEXT: return %[[Y]]
  %w = tn.weight "w" : tensor<30x20xf32>
  %0 = tn.transpose %w [1, 0] : (tensor<30x20xf32>) -> tensor<20x30xf32>
  return %0 : tensor<20x30xf32>
}
// -----
// A megabyte made from four bytes stays an operation; so does what has no value, an index out of range.
// CHECK-LABEL: @refused
func.func @refused() -> (tensor<512x512xf32>) {
  // CHECK: tn.broadcast
  %a = tn.constant dense<1.0> : tensor<f32> : tensor<f32>
  %0 = tn.broadcast %a : (tensor<f32>) -> tensor<512x512xf32>
  return %0 : tensor<512x512xf32>
}
// -----
// Sizes that are not known yet.
#x = #tn.shape<()[s0] -> (s0)>
module attributes {tn.symbols = [#tn.symbol<"n", 1, 8>]} {
// CHECK-LABEL: @symbolic
func.func @symbolic(%x: tensor<?xf32, #x>) -> tensor<1xi64> {
  // CHECK: tn.sizes
  %0 = tn.sizes affine_map<()[s0] -> (s0 * 2)> : tensor<1xi64>
  return %0 : tensor<1xi64>
}
}
// -----
// Positions by a projection, transposed as exporters write it: one constant.
// CHECK-LABEL: @positions
func.func @positions() -> tensor<64x48xf32> {
  // CHECK-NEXT: %[[Y:.*]] = tn.weight
  // CHECK-NEXT: return %[[Y]]
  %positions = tn.weight "positions" : tensor<64x32xf32>
  %w = tn.weight "w" : tensor<48x32xf32>
  %0 = tn.transpose %w [1, 0] : (tensor<48x32xf32>) -> tensor<32x48xf32>
  %1 = tn.matmul %positions, %0 : (tensor<64x32xf32>, tensor<32x48xf32>) -> tensor<64x48xf32>
  return %1 : tensor<64x48xf32>
}
// -----
// More operations than are worth their time here.
// CHECK-LABEL: @long_product
func.func @long_product() -> tensor<4096x4096xf32> {
  // CHECK: tn.matmul
  %a = tn.weight "a" : tensor<4096x4096xf32>
  %0 = tn.matmul %a, %a : (tensor<4096x4096xf32>, tensor<4096x4096xf32>) -> tensor<4096x4096xf32>
  return %0 : tensor<4096x4096xf32>
}
