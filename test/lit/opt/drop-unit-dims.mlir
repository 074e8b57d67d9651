// RUN: %tenon-opt %s --pass=drop-unit-dims --check | FileCheck %s

// A 1-D convolution as exporters write it; what stands around it has one dim less too.
// CHECK-LABEL: @line
func.func @line(%x: tensor<2x7x3xf32>) -> tensor<2x7x4xf32> {
  // CHECK: %[[T:.*]] = tn.transpose %arg0 [0, 2, 1]
  // CHECK: %[[C:.*]] = tn.conv %[[T]], %{{.*}} {channelsLast = false, dilations = array<i64: 2>, groups = 1 : i64, pads = array<i64: 4, 4>, strides = array<i64: 1>}
  // CHECK-SAME: tensor<4x3x5xf32>) -> tensor<2x4x7xf32>
  // CHECK: %[[U:.*]] = tn.transpose %[[C]] [0, 2, 1]
  // CHECK: %[[A:.*]] = tn.add %[[U]], %{{.*}} : (tensor<2x7x4xf32>, tensor<4xf32>)
  // CHECK: %[[R:.*]] = tn.relu %[[A]] : tensor<2x7x4xf32>
  // CHECK: return %[[R]]
  %w = tn.weight "w" : tensor<4x3x5x1xf32>
  %b = tn.weight "b" : tensor<4xf32>
  %0 = tn.reshape %x : (tensor<2x7x3xf32>) -> tensor<2x7x1x3xf32>
  %1 = tn.transpose %0 [0, 3, 1, 2] : (tensor<2x7x1x3xf32>) -> tensor<2x3x7x1xf32>
  %2 = tn.conv %1, %w {strides = array<i64: 1, 3>, pads = array<i64: 4, 0, 4, 0>, dilations = array<i64: 2, 1>, groups = 1 : i64, channelsLast = false} : (tensor<2x3x7x1xf32>, tensor<4x3x5x1xf32>) -> tensor<2x4x7x1xf32>
  %3 = tn.transpose %2 [0, 2, 3, 1] : (tensor<2x4x7x1xf32>) -> tensor<2x7x1x4xf32>
  %4 = tn.add %3, %b : (tensor<2x7x1x4xf32>, tensor<4xf32>) -> tensor<2x7x1x4xf32>
  %5 = tn.relu %4 : tensor<2x7x1x4xf32>
  %6 = tn.reshape %5 : (tensor<2x7x1x4xf32>) -> tensor<2x7x4xf32>
  return %6 : tensor<2x7x4xf32>
}

// A depth of one, of whose taps all but one read padding; by groups, with a bias and a scale that
// broadcasts along the axis.
// CHECK-LABEL: @depth
func.func @depth(%x: tensor<1x4x1x5x6xf32>, %s: tensor<4x1x1x1xf32>) -> tensor<1x4x1x5x6xf32> {
  // CHECK: tn.conv {{.*}} dilations = array<i64: 1, 1>, groups = 2 : i64, pads = array<i64: 1, 1, 1, 1>
  // CHECK-SAME: tensor<4x2x3x3xf32>
  // CHECK: tn.mul {{.*}} -> tensor<1x4x5x6xf32>
  %w = tn.weight "v" : tensor<4x2x3x3x3xf32>
  %b = tn.weight "c" : tensor<4xf32>
  %0 = tn.conv %x, %w bias %b {strides = array<i64: 2, 1, 1>, pads = array<i64: 1, 1, 1, 1, 1, 1>, dilations = array<i64: 1, 1, 1>, groups = 2 : i64, channelsLast = false} : (tensor<1x4x1x5x6xf32>, tensor<4x2x3x3x3xf32>, tensor<4xf32>) -> tensor<1x4x1x5x6xf32>
  %1 = tn.mul %0, %s : (tensor<1x4x1x5x6xf32>, tensor<4x1x1x1xf32>) -> tensor<1x4x1x5x6xf32>
  return %1 : tensor<1x4x1x5x6xf32>
}

