// RUN: %tenon-opt %s --pass=fold-batch-norm --check | FileCheck %s

// CHECK-LABEL: @conv
func.func @conv(%x: tensor<1x2x5x5xf32>) -> tensor<1x4x5x5xf32> {
  // CHECK-DAG: %[[W:.*]] = tn.weight "w.folded" : tensor<4x2x3x3xf32>
  // CHECK-DAG: %[[B:.*]] = tn.constant dense<{{.*}}> : tensor<4xf32>
  // CHECK: %[[Y:.*]] = tn.conv %arg0, %[[W]] bias %[[B]]
  // CHECK-NEXT: return %[[Y]]
  %w = tn.weight "w" : tensor<4x2x3x3xf32>
  %gamma = tn.weight "gamma" : tensor<4xf32>
  %beta = tn.weight "beta" : tensor<4xf32>
  %mean = tn.weight "mean" : tensor<4xf32>
  %var = tn.weight "var" : tensor<4xf32>
  %0 = tn.conv %x, %w {strides = array<i64: 1, 1>, pads = array<i64: 1, 1, 1, 1>, dilations = array<i64: 1, 1>, groups = 1 : i64, channelsLast = false} : (tensor<1x2x5x5xf32>, tensor<4x2x3x3xf32>) -> tensor<1x4x5x5xf32>
  %1 = tn.batch_norm %0, %gamma, %beta, %mean, %var {epsilon = 1.0e-05 : f64, channelsLast = false} : (tensor<1x4x5x5xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) -> tensor<1x4x5x5xf32>
  return %1 : tensor<1x4x5x5xf32>
}
// -----
// Depthwise, with a bias, f16, a symbolic batch.
#x = #tn.shape<()[s0] -> (s0, 4, 5)>
module attributes {tn.symbols = [#tn.symbol<"n", 1, 8>]} {
// CHECK-LABEL: @depthwise
func.func @depthwise(%x: tensor<?x4x5xf16, #x>) -> tensor<?x4x5xf16, #x> {
  // CHECK: %[[Y:.*]] = tn.conv
  // CHECK-SAME: groups = 4
  // CHECK-NEXT: return %[[Y]]
  %w = tn.weight "w" : tensor<4x1x3xf16>
  %b = tn.weight "b" : tensor<4xf16>
  %gamma = tn.weight "gamma" : tensor<4xf16>
  %beta = tn.weight "beta" : tensor<4xf16>
  %mean = tn.weight "mean" : tensor<4xf16>
  %var = tn.weight "var" : tensor<4xf16>
  %0 = tn.conv %x, %w bias %b {strides = array<i64: 1>, pads = array<i64: 1, 1>, dilations = array<i64: 1>, groups = 4 : i64, channelsLast = false} : (tensor<?x4x5xf16, #x>, tensor<4x1x3xf16>, tensor<4xf16>) -> tensor<?x4x5xf16, #x>
  %1 = tn.batch_norm %0, %gamma, %beta, %mean, %var {epsilon = 1.0e-05 : f64, channelsLast = false} : (tensor<?x4x5xf16, #x>, tensor<4xf16>, tensor<4xf16>, tensor<4xf16>, tensor<4xf16>) -> tensor<?x4x5xf16, #x>
  return %1 : tensor<?x4x5xf16, #x>
}
}
// -----
// A product with a transposed weight and a bias in front.
// CHECK-LABEL: @matmul
func.func @matmul(%x: tensor<3x2xf32>) -> tensor<3x4xf32> {
  // CHECK: %[[P:.*]] = tn.matmul %arg0, %{{.*}} {transposeB}
  // CHECK: %[[Y:.*]] = tn.add %[[P]]
  // CHECK-NEXT: return %[[Y]]
  %w = tn.weight "w" : tensor<4x2xf32>
  %b = tn.weight "b" : tensor<4xf32>
  %gamma = tn.weight "gamma" : tensor<4xf32>
  %beta = tn.weight "beta" : tensor<4xf32>
  %mean = tn.weight "mean" : tensor<4xf32>
  %var = tn.weight "var" : tensor<4xf32>
  %0 = tn.matmul %x, %w {transposeB} : (tensor<3x2xf32>, tensor<4x2xf32>) -> tensor<3x4xf32>
  %1 = tn.add %b, %0 : (tensor<4xf32>, tensor<3x4xf32>) -> tensor<3x4xf32>
  %2 = tn.batch_norm %1, %gamma, %beta, %mean, %var {epsilon = 1.0e-05 : f64, channelsLast = false} : (tensor<3x4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) -> tensor<3x4xf32>
  return %2 : tensor<3x4xf32>
}
// -----
// The convolution has another reader and keeps its weights.
// CHECK-LABEL: @shared
func.func @shared(%x: tensor<1x2x5x5xf32>) -> (tensor<1x4x5x5xf32>, tensor<1x4x5x5xf32>) {
  // CHECK: %[[C:.*]] = tn.conv %arg0, %{{[^ ]*}} {
  // CHECK: %[[M:.*]] = tn.mul %[[C]], %{{.*}} : (tensor<1x4x5x5xf32>, tensor<4x1x1xf32>)
  // CHECK: %[[Y:.*]] = tn.add %[[M]], %{{.*}} : (tensor<1x4x5x5xf32>, tensor<4x1x1xf32>)
  // CHECK-NEXT: return %[[Y]], %[[C]]
  %w = tn.weight "w" : tensor<4x2x3x3xf32>
  %gamma = tn.weight "gamma" : tensor<4xf32>
  %beta = tn.weight "beta" : tensor<4xf32>
  %mean = tn.weight "mean" : tensor<4xf32>
  %var = tn.weight "var" : tensor<4xf32>
  %0 = tn.conv %x, %w {strides = array<i64: 1, 1>, pads = array<i64: 1, 1, 1, 1>, dilations = array<i64: 1, 1>, groups = 1 : i64, channelsLast = false} : (tensor<1x2x5x5xf32>, tensor<4x2x3x3xf32>) -> tensor<1x4x5x5xf32>
  %1 = tn.batch_norm %0, %gamma, %beta, %mean, %var {epsilon = 1.0e-05 : f64, channelsLast = false} : (tensor<1x4x5x5xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) -> tensor<1x4x5x5xf32>
  return %1, %0 : tensor<1x4x5x5xf32>, tensor<1x4x5x5xf32>
}
// -----
// Parameters that are not constants: nothing can be computed now.
// CHECK-LABEL: @parameters
func.func @parameters(%x: tensor<1x4x5xf32>, %gamma: tensor<4xf32>) -> tensor<1x4x5xf32> {
  // CHECK: tn.batch_norm
  %beta = tn.weight "beta" : tensor<4xf32>
  %0 = tn.batch_norm %x, %gamma, %beta, %beta, %beta {epsilon = 1.0e-05 : f64, channelsLast = false} : (tensor<1x4x5xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) -> tensor<1x4x5xf32>
  return %0 : tensor<1x4x5xf32>
}
// -----
// No channels at all: nothing to divide by.
// CHECK-LABEL: @empty
func.func @empty(%x: tensor<1x2x5xf32>) -> tensor<1x0x5xf32> {
  // CHECK: tn.batch_norm
  %w = tn.constant dense<> : tensor<0x2x1xf32> : tensor<0x2x1xf32>
  %p = tn.constant dense<> : tensor<0xf32> : tensor<0xf32>
  %0 = tn.conv %x, %w {strides = array<i64: 1>, pads = array<i64: 0, 0>, dilations = array<i64: 1>, groups = 1 : i64, channelsLast = false} : (tensor<1x2x5xf32>, tensor<0x2x1xf32>) -> tensor<1x0x5xf32>
  %1 = tn.batch_norm %0, %p, %p, %p, %p {epsilon = 1.0e-05 : f64, channelsLast = false} : (tensor<1x0x5xf32>, tensor<0xf32>, tensor<0xf32>, tensor<0xf32>, tensor<0xf32>) -> tensor<1x0x5xf32>
  return %1 : tensor<1x0x5xf32>
}
