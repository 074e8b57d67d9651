// RUN: %tenon-opt %s --pass=sink-transposes,simplify --check | FileCheck %s

// Both operands transposed alike, a constant per channel: one transpose at the end.
// CHECK-LABEL: @elementwise
func.func @elementwise(%x: tensor<2x5x3xf32>, %y: tensor<2x5x3xf32>) -> tensor<2x3x5xf32> {
  // CHECK-DAG: %[[W:.*]] = tn.weight "w" : tensor<3xf32>
  // CHECK-DAG: tn.add %arg0, %arg1
  // CHECK: %[[M:.*]] = tn.mul %{{.*}}, %[[W]]
  // CHECK: tn.transpose %[[M]] [0, 2, 1]
  %w = tn.weight "w" : tensor<3x1xf32>
  %0 = tn.transpose %x [0, 2, 1] : (tensor<2x5x3xf32>) -> tensor<2x3x5xf32>
  %1 = tn.transpose %y [0, 2, 1] : (tensor<2x5x3xf32>) -> tensor<2x3x5xf32>
  %2 = tn.add %0, %1 : (tensor<2x3x5xf32>, tensor<2x3x5xf32>) -> tensor<2x3x5xf32>
  %3 = tn.mul %2, %w : (tensor<2x3x5xf32>, tensor<3x1xf32>) -> tensor<2x3x5xf32>
  return %3 : tensor<2x3x5xf32>
}
// -----
// Reductions with and without kept dims, a pad, a concatenation.
// CHECK-LABEL: @others
func.func @others(%x: tensor<2x5x6x3xf32>, %y: tensor<2x5x6x3xf32>) -> (tensor<2x3xf32>, tensor<2x3x1x1xf32>, tensor<2x6x7x6xf32>) {
  // CHECK: tn.reduce <mean> %arg0 {axes = array<i64: 1, 2>, keepdims = false}
  // CHECK: %[[K:.*]] = tn.reduce <max> %arg0 {axes = array<i64: 1, 2>, keepdims = true}
  // CHECK: tn.reshape %[[K]]
  // CHECK: %[[C:.*]] = tn.concat %arg0, %arg1 {axis = 3 : i64}
  // CHECK: %[[P:.*]] = tn.pad <constant> %[[C]] {begins = array<i64: 0, 1, 0, 0>, ends = array<i64: 0, 1, 0, 0>
  // CHECK: tn.transpose %[[P]] [0, 3, 1, 2]
  %0 = tn.transpose %x [0, 3, 1, 2] : (tensor<2x5x6x3xf32>) -> tensor<2x3x5x6xf32>
  %1 = tn.reduce <mean> %0 {axes = array<i64: 2, 3>, keepdims = false} : (tensor<2x3x5x6xf32>) -> tensor<2x3xf32>
  %2 = tn.reduce <max> %0 {axes = array<i64: 2, 3>, keepdims = true} : (tensor<2x3x5x6xf32>) -> tensor<2x3x1x1xf32>
  %3 = tn.transpose %y [0, 3, 1, 2] : (tensor<2x5x6x3xf32>) -> tensor<2x3x5x6xf32>
  %4 = tn.concat %0, %3 {axis = 1 : i64} : (tensor<2x3x5x6xf32>, tensor<2x3x5x6xf32>) -> tensor<2x6x5x6xf32>
  %5 = tn.pad <constant> %4 {begins = array<i64: 0, 0, 1, 0>, ends = array<i64: 0, 0, 1, 0>} : (tensor<2x6x5x6xf32>) -> tensor<2x6x7x6xf32>
  return %1, %2, %5 : tensor<2x3xf32>, tensor<2x3x1x1xf32>, tensor<2x6x7x6xf32>
}
// -----
// ViT's patches: the reshape merges rows and columns, which lie together, and the transposes cancel.
#x = #tn.shape<()[s0] -> (s0, 2, 3, 8)>
#t = #tn.shape<()[s0] -> (s0, 8, 2, 3)>
#m = #tn.shape<()[s0] -> (s0, 8, 6)>
#y = #tn.shape<()[s0] -> (s0, 6, 8)>
module attributes {tn.symbols = [#tn.symbol<"batch", 1, 8>]} {
// CHECK-LABEL: @patches
func.func @patches(%x: tensor<?x2x3x8xf32, #x>) -> tensor<?x6x8xf32, #y> {
  // CHECK-NOT: tn.transpose
  // CHECK: %[[Y:.*]] = tn.reshape %arg0
  // CHECK-NEXT: return %[[Y]]
  %0 = tn.transpose %x [0, 3, 1, 2] : (tensor<?x2x3x8xf32, #x>) -> tensor<?x8x2x3xf32, #t>
  %1 = tn.reshape %0 : (tensor<?x8x2x3xf32, #t>) -> tensor<?x8x6xf32, #m>
  %2 = tn.transpose %1 [0, 2, 1] : (tensor<?x8x6xf32, #m>) -> tensor<?x6x8xf32, #y>
  return %2 : tensor<?x6x8xf32, #y>
}
}
// -----
// Heads merged back: they do not lie together before the transpose. And an operand in the other order.
// CHECK-LABEL: @refused
func.func @refused(%x: tensor<2x3x5x4xf32>, %z: tensor<2x5x3x4xf32>) -> (tensor<2x5x12xf32>, tensor<2x5x3x4xf32>) {
  // CHECK: %[[T:.*]] = tn.transpose %arg0 [0, 2, 1, 3]
  // CHECK: tn.reshape %[[T]]
  // CHECK: tn.add %[[T]], %arg1
  %0 = tn.transpose %x [0, 2, 1, 3] : (tensor<2x3x5x4xf32>) -> tensor<2x5x3x4xf32>
  %1 = tn.reshape %0 : (tensor<2x5x3x4xf32>) -> tensor<2x5x12xf32>
  %2 = tn.add %0, %z : (tensor<2x5x3x4xf32>, tensor<2x5x3x4xf32>) -> tensor<2x5x3x4xf32>
  return %1, %2 : tensor<2x5x12xf32>, tensor<2x5x3x4xf32>
}

// Quantization and the way back, also along an axis: a convolution's transposes meet behind it.
// CHECK-LABEL: @quantization
func.func @quantization(%x: tensor<2x5x3xf32>, %s: tensor<3xf32>, %z: tensor<3xi8>) -> tensor<2x5x3xf32> {
  // CHECK: %[[Q:.*]] = tn.quantize %arg0, %arg1, %arg2 {axis = 2 : i64} : (tensor<2x5x3xf32>
  // CHECK: %[[D:.*]] = tn.dequantize %[[Q]], %arg1, %arg2 {axis = 2 : i64} : (tensor<2x5x3xi8>
  // CHECK: return %[[D]]
  %0 = tn.transpose %x [0, 2, 1] : (tensor<2x5x3xf32>) -> tensor<2x3x5xf32>
  %1 = tn.quantize %0, %s, %z {axis = 1 : i64} : (tensor<2x3x5xf32>, tensor<3xf32>, tensor<3xi8>) -> tensor<2x3x5xi8>
  %2 = tn.dequantize %1, %s, %z {axis = 1 : i64} : (tensor<2x3x5xi8>, tensor<3xf32>, tensor<3xi8>) -> tensor<2x3x5xf32>
  %3 = tn.transpose %2 [0, 2, 1] : (tensor<2x3x5xf32>) -> tensor<2x5x3xf32>
  return %3 : tensor<2x5x3xf32>
}
