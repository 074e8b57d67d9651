// RUN: %tenon-opt %s --pass=transposed-convs,simplify --check | FileCheck %s

// The stride divides the filter: one convolution whose channels are four phases, and the bias four times.
// CHECK-LABEL: @whole
func.func @whole(%x: tensor<2x3x5x6xf32>) -> tensor<2x4x10x12xf32> {
  // CHECK: tn.conv {{.*}}pads = array<i64: 1, 1, 1, 1>{{.*}} -> tensor<2x6x7x16xf32>
  // CHECK-NOT: tn.conv
  // CHECK: return
  %w = tn.weight "w" : tensor<3x4x4x4xf32>
  %b = tn.weight "b" : tensor<4xf32>
  %0 = tn.conv_transpose %x, %w bias %b {strides = array<i64: 2, 2>, pads = array<i64: 1, 1, 1, 1>, dilations = array<i64: 1, 1>, outputPadding = array<i64: 0, 0>, groups = 1 : i64} : (tensor<2x3x5x6xf32>, tensor<3x4x4x4xf32>, tensor<4xf32>) -> tensor<2x4x10x12xf32>
  return %0 : tensor<2x4x10x12xf32>
}
// -----
// Three taps and a stride of two: each of four phases has as many taps as reach it.
// CHECK-LABEL: @parts
func.func @parts(%x: tensor<1x4x5x5xf32>) -> tensor<1x6x10x10xf32> {
  // CHECK-COUNT-4: tn.conv
  // CHECK: tn.concat
  %w = tn.weight "w" : tensor<4x3x3x3xf32>
  %0 = tn.conv_transpose %x, %w {strides = array<i64: 2, 2>, pads = array<i64: 1, 1, 1, 1>, dilations = array<i64: 1, 1>, outputPadding = array<i64: 1, 1>, groups = 2 : i64} : (tensor<1x4x5x5xf32>, tensor<4x3x3x3xf32>) -> tensor<1x6x10x10xf32>
  return %0 : tensor<1x6x10x10xf32>
}
// -----
#x = #tn.shape<()[s0] -> (1, 2, s0)>
#y = #tn.shape<()[s0] -> (1, 2, s0 + 2)>
// A length that varies, and a dilated filter, which needs a stride of one.
module attributes {tn.symbols = [#tn.symbol<"length", 1, 8>]} {
// CHECK-LABEL: @dilated
func.func @dilated(%x: tensor<1x2x?xf32, #x>) -> tensor<1x2x?xf32, #y> {
  // CHECK: tn.conv {{.*}}dilations = array<i64: 2>
  // CHECK-NOT: tn.conv_transpose
  // CHECK: return
  %w = tn.weight "w" : tensor<2x2x3xf32>
  %0 = tn.conv_transpose %x, %w {strides = array<i64: 1>, pads = array<i64: 1, 1>, dilations = array<i64: 2>, outputPadding = array<i64: 0>, groups = 1 : i64} : (tensor<1x2x?xf32, #x>, tensor<2x2x3xf32>) -> tensor<1x2x?xf32, #y>
  return %0 : tensor<1x2x?xf32, #y>
}
}
// -----
#u = #tn.shape<()[s0] -> (1, 2, s0)>
#v = #tn.shape<()[s0] -> (1, 2, s0 * 2 + 2)>
// All that the convolution gives is the result: twice a sum, which its type writes otherwise.
module attributes {tn.symbols = [#tn.symbol<"length", 1, 8>]} {
// CHECK-LABEL: @uncut
func.func @uncut(%x: tensor<1x2x?xf32, #u>) -> tensor<1x2x?xf32, #v> {
  // CHECK-NOT: tn.slice
  // CHECK: tn.conv {{.*}}pads = array<i64: 1, 1>
  // CHECK: return
  %w = tn.weight "w" : tensor<2x2x4xf32>
  %0 = tn.conv_transpose %x, %w {strides = array<i64: 2>, pads = array<i64: 0, 0>, dilations = array<i64: 1>, outputPadding = array<i64: 0>, groups = 1 : i64} : (tensor<1x2x?xf32, #u>, tensor<2x2x4xf32>) -> tensor<1x2x?xf32, #v>
  return %0 : tensor<1x2x?xf32, #v>
}
}
// -----
// A filter shorter than the stride leaves positions that nothing reaches: the bias.
// CHECK-LABEL: @short
func.func @short(%x: tensor<1x2x4xf32>, %b: tensor<2xf32>) -> tensor<1x2x10xf32> {
  // CHECK-DAG: %[[REST:.*]] = tn.broadcast %arg1 : (tensor<2xf32>) -> tensor<1x4x2x2xf32>
  // CHECK-DAG: tn.conv {{.*}} -> tensor<1x4x2xf32>
  // CHECK: tn.concat {{.*}}, %[[REST]] {{.*}} -> tensor<1x4x3x2xf32>
  // CHECK-NOT: tn.conv
  %w = tn.weight "w" : tensor<2x2x1xf32>
  %0 = tn.conv_transpose %x, %w bias %b {strides = array<i64: 3>, pads = array<i64: 0, 0>, dilations = array<i64: 1>, outputPadding = array<i64: 0>, groups = 1 : i64} : (tensor<1x2x4xf32>, tensor<2x2x1xf32>, tensor<2xf32>) -> tensor<1x2x10xf32>
  return %0 : tensor<1x2x10xf32>
}
// -----
// Seven taps and a stride of five: two phases have two, three have one, and each of these is one convolution.
// CHECK-LABEL: @sets
func.func @sets(%x: tensor<1x2x4xf32>) -> tensor<1x3x22xf32> {
  // CHECK-DAG: tn.conv {{.*}} -> tensor<1x5x6xf32>
  // CHECK-DAG: tn.conv {{.*}} -> tensor<1x5x9xf32>
  // CHECK: tn.concat
  // CHECK-NOT: tn.conv
  %w = tn.weight "w" : tensor<2x3x7xf32>
  %0 = tn.conv_transpose %x, %w {strides = array<i64: 5>, pads = array<i64: 0, 0>, dilations = array<i64: 1>, outputPadding = array<i64: 0>, groups = 1 : i64} : (tensor<1x2x4xf32>, tensor<2x3x7xf32>) -> tensor<1x3x22xf32>
  return %0 : tensor<1x3x22xf32>
}
// -----
// Steps of taps that are no multiple of the stride: every second tap leads to the same phase, three inputs on.
// CHECK-LABEL: @dilated_and_strided
func.func @dilated_and_strided(%x: tensor<1x2x6xf32>) -> tensor<1x3x20xf32> {
  // CHECK-DAG: tn.conv {{.*}}dilations = array<i64: 3>
  // CHECK-DAG: tn.conv {{.*}}dilations = array<i64: 3>
  // CHECK-NOT: tn.conv_transpose
  // CHECK: return
  %w = tn.weight "w" : tensor<2x3x4xf32>
  %0 = tn.conv_transpose %x, %w {strides = array<i64: 2>, pads = array<i64: 0, 0>, dilations = array<i64: 3>, outputPadding = array<i64: 0>, groups = 1 : i64} : (tensor<1x2x6xf32>, tensor<2x3x4xf32>) -> tensor<1x3x20xf32>
  return %0 : tensor<1x3x20xf32>
}
// -----
// Weights of 8 bits are moved as such, with a scale for each output channel of the convolution: it may be one of integers.
// CHECK-LABEL: @quantized
func.func @quantized(%q: tensor<1x4x6x6xui8>) -> tensor<1x6x12x12xf32> {
  // CHECK: %[[D:.*]] = tn.dequantize %{{.*}} {axis = 0 : i64} : (tensor<24x2x1x1xi8>, tensor<24xf32>, tensor<24xi8>) -> tensor<24x2x1x1xf32>
  // CHECK: tn.conv %{{.*}}, %[[D]] {{.*}}groups = 2 : i64
  %t = tn.constant dense<0.5> : tensor<f32> : tensor<f32>
  %o = tn.constant dense<3> : tensor<ui8> : tensor<ui8>
  %x = tn.dequantize %q, %t, %o {axis = 0 : i64} : (tensor<1x4x6x6xui8>, tensor<f32>, tensor<ui8>) -> tensor<1x4x6x6xf32>
  %w = tn.weight "w" : tensor<4x3x2x2xi8>
  %s = tn.constant dense<[0.5, 0.25, 1.0]> : tensor<3xf32> : tensor<3xf32>
  %z = tn.constant dense<[0, 1, 2]> : tensor<3xi8> : tensor<3xi8>
  %0 = tn.dequantize %w, %s, %z {axis = 1 : i64} : (tensor<4x3x2x2xi8>, tensor<3xf32>, tensor<3xi8>) -> tensor<4x3x2x2xf32>
  %1 = tn.conv_transpose %x, %0 {strides = array<i64: 2, 2>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>, outputPadding = array<i64: 0, 0>, groups = 2 : i64} : (tensor<1x4x6x6xf32>, tensor<4x3x2x2xf32>) -> tensor<1x6x12x12xf32>
  return %1 : tensor<1x6x12x12xf32>
}
