// The tool refuses what the verifier refuses, with the verifier's words and without a crash.
// RUN: not %tenon-opt %s 2>&1 | FileCheck %s

// CHECK: the dims that a matmul sums over: 3 and 4 differ
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

// CHECK: a bias of element type 'f32' does not fit a result of 'i32'
func.func @bias_of_bytes(%x: tensor<1x4x4xui8>, %w: tensor<2x4x1xi8>, %b: tensor<2xf32>) {
  %y = tn.conv %x, %w bias %b {strides = array<i64: 1>, pads = array<i64: 0, 0>, dilations = array<i64: 1>, groups = 1 : i64, channelsLast = false} : (tensor<1x4x4xui8>, tensor<2x4x1xi8>, tensor<2xf32>) -> tensor<1x2x4xi32>
  return
}

// -----

// CHECK: different element types, 'i8' and 'ui8'
func.func @signed_bytes(%x: tensor<1x4x4xi8>, %w: tensor<2x4x1xui8>) {
  %y = tn.conv %x, %w {strides = array<i64: 1>, pads = array<i64: 0, 0>, dilations = array<i64: 1>, groups = 1 : i64, channelsLast = false} : (tensor<1x4x4xi8>, tensor<2x4x1xui8>) -> tensor<1x2x4xi32>
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

// -----

// CHECK: gives rows of its operand, as many as a symbol of its own says
func.func @take_first(%x: tensor<?x3xf32, #tn.shape<()[s0] -> (s0, 3)>>, %n: tensor<i64>) {
  %y = tn.take_first %x, %n : (tensor<?x3xf32, #tn.shape<()[s0] -> (s0, 3)>>, tensor<i64>) -> tensor<?x3xf32, #tn.shape<()[s0] -> (s0, 3)>>
  return
}

// -----

// CHECK: needs rows, a scalar that counts them, and a symbol for the count
func.func @take_constant(%x: tensor<5xf32>, %n: tensor<i64>) {
  %y = tn.take_first %x, %n : (tensor<5xf32>, tensor<i64>) -> tensor<4xf32>
  return
}

// -----

// CHECK: needs a list, and counts in a scalar
func.func @true_positions(%x: tensor<5x2xi1>) {
  %p, %n = tn.true_positions %x : (tensor<5x2xi1>) -> (tensor<5x2xi64>, tensor<i64>)
  return
}

// -----

// CHECK: the selection: 2 and 3 differ
func.func @select_boxes(%b: tensor<1x9x4xf32>, %s: tensor<1x3x9xf32>, %c: tensor<1x3x9xi1>, %n: tensor<i64>, %o: tensor<f32>) {
  %y = tn.select_boxes %b, %s, %c, %n, %o : (tensor<1x9x4xf32>, tensor<1x3x9xf32>, tensor<1x3x9xi1>, tensor<i64>, tensor<f32>) -> tensor<1x2x3xi64>
  return
}

// -----

// CHECK: needs rows of elements, and 9 to 20 bits
func.func @histogram(%x: tensor<2x5xf32>) {
  %c = tn.histogram %x {bits = 4 : i64} : (tensor<2x5xf32>) -> tensor<2x16xi32>
  return
}
