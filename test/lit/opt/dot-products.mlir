// RUN: %tenon-opt %s --pass=dot-products --check | FileCheck %s
#a = #tn.shape<()[s0] -> (s0, 96)>
#y = #tn.shape<()[s0] -> (s0, 1)>

// One column: sums along the rows of A.
module attributes {tn.symbols = [#tn.symbol<"batch", 1, 8>]} {
// CHECK-LABEL: @column
func.func @column(%a: tensor<?x96xf32, #a>, %b: tensor<96x1xf32>) -> tensor<?x1xf32, #y> {
  // CHECK-NEXT: %[[B:.*]] = tn.reshape %arg1 : (tensor<96x1xf32>) -> tensor<1x96xf32>
  // CHECK-NEXT: %[[P:.*]] = tn.mul %arg0, %[[B]]
  // CHECK-NEXT: %[[S:.*]] = tn.reduce <sum> %[[P]] {axes = array<i64: 1>, keepdims = true}
  // CHECK-NEXT: return %[[S]]
  %0 = tn.matmul %a, %b : (tensor<?x96xf32, #a>, tensor<96x1xf32>) -> tensor<?x1xf32, #y>
  return %0 : tensor<?x1xf32, #y>
}
}
// -----
// One row against the rows of a transposed operand, in batches of which one side has one.
// CHECK-LABEL: @row
func.func @row(%a: tensor<3x1x96xf32>, %b: tensor<1x5x96xf32>) -> tensor<3x1x5xf32> {
  // CHECK-NEXT: %[[P:.*]] = tn.mul %arg1, %arg0 {{.*}} -> tensor<3x5x96xf32>
  // CHECK-NEXT: %[[S:.*]] = tn.reduce <sum> %[[P]] {axes = array<i64: 2>, keepdims = true}
  // CHECK-NEXT: %[[Y:.*]] = tn.reshape %[[S]] : (tensor<3x5x1xf32>) -> tensor<3x1x5xf32>
  // CHECK-NEXT: return %[[Y]]
  %0 = tn.matmul %a, %b {transposeB} : (tensor<3x1x96xf32>, tensor<1x5x96xf32>) -> tensor<3x1x5xf32>
  return %0 : tensor<3x1x5xf32>
}
// -----
// More columns, constants that are packed, sums that 16 bits would round, short rows: products.
// CHECK-LABEL: @others
// CHECK-COUNT-4: tn.matmul
func.func @others(%a: tensor<5x96xf32>, %b: tensor<96x2xf32>, %r: tensor<1x96xf32>, %h: tensor<5x96xf16>, %v: tensor<96x1xf16>, %s: tensor<5x8xf32>, %t: tensor<8x1xf32>) -> (tensor<5x2xf32>, tensor<1x7xf32>, tensor<5x1xf16>, tensor<5x1xf32>) {
  %w = tn.weight "w" : tensor<7x96xf32>
  %0 = tn.matmul %a, %b : (tensor<5x96xf32>, tensor<96x2xf32>) -> tensor<5x2xf32>
  %1 = tn.matmul %r, %w {transposeB} : (tensor<1x96xf32>, tensor<7x96xf32>) -> tensor<1x7xf32>
  %2 = tn.matmul %h, %v : (tensor<5x96xf16>, tensor<96x1xf16>) -> tensor<5x1xf16>
  %3 = tn.matmul %s, %t : (tensor<5x8xf32>, tensor<8x1xf32>) -> tensor<5x1xf32>
  return %0, %1, %2, %3 : tensor<5x2xf32>, tensor<1x7xf32>, tensor<5x1xf16>, tensor<5x1xf32>
}
