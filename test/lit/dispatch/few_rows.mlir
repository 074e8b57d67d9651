// RUN: %tenon-opt %s --pass=dispatch-cuda --check | FileCheck %s

// A feed-forward block of a decoder's step: the norm before and the gate behind the merged product run
// with it, and so does the residual; both weights are packed in panels of 32 of their depth.
// CHECK-LABEL: @step
func.func @step(%x: tensor<1x1x512xbf16>) -> tensor<1x1x512xbf16> {
  %s = tn.weight "s" : tensor<512xbf16>
  %wg = tn.weight "wg" : tensor<512x768xbf16>
  %wd = tn.weight "wd" : tensor<384x512xbf16>
  // CHECK-DAG: tn.pack {{.*}} outer_dims_perm = [0, 1] inner_dims_pos = [0] inner_tiles = [32] {{.*}} -> tensor<16x768x32xbf16>
  // CHECK-DAG: tn.pack {{.*}} outer_dims_perm = [0, 1] inner_dims_pos = [0] inner_tiles = [32] {{.*}} -> tensor<12x512x32xbf16>
  // CHECK: tn.region "cuda" "contraction"
  // CHECK: tn.rms_norm
  // CHECK: tn.matmul
  // CHECK: tn.slice
  // CHECK: tn.slice
  // CHECK: tn.silu
  // CHECK: tn.mul
  // CHECK-NEXT: tn.yield
  %0 = tn.rms_norm %x scale %s {axis = 2 : i64, epsilon = 1.0e-5 : f64} : (tensor<1x1x512xbf16>, tensor<512xbf16>) -> tensor<1x1x512xbf16>
  %1 = tn.matmul %0, %wg : (tensor<1x1x512xbf16>, tensor<512x768xbf16>) -> tensor<1x1x768xbf16>
  %2 = tn.slice %1 {starts = affine_map<() -> (0, 0, 0)>, steps = array<i64: 1, 1, 1>} : (tensor<1x1x768xbf16>) -> tensor<1x1x384xbf16>
  %3 = tn.slice %1 {starts = affine_map<() -> (0, 0, 384)>, steps = array<i64: 1, 1, 1>} : (tensor<1x1x768xbf16>) -> tensor<1x1x384xbf16>
  %4 = tn.silu %2 : tensor<1x1x384xbf16>
  %5 = tn.mul %4, %3 : (tensor<1x1x384xbf16>, tensor<1x1x384xbf16>) -> tensor<1x1x384xbf16>
  // CHECK: tn.region "cuda" "contraction"
  // CHECK: tn.matmul
  // CHECK-NEXT: tn.add
  // CHECK-NEXT: tn.yield
  %6 = tn.matmul %5, %wd : (tensor<1x1x384xbf16>, tensor<384x512xbf16>) -> tensor<1x1x512xbf16>
  %7 = tn.add %x, %6 : (tensor<1x1x512xbf16>, tensor<1x1x512xbf16>) -> tensor<1x1x512xbf16>
  // CHECK-NOT: tn.region
  return %7 : tensor<1x1x512xbf16>
}
// -----
// Weights that something else reads too stay as they are; a norm that others read stays outside.
// CHECK-LABEL: @tied
func.func @tied(%i: tensor<1x3xi64>) -> (tensor<1x3x1000xf32>, tensor<1x3x256xf16>) {
  %e = tn.weight "e" : tensor<1000x256xf16>
  // CHECK-NOT: tn.pack
  // CHECK: tn.region "cuda" "rows"
  // CHECK: tn.gather
  // CHECK: tn.rms_norm
  // CHECK: tn.region "cuda" "contraction"
  // CHECK: tn.matmul {{.*}} {transposeB}
  // CHECK-NEXT: tn.cast
  // CHECK-NEXT: tn.yield
  %0 = tn.gather %e, %i {axis = 0 : i64} : (tensor<1000x256xf16>, tensor<1x3xi64>) -> tensor<1x3x256xf16>
  %1 = tn.rms_norm %0 {axis = 2 : i64, epsilon = 1.0e-5 : f64} : (tensor<1x3x256xf16>) -> tensor<1x3x256xf16>
  %2 = tn.matmul %1, %e {transposeB} : (tensor<1x3x256xf16>, tensor<1000x256xf16>) -> tensor<1x3x1000xf16>
  %3 = tn.cast %2 : (tensor<1x3x1000xf16>) -> tensor<1x3x1000xf32>
  return %3, %1 : tensor<1x3x1000xf32>, tensor<1x3x256xf16>
}
// -----
// More rows are a library's. Where their number varies, kernels for ranges of it share one layout: GEMV's
// own where it is one of few rows only, else [columns, depth].
// CHECK-LABEL: @library
module attributes {tn.symbols = [#tn.symbol<"few", 1, 16>, #tn.symbol<"rows", 0, 64>]} {
func.func @library(%x: tensor<17x256xf16>, %y: tensor<?x256xf16, #tn.shape<()[s0] -> (s0, 256)>>, %z: tensor<?x256xf16, #tn.shape<()[s0, s1] -> (s1, 256)>>) -> (tensor<17x64xf16>, tensor<?x64xf16, #tn.shape<()[s0] -> (s0, 64)>>, tensor<?x64xf16, #tn.shape<()[s0, s1] -> (s1, 64)>>) {
  %w = tn.weight "w" : tensor<256x64xf16>
  %v = tn.weight "v" : tensor<256x64xf16>
  %u = tn.weight "u" : tensor<256x64xf16>
  // CHECK-DAG: tn.pack {{.*}} inner_tiles = [32] {{.*}} -> tensor<8x64x32xf16>
  // CHECK-DAG: tn.pack {{.*}} outer_dims_perm = [1, 0] :{{.*}} -> tensor<64x256xf16>
  // CHECK-NOT: tn.pack
  // CHECK: return
  %0 = tn.matmul %x, %w : (tensor<17x256xf16>, tensor<256x64xf16>) -> tensor<17x64xf16>
  %1 = tn.matmul %y, %v : (tensor<?x256xf16, #tn.shape<()[s0] -> (s0, 256)>>, tensor<256x64xf16>) -> tensor<?x64xf16, #tn.shape<()[s0] -> (s0, 64)>>
  %2 = tn.matmul %z, %u : (tensor<?x256xf16, #tn.shape<()[s0, s1] -> (s1, 256)>>, tensor<256x64xf16>) -> tensor<?x64xf16, #tn.shape<()[s0, s1] -> (s1, 64)>>
  return %0, %1, %2 : tensor<17x64xf16>, tensor<?x64xf16, #tn.shape<()[s0] -> (s0, 64)>>, tensor<?x64xf16, #tn.shape<()[s0, s1] -> (s1, 64)>>
}
}
