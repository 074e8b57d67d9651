// RUN: %tenon-opt %s --pass=expand-attention --check | FileCheck %s

// Heads wider than kernels of attention hold: products and softmax, scaled before the sums. Operands whose
// heads lie inside are turned around.
// CHECK-LABEL: @wide
func.func @wide(%q: tensor<1x2x1x320xf32>, %k: tensor<1x1x3x320xf32>, %v: tensor<1x1x3x8xf32>, %m: tensor<2x3xf32>) -> tensor<1x2x1x8xf32> {
  // CHECK: %[[T:.*]] = tn.transpose %arg0 [0, 2, 1, 3]
  // CHECK: %[[Q:.*]] = tn.mul %[[T]], %{{.*}}
  // CHECK: %[[S:.*]] = tn.matmul %[[Q]], %arg1 {transposeB}
  // CHECK: %[[A:.*]] = tn.add %[[S]], %arg3
  // CHECK: %[[P:.*]] = tn.softmax %[[A]] {axis = 3 : i64}
  // CHECK: %[[Y:.*]] = tn.matmul %[[P]], %arg2
  // CHECK: tn.transpose %[[Y]] [0, 2, 1, 3]
  %0 = tn.attention %q, %k, %v mask %m {scale = 0.05 : f64, causal = false, headsInner = array<i1: true, false, false, true>, maskedRowsAreNan} : (tensor<1x2x1x320xf32>, tensor<1x1x3x320xf32>, tensor<1x1x3x8xf32>, tensor<2x3xf32>) -> tensor<1x2x1x8xf32>
  return %0 : tensor<1x2x1x8xf32>
}
// -----
// Rows without a key are zeros unless it is said that they are NaN.
// CHECK-LABEL: @zero_rows
func.func @zero_rows(%q: tensor<1x2x1x320xf32>, %k: tensor<1x1x3x320xf32>, %v: tensor<1x1x3x8xf32>, %m: tensor<2x3xf32>) -> tensor<1x2x1x8xf32> {
  // CHECK: %[[P:.*]] = tn.softmax %[[S:.*]] {axis = 3 : i64}
  // CHECK: %[[M:.*]] = tn.reduce <max> %[[S]] {axes = array<i64: 3>, keepdims = true}
  // CHECK: %[[C:.*]] = tn.compare %[[M]] <eq>
  // CHECK: %[[Z:.*]] = tn.select %[[C]], %{{.*}}, %[[P]]
  // CHECK: tn.matmul %[[Z]], %arg2
  %0 = tn.attention %q, %k, %v mask %m {scale = 0.05 : f64, causal = false, headsInner = array<i1: true, false, false, true>} : (tensor<1x2x1x320xf32>, tensor<1x1x3x320xf32>, tensor<1x1x3x8xf32>, tensor<2x3xf32>) -> tensor<1x2x1x8xf32>
  return %0 : tensor<1x2x1x8xf32>
}
// -----
// CHECK-LABEL: @refused
// CHECK-NOT: tn.matmul
func.func @refused(%q: tensor<1x2x3x256xf32>, %w: tensor<1x2x3x320xf32>, %k: tensor<1x1x3x320xf32>) -> (tensor<1x2x3x256xf32>, tensor<1x2x3x320xf32>, tensor<1x2x3x320xf32>) {
  %0 = tn.attention %q, %q, %q {scale = 1.0 : f64, causal = false, headsInner = array<i1: false, false, false, false>} : (tensor<1x2x3x256xf32>, tensor<1x2x3x256xf32>, tensor<1x2x3x256xf32>) -> tensor<1x2x3x256xf32>
  %1 = tn.attention %w, %w, %w {scale = 1.0 : f64, causal = true, headsInner = array<i1: false, false, false, false>} : (tensor<1x2x3x320xf32>, tensor<1x2x3x320xf32>, tensor<1x2x3x320xf32>) -> tensor<1x2x3x320xf32>
  %2 = tn.attention %w, %k, %k {scale = 1.0 : f64, causal = false, headsInner = array<i1: false, false, false, false>} : (tensor<1x2x3x320xf32>, tensor<1x1x3x320xf32>, tensor<1x1x3x320xf32>) -> tensor<1x2x3x320xf32>
  return %0, %1, %2 : tensor<1x2x3x256xf32>, tensor<1x2x3x320xf32>, tensor<1x2x3x320xf32>
}
