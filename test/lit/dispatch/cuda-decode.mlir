// RUN: %tenon-opt %s --pass=dispatch-cuda --check | FileCheck %s
#first = affine_map<() -> (0, 0, 0, 0, 0)>
#second = affine_map<() -> (0, 0, 0, 1, 0)>

// A step of decoding: the queries are rotated and the keys and values appended to their caches in one
// launch, in which nothing is stored but the results; then attention.
// CHECK-LABEL: @decode
func.func @decode(%x: tensor<1x1x16xf16>, %c: tensor<1x1x1x1x8xf16>, %at: tensor<1x1xi64>,
                  %k: tensor<1x1x64x16xf16>, %v: tensor<1x1x64x16xf16>)
    -> (tensor<1x1x32xf16>, tensor<1x1x64x16xf16>, tensor<1x1x64x16xf16>) {
  %w = tn.weight "w" : tensor<16x64xf16>
  // CHECK: tn.region "cuda" "contraction"
  %p = tn.matmul %x, %w : (tensor<1x1x16xf16>, tensor<16x64xf16>) -> tensor<1x1x64xf16>
  // CHECK: tn.region "cuda" "bundle"
  // CHECK: tn.slice
  // CHECK: tn.concat {{.*}}tensor<1x1x2x2x8xf16>
  // CHECK: tn.concat {{.*}}tensor<1x1x1x2x8xf16>
  // CHECK-NEXT: tn.reshape
  // CHECK-NEXT: tn.broadcast
  // CHECK-NEXT: tn.scatter_elements
  // CHECK: tn.slice
  // CHECK: tn.scatter_elements
  // CHECK: tn.yield
  %h = tn.reshape %p : (tensor<1x1x64xf16>) -> tensor<1x1x4x2x8xf16>
  %q1 = tn.slice %h {starts = #first, steps = array<i64: 1, 1, 1, 1, 1>} : (tensor<1x1x4x2x8xf16>) -> tensor<1x1x2x1x8xf16>
  %q2 = tn.slice %h {starts = #second, steps = array<i64: 1, 1, 1, 1, 1>} : (tensor<1x1x4x2x8xf16>) -> tensor<1x1x2x1x8xf16>
  %q3 = tn.mul %q1, %c : (tensor<1x1x2x1x8xf16>, tensor<1x1x1x1x8xf16>) -> tensor<1x1x2x1x8xf16>
  %q4 = tn.sub %q2, %q3 : (tensor<1x1x2x1x8xf16>, tensor<1x1x2x1x8xf16>) -> tensor<1x1x2x1x8xf16>
  %q5 = tn.concat %q4, %q3 {axis = 3 : i64} : (tensor<1x1x2x1x8xf16>, tensor<1x1x2x1x8xf16>) -> tensor<1x1x2x2x8xf16>
  %q = tn.reshape %q5 : (tensor<1x1x2x2x8xf16>) -> tensor<1x2x1x16xf16>
  %k1 = tn.slice %h {starts = affine_map<() -> (0, 0, 2, 0, 0)>, steps = array<i64: 1, 1, 1, 1, 1>} : (tensor<1x1x4x2x8xf16>) -> tensor<1x1x1x1x8xf16>
  %k2 = tn.mul %k1, %c : (tensor<1x1x1x1x8xf16>, tensor<1x1x1x1x8xf16>) -> tensor<1x1x1x1x8xf16>
  %k3 = tn.concat %k1, %k2 {axis = 3 : i64} : (tensor<1x1x1x1x8xf16>, tensor<1x1x1x1x8xf16>) -> tensor<1x1x1x2x8xf16>
  %k4 = tn.reshape %k3 : (tensor<1x1x1x2x8xf16>) -> tensor<1x1x1x16xf16>
  %i = tn.reshape %at : (tensor<1x1xi64>) -> tensor<1x1x1x1xi64>
  %j = tn.broadcast %i : (tensor<1x1x1x1xi64>) -> tensor<1x1x1x16xi64>
  %k5 = tn.scatter_elements <none> %k, %j, %k4 {axis = 2 : i64} : (tensor<1x1x64x16xf16>, tensor<1x1x1x16xi64>, tensor<1x1x1x16xf16>) -> tensor<1x1x64x16xf16>
  %v1 = tn.slice %p {starts = affine_map<() -> (0, 0, 48)>, steps = array<i64: 1, 1, 1>} : (tensor<1x1x64xf16>) -> tensor<1x1x16xf16>
  %v2 = tn.reshape %v1 : (tensor<1x1x16xf16>) -> tensor<1x1x1x16xf16>
  %v3 = tn.scatter_elements <none> %v, %j, %v2 {axis = 2 : i64} : (tensor<1x1x64x16xf16>, tensor<1x1x1x16xi64>, tensor<1x1x1x16xf16>) -> tensor<1x1x64x16xf16>
  // CHECK: tn.region "cuda" "attention"
  %y = tn.attention %q, %k5, %v3 {causal = false, headsInner = array<i1: false, false, false, false>, scale = 0.25 : f64} : (tensor<1x2x1x16xf16>, tensor<1x1x64x16xf16>, tensor<1x1x64x16xf16>) -> tensor<1x2x1x16xf16>
  %z = tn.reshape %y : (tensor<1x2x1x16xf16>) -> tensor<1x1x32xf16>
  // CHECK-NOT: tn.region
  return %z, %k5, %v3 : tensor<1x1x32xf16>, tensor<1x1x64x16xf16>, tensor<1x1x64x16xf16>
}
// -----
// Kernels that read nothing in common, or of which one reads the other, stay apart; so does what a
// scatter of many updates in order writes.
// CHECK-LABEL: @apart
func.func @apart(%x: tensor<64x8xf32>, %i: tensor<64x8xi64>, %u: tensor<64x8xf32>, %z: tensor<9xf32>)
    -> (tensor<64x8xf32>, tensor<9xf32>) {
  // CHECK-NOT: bundle
  // CHECK: tn.region "cuda" "elementwise"
  // CHECK-NEXT: ^bb0
  // CHECK-NEXT: tn.exp
  %0 = tn.exp %u : tensor<64x8xf32>
  // CHECK: tn.region "cuda" "single"
  // CHECK-NEXT: ^bb0
  // CHECK-NEXT: tn.scatter_elements
  %1 = tn.scatter_elements <none> %x, %i, %0 {axis = 0 : i64} : (tensor<64x8xf32>, tensor<64x8xi64>, tensor<64x8xf32>) -> tensor<64x8xf32>
  // CHECK: tn.region "cuda" "elementwise"
  %2 = tn.neg %z : tensor<9xf32>
  return %1, %2 : tensor<64x8xf32>, tensor<9xf32>
}
// -----
// Scatters of many updates have kernels of their own, though they read the same.
// CHECK-LABEL: @many
func.func @many(%x: tensor<64x8xf32>, %y: tensor<64x8xf32>, %i: tensor<64x8xi64>, %u: tensor<64x8xf32>)
    -> (tensor<64x8xf32>, tensor<64x8xf32>) {
  // CHECK-NOT: bundle
  // CHECK: tn.region "cuda" "single"
  // CHECK: tn.region "cuda" "single"
  %0 = tn.scatter_elements <none> %x, %i, %u {axis = 0 : i64} : (tensor<64x8xf32>, tensor<64x8xi64>, tensor<64x8xf32>) -> tensor<64x8xf32>
  %1 = tn.scatter_elements <none> %y, %i, %u {axis = 0 : i64} : (tensor<64x8xf32>, tensor<64x8xi64>, tensor<64x8xf32>) -> tensor<64x8xf32>
  return %0, %1 : tensor<64x8xf32>, tensor<64x8xf32>
}
