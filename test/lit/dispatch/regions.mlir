// RUN: %tenon-opt %s --pass=dispatch --check | FileCheck %s
#x = #tn.shape<()[s0, s1] -> (s0, s1, 64)>
#h = #tn.shape<()[s0, s1] -> (s0, s1, 96)>

// The feed-forward half of a transformer layer: two products with their epilogues, one pass over rows.
// The numbers through packs and regions are those of the model (--check).
module attributes {tn.symbols = [#tn.symbol<"batch", 1, 8>, #tn.symbol<"length", 1, 16>]} {
// CHECK-LABEL: @main
func.func @main(%x: tensor<?x?x64xf32, #x>) -> tensor<?x?x64xf32, #x> {
  %w0 = tn.weight "w0" : tensor<64x96xf32>
  %w1 = tn.weight "w1" : tensor<64x96xf32>
  %b = tn.weight "b" : tensor<96xf32>
  %s = tn.weight "s" : tensor<64xf32>
  // CHECK: tn.pack {{.*}} outer_dims_perm = [1, 0] inner_dims_pos = [1] inner_tiles = [32]{{.*}} -> tensor<3x64x32xf32>
  // CHECK: tn.pack {{.*}} outer_dims_perm = [0, 1] inner_dims_pos = [0] inner_tiles = [32]{{.*}} -> tensor<2x96x32xf32>
  // CHECK: tn.region "cpu" "contraction"
  // CHECK: tn.unpack
  // CHECK-NEXT: tn.matmul
  // CHECK-NEXT: tn.add
  // CHECK-NEXT: tn.gelu
  // CHECK-NEXT: tn.yield
  %0 = tn.matmul %x, %w0 : (tensor<?x?x64xf32, #x>, tensor<64x96xf32>) -> tensor<?x?x96xf32, #h>
  %1 = tn.add %0, %b : (tensor<?x?x96xf32, #h>, tensor<96xf32>) -> tensor<?x?x96xf32, #h>
  %2 = tn.gelu %1 : tensor<?x?x96xf32, #h>
  // The residual is added on the tile.
  // CHECK: tn.region "cpu" "contraction"
  // CHECK: tn.unpack
  // CHECK-NEXT: tn.matmul
  // CHECK-NEXT: tn.add
  // CHECK-NEXT: tn.yield
  %3 = tn.matmul %2, %w1 {transposeB} : (tensor<?x?x96xf32, #h>, tensor<64x96xf32>) -> tensor<?x?x64xf32, #x>
  %4 = tn.add %3, %x : (tensor<?x?x64xf32, #x>, tensor<?x?x64xf32, #x>) -> tensor<?x?x64xf32, #x>
  // CHECK: tn.region "cpu" "rows"
  // CHECK: tn.layer_norm
  // CHECK-NEXT: tn.yield
  %5 = tn.layer_norm %4 scale %s {axis = 2 : i64, epsilon = 1.0e-5 : f64} : (tensor<?x?x64xf32, #x>, tensor<64xf32>) -> tensor<?x?x64xf32, #x>
  return %5 : tensor<?x?x64xf32, #x>
}
}
