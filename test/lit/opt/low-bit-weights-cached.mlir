// RUN: %tenon-opt %s --pass=low-bit-weights --check | FileCheck %s

// Weights that stay in a core's cache as floats become floats.
// CHECK-LABEL: @in_the_cache
func.func @in_the_cache(%x: tensor<3x64xf32>) -> tensor<3x32xf32> {
  // CHECK-NOT: decode_rows
  // CHECK-NOT: tn.dequantize
  // CHECK: tn.matmul %arg0, {{.*}} : (tensor<3x64xf32>, tensor<64x32xf32>)
  %w = tn.constant dense<100> : tensor<64x32xui8> : tensor<64x32xui8>
  %s = tn.constant dense<5.000000e-01> : tensor<f32> : tensor<f32>
  %z = tn.constant dense<97> : tensor<ui8> : tensor<ui8>
  %0 = tn.dequantize %w, %s, %z {axis = 0 : i64} : (tensor<64x32xui8>, tensor<f32>, tensor<ui8>) -> tensor<64x32xf32>
  %1 = tn.matmul %x, %0 : (tensor<3x64xf32>, tensor<64x32xf32>) -> tensor<3x32xf32>
  return %1 : tensor<3x32xf32>
}
