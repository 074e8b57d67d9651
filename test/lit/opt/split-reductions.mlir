// RUN: %tenon-opt %s --pass=split-reductions --check | FileCheck %s

// The elementwise operations before the reduction go with its parts; a value that both operands of
// one read is reshaped once.
// CHECK-LABEL: @mean_of_squares
func.func @mean_of_squares(%a: tensor<8x3x64x64xf32>, %b: tensor<8x3x64x64xf32>) -> tensor<1x1x1x1xf32> {
  // CHECK-DAG: %[[A:.*]] = tn.reshape %arg0 : {{.*}} -> tensor<1x16x6144xf32>
  // CHECK-DAG: %[[B:.*]] = tn.reshape %arg1 : {{.*}} -> tensor<1x16x6144xf32>
  // CHECK: %[[D:.*]] = tn.sub %[[A]], %[[B]]
  // CHECK-NEXT: %[[S:.*]] = tn.mul %[[D]], %[[D]]
  // CHECK-NEXT: %[[P:.*]] = tn.reduce <mean> %[[S]] {axes = array<i64: 2>, keepdims = true} : {{.*}} -> tensor<1x16x1xf32>
  // CHECK-NEXT: %[[R:.*]] = tn.reduce <mean> %[[P]] {axes = array<i64: 1>, keepdims = true} : {{.*}} -> tensor<1x1x1xf32>
  // CHECK-NEXT: tn.reshape %[[R]] : (tensor<1x1x1xf32>) -> tensor<1x1x1x1xf32>
  %0 = tn.sub %a, %b : (tensor<8x3x64x64xf32>, tensor<8x3x64x64xf32>) -> tensor<8x3x64x64xf32>
  %1 = tn.mul %0, %0 : (tensor<8x3x64x64xf32>, tensor<8x3x64x64xf32>) -> tensor<8x3x64x64xf32>
  %2 = tn.reduce <mean> %1 {axes = array<i64: 0, 1, 2, 3>, keepdims = true} : (tensor<8x3x64x64xf32>) -> tensor<1x1x1x1xf32>
  return %2 : tensor<1x1x1x1xf32>
}
// A prime number of elements, enough results, short rows, sums that 16 bits would round: one pass.
// CHECK-LABEL: @others
// CHECK-COUNT-4: tn.reduce
// CHECK-NOT: tn.reduce
func.func @others(%a: tensor<100003xf32>, %b: tensor<8x98304xf32>, %c: tensor<2x4096xf32>, %d: tensor<98304xf16>) -> (tensor<f32>, tensor<8xf32>, tensor<2xf32>, tensor<f16>) {
  %0 = tn.reduce <sum> %a {axes = array<i64: 0>, keepdims = false} : (tensor<100003xf32>) -> tensor<f32>
  %1 = tn.reduce <sum> %b {axes = array<i64: 1>, keepdims = false} : (tensor<8x98304xf32>) -> tensor<8xf32>
  %2 = tn.reduce <sum> %c {axes = array<i64: 1>, keepdims = false} : (tensor<2x4096xf32>) -> tensor<2xf32>
  %3 = tn.reduce <sum> %d {axes = array<i64: 0>, keepdims = false} : (tensor<98304xf16>) -> tensor<f16>
  return %0, %1, %2, %3 : tensor<f32>, tensor<8xf32>, tensor<2xf32>, tensor<f16>
}
// Sums of integers wrap in any order; their mean rounds.
// CHECK-LABEL: @integers
// CHECK-COUNT-2: tn.reduce <sum>
// CHECK-NOT: tn.reduce <mean> {{.*}} -> tensor<1x16x1xi32>
func.func @integers(%a: tensor<98304xi32>) -> (tensor<i32>, tensor<i32>) {
  %0 = tn.reduce <sum> %a {axes = array<i64: 0>, keepdims = false} : (tensor<98304xi32>) -> tensor<i32>
  %1 = tn.reduce <mean> %a {axes = array<i64: 0>, keepdims = false} : (tensor<98304xi32>) -> tensor<i32>
  return %0, %1 : tensor<i32>, tensor<i32>
}
// CHECK-LABEL: @order_of_halves
// CHECK-COUNT-2: tn.reduce <max>
func.func @order_of_halves(%d: tensor<98304xf16>) -> tensor<f16> {
  %0 = tn.reduce <max> %d {axes = array<i64: 0>, keepdims = false} : (tensor<98304xf16>) -> tensor<f16>
  return %0 : tensor<f16>
}

