// The tool refuses what the verifier refuses, with the verifier's words and without a crash.
// RUN: not %tenon-opt %s 2>&1 | FileCheck %s

// CHECK: the dims that a matrix product sums over: 3 and 4 differ
func.func @matmul(%a: tensor<2x3xf32>, %b: tensor<4x5xf32>) {
  %y = tn.matmul %a, %b : (tensor<2x3xf32>, tensor<4x5xf32>) -> tensor<2x5xf32>
  return
}

// -----

// CHECK: stride is 0, outside [1, 1099511627776]
func.func @conv(%x: tensor<1x1x4xf32>, %w: tensor<1x1x1xf32>) {
  %y = tn.conv %x, %w {strides = array<i64: 0>, pads = array<i64: 0, 0>, dilations = array<i64: 1>, groups = 1 : i64, channelsLast = false} : (tensor<1x1x4xf32>, tensor<1x1x1xf32>) -> tensor<1x1x4xf32>
  return
}

// -----

// CHECK: #tn.shape has 1 dims, the tensor 2
func.func @encoding(%x: tensor<?x3xf32, #tn.shape<()[s0] -> (s0)>>) {
  return
}

// -----

// CHECK: changes the number of elements from s0 * 3 to s0 * 4
func.func @reshape(%x: tensor<?x3xf32, #tn.shape<()[s0] -> (s0, 3)>>) {
  %y = tn.reshape %x : (tensor<?x3xf32, #tn.shape<()[s0] -> (s0, 3)>>) -> tensor<?x4xf32, #tn.shape<()[s0] -> (s0, 4)>>
  return
}