// Two axes of one; one is left where all are.
// CHECK-LABEL: @point
func.func @point(%x: tensor<2x3x1x1xf32>) -> tensor<2x4x1x1xf32> {
  // CHECK: tn.conv {{.*}} (tensor<2x3x1xf32>, tensor<4x3x3xf32>) -> tensor<2x4x1xf32>
  %w = tn.weight "p" : tensor<4x3x3x3xf32>
  %0 = tn.conv %x, %w {strides = array<i64: 1, 1>, pads = array<i64: 1, 1, 1, 1>, dilations = array<i64: 1, 1>, groups = 1 : i64, channelsLast = false} : (tensor<2x3x1x1xf32>, tensor<4x3x3x3xf32>) -> tensor<2x4x1x1xf32>
  return %0 : tensor<2x4x1x1xf32>
}

// More than one position, no tap on the only one, and the position of an axis that ends as one.
// CHECK-LABEL: @refused
// CHECK-COUNT-3: tn.conv {{.*}} dilations = array<i64: {{[0-9]}}, 1>
func.func @refused(%x: tensor<1x3x1x6xf32>, %y: tensor<1x3x3x6xf32>) -> (tensor<1x4x3x6xf32>, tensor<1x4x1x6xf32>, tensor<1x4x1x6xf32>) {
  %w = tn.weight "r" : tensor<4x3x3x3xf32>
  %v = tn.weight "q" : tensor<4x3x2x3xf32>
  %0 = tn.conv %x, %w {strides = array<i64: 1, 1>, pads = array<i64: 2, 1, 2, 1>, dilations = array<i64: 1, 1>, groups = 1 : i64, channelsLast = false} : (tensor<1x3x1x6xf32>, tensor<4x3x3x3xf32>) -> tensor<1x4x3x6xf32>
  %1 = tn.conv %x, %v {strides = array<i64: 1, 1>, pads = array<i64: 1, 1, 1, 1>, dilations = array<i64: 2, 1>, groups = 1 : i64, channelsLast = false} : (tensor<1x3x1x6xf32>, tensor<4x3x2x3xf32>) -> tensor<1x4x1x6xf32>
  %2 = tn.conv %y, %w {strides = array<i64: 1, 1>, pads = array<i64: 0, 1, 0, 1>, dilations = array<i64: 1, 1>, groups = 1 : i64, channelsLast = false} : (tensor<1x3x3x6xf32>, tensor<4x3x3x3xf32>) -> tensor<1x4x1x6xf32>
  return %0, %1, %2 : tensor<1x4x3x6xf32>, tensor<1x4x1x6xf32>, tensor<1x4x1x6xf32>
}

// Weights of quantized numbers stay so without the axis.
// CHECK-LABEL: @quantized
func.func @quantized(%x: tensor<2x3x7x1xui8>, %s: tensor<f32>, %z: tensor<ui8>) -> tensor<2x4x7x1xf32> {
  // CHECK: %[[W:.*]] = tn.dequantize %{{.*}} {axis = 0 : i64} : (tensor<4x3x5xi8>, tensor<4xf32>, tensor<4xi8>) -> tensor<4x3x5xf32>
  // CHECK: tn.conv %{{.*}}, %[[W]]
  %w = tn.weight "w8" : tensor<4x3x5x1xi8>
  %t = tn.weight "t" : tensor<4xf32>
  %o = tn.weight "o" : tensor<4xi8>
  %0 = tn.dequantize %x, %s, %z {axis = 0 : i64} : (tensor<2x3x7x1xui8>, tensor<f32>, tensor<ui8>) -> tensor<2x3x7x1xf32>
  %1 = tn.dequantize %w, %t, %o {axis = 0 : i64} : (tensor<4x3x5x1xi8>, tensor<4xf32>, tensor<4xi8>) -> tensor<4x3x5x1xf32>
  %2 = tn.conv %0, %1 {strides = array<i64: 1, 1>, pads = array<i64: 2, 0, 2, 0>, dilations = array<i64: 1, 1>, groups = 1 : i64, channelsLast = false} : (tensor<2x3x7x1xf32>, tensor<4x3x5x1xf32>) -> tensor<2x4x7x1xf32>
  return %2 : tensor<2x4x7x1xf32>
}
