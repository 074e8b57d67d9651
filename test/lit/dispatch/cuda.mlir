// RUN: %tenon-opt %s --pass=optimize-cuda,dispatch-cuda --check | FileCheck %s
#x = #tn.shape<()[s0, s1] -> (s0, s1, 16)>
#q = #tn.shape<()[s0, s1] -> (s0, s1, 2, 8)>

// A layer with attention on a GPU: one projection that attention reads by strides, a product that adds
// the residual, and a norm that takes the embeddings in.
module attributes {tn.symbols = [#tn.symbol<"batch", 1, 8>, #tn.symbol<"length", 1, 16>]} {
// CHECK-LABEL: @layer
func.func @layer(%i: tensor<?x?xi64, #tn.shape<()[s0, s1] -> (s0, s1)>>) -> tensor<?x?x16xf32, #x> {
  %e = tn.weight "e" : tensor<4x16xf32>
  %wq = tn.weight "wq" : tensor<16x16xf32>
  %wk = tn.weight "wk" : tensor<16x16xf32>
  %wv = tn.weight "wv" : tensor<16x16xf32>
  %wo = tn.weight "wo" : tensor<16x16xf32>
  %bo = tn.weight "bo" : tensor<16xf32>
  // CHECK: tn.region "cuda" "rows"
  // CHECK: tn.gather
  // CHECK-NEXT: tn.layer_norm
  // CHECK-NEXT: tn.yield
  %0 = tn.gather %e, %i {axis = 0 : i64} : (tensor<4x16xf32>, tensor<?x?xi64, #tn.shape<()[s0, s1] -> (s0, s1)>>) -> tensor<?x?x16xf32, #x>
  %1 = tn.layer_norm %0 {axis = 2 : i64, epsilon = 1.0e-5 : f64} : (tensor<?x?x16xf32, #x>) -> tensor<?x?x16xf32, #x>
  // CHECK: tn.region "cuda" "contraction"
  // CHECK: tn.matmul {{.*}}tensor<16x48xf32>
  // CHECK-NEXT: tn.yield
  %2 = tn.matmul %1, %wq : (tensor<?x?x16xf32, #x>, tensor<16x16xf32>) -> tensor<?x?x16xf32, #x>
  %3 = tn.reshape %2 : (tensor<?x?x16xf32, #x>) -> tensor<?x?x2x8xf32, #q>
  %4 = tn.matmul %1, %wk : (tensor<?x?x16xf32, #x>, tensor<16x16xf32>) -> tensor<?x?x16xf32, #x>
  %5 = tn.reshape %4 : (tensor<?x?x16xf32, #x>) -> tensor<?x?x2x8xf32, #q>
  %6 = tn.matmul %1, %wv : (tensor<?x?x16xf32, #x>, tensor<16x16xf32>) -> tensor<?x?x16xf32, #x>
  %7 = tn.reshape %6 : (tensor<?x?x16xf32, #x>) -> tensor<?x?x2x8xf32, #q>
  // CHECK: tn.region "cuda" "attention"(%{{[0-9]+}}) attributes
  // CHECK: tn.slice
  // CHECK: tn.slice
  // CHECK: tn.slice
  // CHECK: tn.attention
  // CHECK-NEXT: tn.yield
  %8 = tn.attention %3, %5, %7 {causal = false, headsInner = array<i1: true, true, true, true>, scale = 0.25 : f64} : (tensor<?x?x2x8xf32, #q>, tensor<?x?x2x8xf32, #q>, tensor<?x?x2x8xf32, #q>) -> tensor<?x?x2x8xf32, #q>
  %9 = tn.reshape %8 : (tensor<?x?x2x8xf32, #q>) -> tensor<?x?x16xf32, #x>
  // CHECK: tn.region "cuda" "contraction"
  // CHECK: tn.matmul
  // CHECK-NEXT: tn.add
  // CHECK-NEXT: tn.add
  // CHECK-NEXT: tn.yield
  %10 = tn.matmul %9, %wo : (tensor<?x?x16xf32, #x>, tensor<16x16xf32>) -> tensor<?x?x16xf32, #x>
  %11 = tn.add %bo, %10 : (tensor<16xf32>, tensor<?x?x16xf32, #x>) -> tensor<?x?x16xf32, #x>
  %12 = tn.add %0, %11 : (tensor<?x?x16xf32, #x>, tensor<?x?x16xf32, #x>) -> tensor<?x?x16xf32, #x>
  // CHECK-NOT: tn.region
  return %12 : tensor<?x?x16xf32, #x>
}
}
// -----
// A stem and a residual block: the picture in the library's order with its channels is one kernel, the
// weights lie as [K, R, S, C].
// CHECK-LABEL: @convolutions
func.func @convolutions(%x: tensor<1x3x6x6xf32>) -> tensor<1x3x3x8xf16> {
  %w0 = tn.weight "w0" : tensor<8x3x4x4xf16>
  %w1 = tn.weight "w1" : tensor<8x8x3x3xf16>
  // CHECK: tn.pack {{.*}} outer_dims_perm = [0, 2, 3, 1] :{{.*}} -> tensor<8x3x3x8xf16>
  // CHECK: tn.region "cuda" "elementwise"
  // CHECK: tn.transpose
  // CHECK-NEXT: tn.cast
  // CHECK-NEXT: tn.pad
  // CHECK-NEXT: tn.yield
  %0 = tn.cast %x : (tensor<1x3x6x6xf32>) -> tensor<1x3x6x6xf16>
  %1 = tn.transpose %0 [0, 2, 3, 1] : (tensor<1x3x6x6xf16>) -> tensor<1x6x6x3xf16>
  // CHECK: tn.pack {{.*}} outer_dims_perm = [0, 2, 3, 1] :{{.*}} -> tensor<8x4x4x4xf16>
  // CHECK: tn.region "cuda" "contraction"
  // CHECK: tn.conv
  // CHECK-NEXT: tn.relu
  // CHECK-NEXT: tn.yield
  %2 = tn.conv %1, %w0 {strides = array<i64: 2, 2>, pads = array<i64: 1, 1, 1, 1>, dilations = array<i64: 1, 1>, groups = 1 : i64, channelsLast = true} : (tensor<1x6x6x3xf16>, tensor<8x3x4x4xf16>) -> tensor<1x3x3x8xf16>
  %3 = tn.relu %2 : tensor<1x3x3x8xf16>
  // CHECK: tn.region "cuda" "contraction"
  // CHECK: tn.conv
  // CHECK-NEXT: tn.add
  // CHECK-NEXT: tn.relu
  // CHECK-NEXT: tn.yield
  %4 = tn.conv %3, %w1 {strides = array<i64: 1, 1>, pads = array<i64: 1, 1, 1, 1>, dilations = array<i64: 1, 1>, groups = 1 : i64, channelsLast = true} : (tensor<1x3x3x8xf16>, tensor<8x8x3x3xf16>) -> tensor<1x3x3x8xf16>
  %5 = tn.add %4, %3 : (tensor<1x3x3x8xf16>, tensor<1x3x3x8xf16>) -> tensor<1x3x3x8xf16>
  %6 = tn.relu %5 : tensor<1x3x3x8xf16>
  return %6 : tensor<1x3x3x8xf16>
}
// -----
// Over one and three dims, by constant and by computed weights, a convolution takes what follows it.
// CHECK-LABEL: @any_dims
func.func @any_dims(%x: tensor<1x4x6x6x8xf16>, %y: tensor<1x999x16xf16>, %v: tensor<16x16x3xf16>) -> (tensor<1x4x6x6x16xf16>, tensor<1x999x16xf16>) {
  %w = tn.weight "w3" : tensor<16x8x3x3x3xf16>
  // CHECK: tn.pack {{.*}} outer_dims_perm = [0, 2, 3, 4, 1] :{{.*}} -> tensor<16x3x3x3x8xf16>
  // CHECK: tn.region "cuda" "contraction"{{.*}}conv_tensorcore
  // CHECK: tn.conv
  // CHECK-NEXT: tn.silu
  // CHECK-NEXT: tn.yield
  %0 = tn.conv %x, %w {strides = array<i64: 1, 1, 1>, pads = array<i64: 1, 1, 1, 1, 1, 1>, dilations = array<i64: 1, 1, 1>, groups = 1 : i64, channelsLast = true} : (tensor<1x4x6x6x8xf16>, tensor<16x8x3x3x3xf16>) -> tensor<1x4x6x6x16xf16>
  %1 = tn.silu %0 : tensor<1x4x6x6x16xf16>
  // CHECK: tn.region "cuda" "contraction"{{.*}}conv_tensorcore
  // CHECK: tn.conv
  // CHECK-NEXT: tn.silu
  // CHECK-NEXT: tn.yield
  %2 = tn.conv %y, %v {strides = array<i64: 1>, pads = array<i64: 1, 1>, dilations = array<i64: 1>, groups = 1 : i64, channelsLast = true} : (tensor<1x999x16xf16>, tensor<16x16x3xf16>) -> tensor<1x999x16xf16>
  %3 = tn.silu %2 : tensor<1x999x16xf16>
  return %1, %3 : tensor<1x4x6x6x16xf16>, tensor<1x999x16xf16>
}
