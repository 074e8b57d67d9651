// RUN: %tenon-opt %s --pass=dispatch-cuda --check | FileCheck %s

// A norm over the first dim, spelled out, with what stands before and behind it: one region.
// CHECK-LABEL: @norm
func.func @norm(%x: tensor<300x64xf16>, %b: tensor<64xf16>) -> (tensor<300x64xf16>, tensor<1x64xf16>) {
  // CHECK: tn.region "cuda" "rows"
  // CHECK: tn.relu
  // CHECK: tn.reduce
  // CHECK: tn.sub
  // CHECK: tn.reduce
  // CHECK: tn.sqrt
  // CHECK: tn.div
  // CHECK: tn.add
  // CHECK-NEXT: tn.yield
  // CHECK-NOT: tn.region
  %0 = tn.relu %x : tensor<300x64xf16>
  %1 = tn.reduce <mean> %0 {axes = array<i64: 0>, keepdims = true} : (tensor<300x64xf16>) -> tensor<1x64xf16>
  %2 = tn.sub %0, %1 : (tensor<300x64xf16>, tensor<1x64xf16>) -> tensor<300x64xf16>
  %3 = tn.mul %2, %2 : (tensor<300x64xf16>, tensor<300x64xf16>) -> tensor<300x64xf16>
  %4 = tn.reduce <mean> %3 {axes = array<i64: 0>, keepdims = true} : (tensor<300x64xf16>) -> tensor<1x64xf16>
  %5 = tn.sqrt %4 : tensor<1x64xf16>
  %6 = tn.exp %5 : tensor<1x64xf16>
  %7 = tn.div %2, %6 : (tensor<300x64xf16>, tensor<1x64xf16>) -> tensor<300x64xf16>
  %8 = tn.add %7, %b : (tensor<300x64xf16>, tensor<64xf16>) -> tensor<300x64xf16>
  return %8, %1 : tensor<300x64xf16>, tensor<1x64xf16>
}
// -----
// A sum over columns alone stays by itself, and what follows in small.
// CHECK-LABEL: @sum
func.func @sum(%x: tensor<300x64xf16>) -> tensor<64xf16> {
  // CHECK: tn.region "cuda" "single"
  // CHECK: tn.reduce
  %0 = tn.reduce <sum> %x {axes = array<i64: 0>, keepdims = false} : (tensor<300x64xf16>) -> tensor<64xf16>
  // CHECK: tn.region "cuda" "elementwise"
  %1 = tn.relu %0 : tensor<64xf16>
  return %1 : tensor<64xf16>
}
// -----
// Reductions over other dims do not join.
// CHECK-LABEL: @others
func.func @others(%x: tensor<4x30x64xf16>) -> (tensor<4x30x64xf16>, tensor<4x64xf16>) {
  // CHECK: tn.region "cuda" "rows"
  // CHECK: tn.softmax
  // CHECK-NEXT: tn.add
  // CHECK-NEXT: tn.yield
  %0 = tn.softmax %x {axis = 1 : i64} : tensor<4x30x64xf16>
  %1 = tn.add %0, %x : (tensor<4x30x64xf16>, tensor<4x30x64xf16>) -> tensor<4x30x64xf16>
  // CHECK: tn.region "cuda" "rows"
  // CHECK: tn.reduce <max>
  // CHECK-NEXT: tn.sub
  // CHECK-NEXT: tn.yield
  // CHECK: tn.region "cuda" "single"
  // CHECK: tn.reduce <sum>
  %2 = tn.reduce <max> %1 {axes = array<i64: 0>, keepdims = false} : (tensor<4x30x64xf16>) -> tensor<30x64xf16>
  %3 = tn.sub %1, %2 : (tensor<4x30x64xf16>, tensor<30x64xf16>) -> tensor<4x30x64xf16>
  %4 = tn.reduce <sum> %3 {axes = array<i64: 1>, keepdims = false} : (tensor<4x30x64xf16>) -> tensor<4x64xf16>
  return %3, %4 : tensor<4x30x64xf16>, tensor<4x64xf16>
}
// -----
// The same over rows: what a sum was taken of is divided by its root.
// CHECK-LABEL: @length
func.func @length(%x: tensor<300x64xf16>) -> tensor<300x64xf16> {
  // CHECK: tn.region "cuda" "rows"
  // CHECK: tn.mul
  // CHECK: tn.reduce
  // CHECK: tn.sqrt
  // CHECK: tn.div
  // CHECK-NEXT: tn.yield
  // CHECK-NOT: tn.region
  %0 = tn.mul %x, %x : (tensor<300x64xf16>, tensor<300x64xf16>) -> tensor<300x64xf16>
  %1 = tn.reduce <sum> %0 {axes = array<i64: 1>, keepdims = true} : (tensor<300x64xf16>) -> tensor<300x1xf16>
  %2 = tn.sqrt %1 : tensor<300x1xf16>
  %3 = tn.div %x, %2 : (tensor<300x64xf16>, tensor<300x1xf16>) -> tensor<300x64xf16>
  return %3 : tensor<300x64xf16>
}
// -----
// Moments of the same columns: one pass.
// CHECK-LABEL: @moments
func.func @moments(%x: tensor<2x300x64xf16>) -> (tensor<2x64xf32>, tensor<2x64xf32>) {
  // CHECK: tn.region "cuda" "rows"
  // CHECK: tn.cast
  // CHECK: tn.reduce
  // CHECK: tn.mul
  // CHECK: tn.reduce
  // CHECK-NEXT: tn.yield
  // CHECK-NOT: tn.region
  %0 = tn.cast %x : (tensor<2x300x64xf16>) -> tensor<2x300x64xf32>
  %1 = tn.reduce <mean> %0 {axes = array<i64: 1>, keepdims = false} : (tensor<2x300x64xf32>) -> tensor<2x64xf32>
  %2 = tn.mul %0, %0 : (tensor<2x300x64xf32>, tensor<2x300x64xf32>) -> tensor<2x300x64xf32>
  %3 = tn.reduce <mean> %2 {axes = array<i64: 1>, keepdims = false} : (tensor<2x300x64xf32>) -> tensor<2x64xf32>
  return %1, %3 : tensor<2x64xf32>, tensor<2x64xf32>
}
// -----
// Moments over positions and the channels of a group, with what stands before and behind: one region.
// CHECK-LABEL: @groups
func.func @groups(%x: tensor<2x64x4x8xf16>, %t: tensor<2x1x4x8xf16>) -> tensor<2x64x4x8xf16> {
  // CHECK: tn.region "cuda" "rows"
  // CHECK: tn.add
  // CHECK: tn.reduce
  // CHECK: tn.reduce
  // CHECK: tn.sub
  // CHECK: tn.silu
  // CHECK-NEXT: tn.yield
  // CHECK-NOT: tn.region
  %0 = tn.add %x, %t : (tensor<2x64x4x8xf16>, tensor<2x1x4x8xf16>) -> tensor<2x64x4x8xf16>
  %1 = tn.reduce <mean> %0 {axes = array<i64: 1, 3>, keepdims = true} : (tensor<2x64x4x8xf16>) -> tensor<2x1x4x1xf16>
  %2 = tn.mul %0, %0 : (tensor<2x64x4x8xf16>, tensor<2x64x4x8xf16>) -> tensor<2x64x4x8xf16>
  %3 = tn.reduce <mean> %2 {axes = array<i64: 1, 3>, keepdims = true} : (tensor<2x64x4x8xf16>) -> tensor<2x1x4x1xf16>
  %4 = tn.sub %0, %1 : (tensor<2x64x4x8xf16>, tensor<2x1x4x1xf16>) -> tensor<2x64x4x8xf16>
  %5 = tn.mul %4, %3 : (tensor<2x64x4x8xf16>, tensor<2x1x4x1xf16>) -> tensor<2x64x4x8xf16>
  %6 = tn.silu %5 : tensor<2x64x4x8xf16>
  return %6 : tensor<2x64x4x8xf16>
}
