// RUN: %tenon-opt %s --pass=low-bit-weights --pass=round-activations | FileCheck %s

// Rows of a product by weights of few bits are rounded by blocks of the weights' size, for each product of its own.
// CHECK-LABEL: @two_products
func.func @two_products(%x: tensor<5x512xf32>) -> (tensor<5x1024xf32>, tensor<5x1024xf32>) {
  // CHECK: %[[W:.*]] = tn.decode_rows {{.*}} block = 256
  // CHECK: %[[A:.*]] = tn.round_blocks %arg0 {block = 256 : i64} : tensor<5x512xf32>
  // CHECK: tn.matmul %[[A]], %[[W]] {transposeB}
  // CHECK: %[[V:.*]] = tn.decode_rows {{.*}} block = 256
  // CHECK: %[[B:.*]] = tn.round_blocks %arg0 {block = 256 : i64} : tensor<5x512xf32>
  // CHECK: tn.matmul %[[B]], %[[V]] {transposeB}
  %w = tn.constant dense<100> : tensor<512x1024xui8> : tensor<512x1024xui8>
  %s = tn.constant dense<5.000000e-01> : tensor<f32> : tensor<f32>
  %z = tn.constant dense<97> : tensor<ui8> : tensor<ui8>
  %0 = tn.dequantize %w, %s, %z {axis = 0 : i64} : (tensor<512x1024xui8>, tensor<f32>, tensor<ui8>) -> tensor<512x1024xf32>
  %1 = tn.matmul %x, %0 : (tensor<5x512xf32>, tensor<512x1024xf32>) -> tensor<5x1024xf32>
  %2 = tn.matmul %x, %0 : (tensor<5x512xf32>, tensor<512x1024xf32>) -> tensor<5x1024xf32>
  return %1, %2 : tensor<5x1024xf32>, tensor<5x1024xf32>
}

// Products by floats stay, and those of 16-bit floats.
// CHECK-LABEL: @others
func.func @others(%x: tensor<5x512xf32>, %y: tensor<512x1024xf32>, %h: tensor<5x512xf16>) -> (tensor<5x1024xf32>, tensor<5x1024xf16>) {
  // CHECK-NOT: tn.round_blocks
  // CHECK: return
  %w = tn.constant dense<100> : tensor<512x1024xui8> : tensor<512x1024xui8>
  %s = tn.constant dense<5.000000e-01> : tensor<f32> : tensor<f32>
  %z = tn.constant dense<97> : tensor<ui8> : tensor<ui8>
  %0 = tn.dequantize %w, %s, %z {axis = 0 : i64} : (tensor<512x1024xui8>, tensor<f32>, tensor<ui8>) -> tensor<512x1024xf32>
  %1 = tn.cast %0 : (tensor<512x1024xf32>) -> tensor<512x1024xf16>
  %2 = tn.matmul %x, %y : (tensor<5x512xf32>, tensor<512x1024xf32>) -> tensor<5x1024xf32>
  %3 = tn.matmul %h, %1 : (tensor<5x512xf16>, tensor<512x1024xf16>) -> tensor<5x1024xf16>
  return %2, %3 : tensor<5x1024xf32>, tensor<5x1024xf16>
}
