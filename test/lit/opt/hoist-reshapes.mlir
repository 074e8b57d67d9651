// RUN: %tenon-opt %s --pass=hoist-reshapes --check | FileCheck %s
#x3 = #tn.shape<()[s0, s1] -> (s0, s1, 8)>
#x2 = #tn.shape<()[s0, s1] -> (s0 * s1, 8)>
#y3 = #tn.shape<()[s0, s1] -> (s0, s1, 4)>
#y2 = #tn.shape<()[s0, s1] -> (s0 * s1, 4)>

// GPT-2's Gemm on [batch * sequence, n]: both reshapes go away.
module attributes {tn.symbols = [#tn.symbol<"batch", 1, 8>, #tn.symbol<"sequence", 1, 64>]} {
// CHECK-LABEL: @gemm
func.func @gemm(%x: tensor<?x?x8xf32, #x3>) -> tensor<?x?x4xf32, #y3> {
  // CHECK-NOT: tn.reshape
  // CHECK: tn.matmul %arg0
  // CHECK: tn.add
  // CHECK: tn.relu
  %w = tn.weight "w" : tensor<8x4xf32>
  %b = tn.weight "b" : tensor<4xf32>
  %0 = tn.reshape %x : (tensor<?x?x8xf32, #x3>) -> tensor<?x8xf32, #x2>
  %1 = tn.matmul %0, %w : (tensor<?x8xf32, #x2>, tensor<8x4xf32>) -> tensor<?x4xf32, #y2>
  %2 = tn.add %1, %b : (tensor<?x4xf32, #y2>, tensor<4xf32>) -> tensor<?x4xf32, #y2>
  %3 = tn.relu %2 : tensor<?x4xf32, #y2>
  %4 = tn.reshape %3 : (tensor<?x4xf32, #y2>) -> tensor<?x?x4xf32, #y3>
  return %4 : tensor<?x?x4xf32, #y3>
}
}
// -----
// The operand varies along the rows that the reshape splits; and a batched product has no rows to split.
// CHECK-LABEL: @refused
func.func @refused(%x: tensor<6x8xf32>, %r: tensor<6x1xf32>, %a: tensor<2x3x4xf32>, %b: tensor<2x4x5xf32>) -> (tensor<2x3x8xf32>, tensor<6x5xf32>) {
  // CHECK: %[[S:.*]] = tn.add
  // CHECK: tn.reshape %[[S]]
  // CHECK: %[[P:.*]] = tn.matmul
  // CHECK: tn.reshape %[[P]]
  %0 = tn.add %x, %r : (tensor<6x8xf32>, tensor<6x1xf32>) -> tensor<6x8xf32>
  %1 = tn.reshape %0 : (tensor<6x8xf32>) -> tensor<2x3x8xf32>
  %2 = tn.matmul %a, %b : (tensor<2x3x4xf32>, tensor<2x4x5xf32>) -> tensor<2x3x5xf32>
  %3 = tn.reshape %2 : (tensor<2x3x5xf32>) -> tensor<6x5xf32>
  return %1, %3 : tensor<2x3x8xf32>, tensor<6x5xf32>
}
// -----
// The sum has another reader and would be computed twice; the last dim is split, not kept.
// CHECK-LABEL: @shared
func.func @shared(%x: tensor<6x8xf32>, %y: tensor<6x8xf32>) -> (tensor<2x3x8xf32>, tensor<6x8xf32>, tensor<6x2x4xf32>) {
  // CHECK: %[[S:.*]] = tn.add
  // CHECK: tn.reshape %[[S]]
  // CHECK: %[[T:.*]] = tn.mul
  // CHECK: tn.reshape %[[T]]
  %0 = tn.add %x, %y : (tensor<6x8xf32>, tensor<6x8xf32>) -> tensor<6x8xf32>
  %1 = tn.reshape %0 : (tensor<6x8xf32>) -> tensor<2x3x8xf32>
  %2 = tn.mul %x, %y : (tensor<6x8xf32>, tensor<6x8xf32>) -> tensor<6x8xf32>
  %3 = tn.reshape %2 : (tensor<6x8xf32>) -> tensor<6x2x4xf32>
  return %1, %0, %3 : tensor<2x3x8xf32>, tensor<6x8xf32>, tensor<6x2x4xf32>
}
// -----
// Over a last dim of 0, or of a symbol that may be 0, the rows before and after need not be as many: a
// product has no others to be computed from.
// CHECK-LABEL: @no_elements
module attributes {tn.symbols = [#tn.symbol<"K", 0, 64>, #tn.symbol<"N", 0, 64>]} {
func.func @no_elements(%x: tensor<8x33x5xf32>, %w: tensor<5x0xf32>) -> tensor<8x0xf32> {
  // CHECK: %[[P:.*]] = tn.matmul
  // CHECK: tn.reshape %[[P]]
  %0 = tn.matmul %x, %w : (tensor<8x33x5xf32>, tensor<5x0xf32>) -> tensor<8x33x0xf32>
  %1 = tn.reshape %0 : (tensor<8x33x0xf32>) -> tensor<8x0xf32>
  return %1 : tensor<8x0xf32>
}
}
