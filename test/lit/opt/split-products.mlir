// RUN: %tenon-opt %s --pass=split-products --check | FileCheck %s
#x = #tn.shape<()[s0, s1] -> (s0, s1, 16)>
#y = #tn.shape<()[s0, s1] -> (s0, s1, 48)>

// GPT-2's fused QKV projection, split by three slices.
module attributes {tn.symbols = [#tn.symbol<"batch", 1, 8>, #tn.symbol<"sequence", 1, 64>]} {
// CHECK-LABEL: @qkv
func.func @qkv(%x: tensor<?x?x16xf32, #x>) -> (tensor<?x?x16xf32, #x>, tensor<?x?x16xf32, #x>, tensor<?x?x16xf32, #x>) {
  // CHECK-NOT: tn.slice
  // CHECK-COUNT-3: tn.matmul %arg0, %{{.*}}, tensor<16x16xf32>)
  %w = tn.weight "w" : tensor<16x48xf32>
  %b = tn.weight "b" : tensor<48xf32>
  %0 = tn.matmul %x, %w : (tensor<?x?x16xf32, #x>, tensor<16x48xf32>) -> tensor<?x?x48xf32, #y>
  %1 = tn.add %0, %b : (tensor<?x?x48xf32, #y>, tensor<48xf32>) -> tensor<?x?x48xf32, #y>
  %2 = tn.slice %1 {starts = affine_map<() -> (0, 0, 0)>, steps = array<i64: 1, 1, 1>} : (tensor<?x?x48xf32, #y>) -> tensor<?x?x16xf32, #x>
  %3 = tn.slice %1 {starts = affine_map<() -> (0, 0, 16)>, steps = array<i64: 1, 1, 1>} : (tensor<?x?x48xf32, #y>) -> tensor<?x?x16xf32, #x>
  %4 = tn.slice %1 {starts = affine_map<() -> (0, 0, 32)>, steps = array<i64: 1, 1, 1>} : (tensor<?x?x48xf32, #y>) -> tensor<?x?x16xf32, #x>
  return %2, %3, %4 : tensor<?x?x16xf32, #x>, tensor<?x?x16xf32, #x>, tensor<?x?x16xf32, #x>
}
}
// -----
// ViT's: heads split and moved in front before the slices; the weight is given transposed.
// CHECK-LABEL: @heads
func.func @heads(%x: tensor<2x5x16xf32>) -> (tensor<1x2x4x5x4xf32>, tensor<1x2x4x5x4xf32>) {
  // CHECK-COUNT-2: tn.matmul %arg0, %{{.*}} {transposeB} : (tensor<2x5x16xf32>, tensor<16x16xf32>)
  // CHECK-NOT: tn.slice
  %w = tn.weight "w" : tensor<32x16xf32>
  %b = tn.weight "b" : tensor<32xf32>
  %0 = tn.matmul %x, %w {transposeB} : (tensor<2x5x16xf32>, tensor<32x16xf32>) -> tensor<2x5x32xf32>
  %1 = tn.add %b, %0 : (tensor<32xf32>, tensor<2x5x32xf32>) -> tensor<2x5x32xf32>
  %2 = tn.reshape %1 : (tensor<2x5x32xf32>) -> tensor<2x5x2x4x4xf32>
  %3 = tn.transpose %2 [2, 0, 3, 1, 4] : (tensor<2x5x2x4x4xf32>) -> tensor<2x2x4x5x4xf32>
  %4 = tn.slice %3 {starts = affine_map<() -> (0, 0, 0, 0, 0)>, steps = array<i64: 1, 1, 1, 1, 1>} : (tensor<2x2x4x5x4xf32>) -> tensor<1x2x4x5x4xf32>
  %5 = tn.slice %3 {starts = affine_map<() -> (1, 0, 0, 0, 0)>, steps = array<i64: 1, 1, 1, 1, 1>} : (tensor<2x2x4x5x4xf32>) -> tensor<1x2x4x5x4xf32>
  return %4, %5 : tensor<1x2x4x5x4xf32>, tensor<1x2x4x5x4xf32>
}
// -----
// Slices that overlap would compute columns twice; rows are not columns; the whole is read too.
// CHECK-LABEL: @refused
func.func @refused(%x: tensor<6x16xf32>) -> (tensor<6x20xf32>, tensor<6x20xf32>, tensor<3x8xf32>, tensor<3x8xf32>, tensor<6x8xf32>, tensor<6x16xf32>) {
  // CHECK-COUNT-3: tn.matmul
  // CHECK-NOT: tn.matmul
  %w = tn.weight "w" : tensor<16x32xf32>
  %v = tn.weight "v" : tensor<16x8xf32>
  %u = tn.weight "u" : tensor<16x16xf32>
  %0 = tn.matmul %x, %w : (tensor<6x16xf32>, tensor<16x32xf32>) -> tensor<6x32xf32>
  %1 = tn.slice %0 {starts = affine_map<() -> (0, 0)>, steps = array<i64: 1, 1>} : (tensor<6x32xf32>) -> tensor<6x20xf32>
  %2 = tn.slice %0 {starts = affine_map<() -> (0, 12)>, steps = array<i64: 1, 1>} : (tensor<6x32xf32>) -> tensor<6x20xf32>
  %3 = tn.matmul %x, %v : (tensor<6x16xf32>, tensor<16x8xf32>) -> tensor<6x8xf32>
  %4 = tn.slice %3 {starts = affine_map<() -> (0, 0)>, steps = array<i64: 1, 1>} : (tensor<6x8xf32>) -> tensor<3x8xf32>
  %5 = tn.slice %3 {starts = affine_map<() -> (3, 0)>, steps = array<i64: 1, 1>} : (tensor<6x8xf32>) -> tensor<3x8xf32>
  %6 = tn.matmul %x, %u : (tensor<6x16xf32>, tensor<16x16xf32>) -> tensor<6x16xf32>
  %7 = tn.slice %6 {starts = affine_map<() -> (0, 0)>, steps = array<i64: 1, 1>} : (tensor<6x16xf32>) -> tensor<6x8xf32>
  return %1, %2, %4, %5, %7, %6 : tensor<6x20xf32>, tensor<6x20xf32>, tensor<3x8xf32>, tensor<3x8xf32>, tensor<6x8xf32>, tensor<6x16xf32>
}
// -----
// Quantized weights beside floats are sliced behind their scales; beside quantized numbers they are left to products of integers.
// CHECK-LABEL: @quantized_weights
func.func @quantized_weights(%x: tensor<5x16xf32>, %q: tensor<5x16xui8>) -> (tensor<5x24xf32>, tensor<5x24xf32>, tensor<5x24xf32>, tensor<5x24xf32>) {
  // CHECK-COUNT-2: tn.matmul %arg0, %{{.*}} : (tensor<5x16xf32>, tensor<16x24xf32>)
  // CHECK: tn.matmul %{{.*}} : (tensor<5x16xf32>, tensor<16x48xf32>)
  %w = tn.weight "w" : tensor<16x48xi8>
  %s = tn.constant dense<5.000000e-01> : tensor<f32> : tensor<f32>
  %z = tn.constant dense<0> : tensor<i8> : tensor<i8>
  %u = tn.constant dense<9> : tensor<ui8> : tensor<ui8>
  %0 = tn.dequantize %w, %s, %z {axis = 0 : i64} : (tensor<16x48xi8>, tensor<f32>, tensor<i8>) -> tensor<16x48xf32>
  %1 = tn.matmul %x, %0 : (tensor<5x16xf32>, tensor<16x48xf32>) -> tensor<5x48xf32>
  %2 = tn.slice %1 {starts = affine_map<() -> (0, 0)>, steps = array<i64: 1, 1>} : (tensor<5x48xf32>) -> tensor<5x24xf32>
  %3 = tn.slice %1 {starts = affine_map<() -> (0, 24)>, steps = array<i64: 1, 1>} : (tensor<5x48xf32>) -> tensor<5x24xf32>
  %4 = tn.dequantize %q, %s, %u {axis = 0 : i64} : (tensor<5x16xui8>, tensor<f32>, tensor<ui8>) -> tensor<5x16xf32>
  %5 = tn.matmul %4, %0 : (tensor<5x16xf32>, tensor<16x48xf32>) -> tensor<5x48xf32>
  %6 = tn.slice %5 {starts = affine_map<() -> (0, 0)>, steps = array<i64: 1, 1>} : (tensor<5x48xf32>) -> tensor<5x24xf32>
  %7 = tn.slice %5 {starts = affine_map<() -> (0, 24)>, steps = array<i64: 1, 1>} : (tensor<5x48xf32>) -> tensor<5x24xf32>
  return %2, %3, %6, %7 : tensor<5x24xf32>, tensor<5x24xf32>, tensor<5x24xf32>, tensor<5x24xf32>
}