// Three columns: 22 rows are one of 66, whose 22 parts are put together. Where other axes are reduced too, they go with the first step.
// CHECK-LABEL: @few_columns
func.func @few_columns(%a: tensor<2x22000x3xf32>, %b: tensor<4x5x22000x1x3xf32>) -> (tensor<2x3xf32>, tensor<1x5x1x1x3xf32>) {
  // CHECK: tn.reshape %arg0 : {{.*}} -> tensor<2x1000x66xf32>
  // CHECK: tn.reduce <max> {{.*}} {axes = array<i64: 1>, keepdims = true} : {{.*}} -> tensor<2x1x66xf32>
  // CHECK: tn.reshape {{.*}} -> tensor<2x22x3xf32>
  // CHECK: tn.reduce <max> {{.*}} {axes = array<i64: 1>, keepdims = true} : {{.*}} -> tensor<2x1x3xf32>
  // CHECK: tn.reshape %arg1 : {{.*}} -> tensor<4x5x1000x66xf32>
  // CHECK: tn.reduce <sum> {{.*}} {axes = array<i64: 0, 2>, keepdims = true} : {{.*}} -> tensor<1x5x1x66xf32>
  // CHECK: tn.reduce <sum> {{.*}} {axes = array<i64: 2>, keepdims = true} : {{.*}} -> tensor<1x5x1x3xf32>
  %0 = tn.reduce <max> %a {axes = array<i64: 1>, keepdims = false} : (tensor<2x22000x3xf32>) -> tensor<2x3xf32>
  %1 = tn.reduce <sum> %b {axes = array<i64: 0, 2>, keepdims = true} : (tensor<4x5x22000x1x3xf32>) -> tensor<1x5x1x1x3xf32>
  return %0, %1 : tensor<2x3xf32>, tensor<1x5x1x1x3xf32>
}
// The order of elements does not matter to the histogram of all of them: transposes and reshapes before it go.
// CHECK-LABEL: @histogram
func.func @histogram(%x: tensor<2x64x32x16xf32>) -> tensor<1x8192xi32> {
  // CHECK-NOT: tn.transpose
  // CHECK: %[[R:.*]] = tn.reshape %arg0 : {{.*}} -> tensor<8x8192xf32>
  // CHECK-NEXT: %[[C:.*]] = tn.histogram %[[R]] {bits = 13 : i64} : (tensor<8x8192xf32>) -> tensor<8x8192xi32>
  // CHECK-NEXT: tn.reduce <sum> %[[C]] {axes = array<i64: 0>, keepdims = true}
  %0 = tn.transpose %x [0, 2, 3, 1] : (tensor<2x64x32x16xf32>) -> tensor<2x32x16x64xf32>
  %1 = tn.reshape %0 : (tensor<2x32x16x64xf32>) -> tensor<1x65536xf32>
  %2 = tn.histogram %1 {bits = 13 : i64} : (tensor<1x65536xf32>) -> tensor<1x8192xi32>
  return %2 : tensor<1x8192xi32>
}
// Rows that somebody reads one by one stay.
// CHECK-LABEL: @histograms
// CHECK: tn.histogram %arg0
func.func @histograms(%x: tensor<2x65536xf32>) -> tensor<2x8192xi32> {
  %0 = tn.histogram %x {bits = 13 : i64} : (tensor<2x65536xf32>) -> tensor<2x8192xi32>
  return %0 : tensor<2x8192xi32>
}
