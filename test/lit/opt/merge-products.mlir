// RUN: %tenon-opt %s --pass=merge-products --check | FileCheck %s
#x = #tn.shape<()[s0] -> (s0, 5, 16)>
#y = #tn.shape<()[s0] -> (s0, 5, 8)>
#k = #tn.shape<()[s0] -> (s0, 5, 4)>
#q = #tn.shape<()[s0] -> (s0, 5, 2, 4)>
#h = #tn.shape<()[s0] -> (s0, 5, 1, 4)>

// Queries, keys and values with grouped heads: one product, whose heads attention reads as parts of one
// tensor. The keys have no bias.
module attributes {tn.symbols = [#tn.symbol<"batch", 1, 8>]} {
// CHECK-LABEL: @projection
func.func @projection(%x: tensor<?x5x16xf32, #x>) -> tensor<?x5x2x4xf32, #q> {
  %wq = tn.weight "wq" : tensor<16x8xf32>
  %wk = tn.weight "wk" : tensor<16x4xf32>
  %wv = tn.weight "wv" : tensor<16x4xf32>
  %bq = tn.weight "bq" : tensor<8xf32>
  %bv = tn.constant dense<[1.0, 2.0, 3.0, 4.0]> : tensor<4xf32> : tensor<4xf32>
  // CHECK: %[[W:.*]] = tn.weight "wq.merged" : tensor<16x16xf32>
  // CHECK: %[[P:.*]] = tn.matmul %{{.*}}, %[[W]]
  // CHECK: %[[B:.*]] = tn.weight "bq.merged" : tensor<16xf32>
  // CHECK: %[[S:.*]] = tn.add %[[P]], %[[B]]
  // CHECK: %[[H:.*]] = tn.reshape %[[S]] {{.*}}(s0, 5, 4, 4)
  // CHECK: tn.slice %[[H]] {{.*}}(s0, 5, 2, 4)
  // CHECK: tn.slice %[[H]] {{.*}}(s0, 5, 1, 4)
  // CHECK: tn.slice %[[H]] {{.*}}(s0, 5, 1, 4)
  // CHECK-NOT: tn.matmul
  // CHECK: tn.attention
  %0 = tn.matmul %x, %wq : (tensor<?x5x16xf32, #x>, tensor<16x8xf32>) -> tensor<?x5x8xf32, #y>
  %1 = tn.add %bq, %0 : (tensor<8xf32>, tensor<?x5x8xf32, #y>) -> tensor<?x5x8xf32, #y>
  %2 = tn.reshape %1 : (tensor<?x5x8xf32, #y>) -> tensor<?x5x2x4xf32, #q>
  %3 = tn.matmul %x, %wk : (tensor<?x5x16xf32, #x>, tensor<16x4xf32>) -> tensor<?x5x4xf32, #k>
  %4 = tn.reshape %3 : (tensor<?x5x4xf32, #k>) -> tensor<?x5x1x4xf32, #h>
  %5 = tn.matmul %x, %wv : (tensor<?x5x16xf32, #x>, tensor<16x4xf32>) -> tensor<?x5x4xf32, #k>
  %6 = tn.add %5, %bv : (tensor<?x5x4xf32, #k>, tensor<4xf32>) -> tensor<?x5x4xf32, #k>
  %7 = tn.reshape %6 : (tensor<?x5x4xf32, #k>) -> tensor<?x5x1x4xf32, #h>
  %8 = tn.attention %2, %4, %7 {causal = false, headsInner = array<i1: true, true, true, true>, scale = 0.5 : f64} : (tensor<?x5x2x4xf32, #q>, tensor<?x5x1x4xf32, #h>, tensor<?x5x1x4xf32, #h>) -> tensor<?x5x2x4xf32, #q>
  return %8 : tensor<?x5x2x4xf32, #q>
}

// A gated layer, with weights in the other order; the slices stand where they are read.
// CHECK-LABEL: @gated
func.func @gated(%x: tensor<3x16xf32>) -> tensor<3x8xf32> {
  %wg = tn.weight "wg" : tensor<8x16xf32>
  %wu = tn.weight "wu" : tensor<8x16xf32>
  // CHECK: tn.weight {{.*}} : tensor<16x16xf32>
  // CHECK: %[[P:.*]] = tn.matmul {{.*}} {transposeB}
  // CHECK-NEXT: %[[G:.*]] = tn.slice %[[P]]
  // CHECK-NEXT: %[[A:.*]] = tn.silu %[[G]]
  // CHECK-NEXT: %[[U:.*]] = tn.slice %[[P]]
  // CHECK-NEXT: tn.mul %[[A]], %[[U]]
  %0 = tn.matmul %x, %wg {transposeB} : (tensor<3x16xf32>, tensor<8x16xf32>) -> tensor<3x8xf32>
  %1 = tn.matmul %x, %wu {transposeB} : (tensor<3x16xf32>, tensor<8x16xf32>) -> tensor<3x8xf32>
  %2 = tn.silu %0 : tensor<3x8xf32>
  %3 = tn.mul %2, %1 : (tensor<3x8xf32>, tensor<3x8xf32>) -> tensor<3x8xf32>
  return %3 : tensor<3x8xf32>
}

// A residual would rather join its product, and a result that leaves whole would have to be copied.
// CHECK-LABEL: @apart
// CHECK-COUNT-2: tn.matmul
func.func @apart(%x: tensor<3x16xf32>) -> (tensor<3x16xf32>, tensor<3x8xf32>) {
  %w0 = tn.weight "w0" : tensor<16x16xf32>
  %w1 = tn.weight "w1" : tensor<16x8xf32>
  %0 = tn.matmul %x, %w0 : (tensor<3x16xf32>, tensor<16x16xf32>) -> tensor<3x16xf32>
  %1 = tn.add %0, %x : (tensor<3x16xf32>, tensor<3x16xf32>) -> tensor<3x16xf32>
  %2 = tn.matmul %x, %w1 : (tensor<3x16xf32>, tensor<16x8xf32>) -> tensor<3x8xf32>
  return %1, %2 : tensor<3x16xf32>, tensor<3x8xf32>
}

// Parts of heads would not be heads of the whole.
// CHECK-LABEL: @uneven
// CHECK-COUNT-2: tn.matmul
func.func @uneven(%x: tensor<1x3x16xf32>) -> (tensor<1x3x2x3xf32>, tensor<1x3x2x4xf32>) {
  %w0 = tn.weight "w2" : tensor<16x6xf32>
  %w1 = tn.weight "w3" : tensor<16x8xf32>
  %0 = tn.matmul %x, %w0 : (tensor<1x3x16xf32>, tensor<16x6xf32>) -> tensor<1x3x6xf32>
  %1 = tn.reshape %0 : (tensor<1x3x6xf32>) -> tensor<1x3x2x3xf32>
  %2 = tn.exp %1 : tensor<1x3x2x3xf32>
  %3 = tn.matmul %x, %w1 : (tensor<1x3x16xf32>, tensor<16x8xf32>) -> tensor<1x3x8xf32>
  %4 = tn.reshape %3 : (tensor<1x3x8xf32>) -> tensor<1x3x2x4xf32>
  %5 = tn.exp %4 : tensor<1x3x2x4xf32>
  return %2, %5 : tensor<1x3x2x3xf32>, tensor<1x3x2x4xf32>
}
}
