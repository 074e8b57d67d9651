// RUN: %tenon-opt %s --pass=low-bit-weights-of-gpu | FileCheck %s

// Few rows of 16-bit floats read weights of 4 bits as they are; blocks are whole panels of 32.
// CHECK-LABEL: @few
func.func @few(%x: tensor<16x64xf16>) -> tensor<16x8xf16> {
  // CHECK: %[[W:.*]] = tn.decode_rows {{.*}} {bits = 4 : i64, block = 64 : i64, zero_points = false} : {{.*}} -> tensor<8x64xf16>
  // CHECK: tn.matmul %arg0, %[[W]] {transposeB}
  %s = tn.constant dense<0.5> : tensor<f32> : tensor<f32>
  %z = tn.constant dense<0> : tensor<i8> : tensor<i8>
  %w = tn.constant dense<3> : tensor<64x8xi8> : tensor<64x8xi8>
  %0 = tn.dequantize %w, %s, %z {axis = 0 : i64} : (tensor<64x8xi8>, tensor<f32>, tensor<i8>) -> tensor<64x8xf32>
  %1 = tn.cast %0 : (tensor<64x8xf32>) -> tensor<64x8xf16>
  %2 = tn.matmul %x, %1 : (tensor<16x64xf16>, tensor<64x8xf16>) -> tensor<16x8xf16>
  return %2 : tensor<16x8xf16>
}
// -----
// More rows are multiplied by floats, and so are depths that are no whole panels.
// CHECK-LABEL: @many
func.func @many(%x: tensor<17x64xf16>, %y: tensor<1x48xf16>) -> (tensor<17x8xf16>, tensor<1x8xf16>) {
  // CHECK-NOT: tn.decode_rows
  %s = tn.constant dense<0.5> : tensor<f32> : tensor<f32>
  %z = tn.constant dense<0> : tensor<i8> : tensor<i8>
  %w = tn.constant dense<3> : tensor<64x8xi8> : tensor<64x8xi8>
  %v = tn.constant dense<3> : tensor<48x8xi8> : tensor<48x8xi8>
  %0 = tn.dequantize %w, %s, %z {axis = 0 : i64} : (tensor<64x8xi8>, tensor<f32>, tensor<i8>) -> tensor<64x8xf32>
  %1 = tn.cast %0 : (tensor<64x8xf32>) -> tensor<64x8xf16>
  %2 = tn.matmul %x, %1 : (tensor<17x64xf16>, tensor<64x8xf16>) -> tensor<17x8xf16>
  %3 = tn.dequantize %v, %s, %z {axis = 0 : i64} : (tensor<48x8xi8>, tensor<f32>, tensor<i8>) -> tensor<48x8xf32>
  %4 = tn.cast %3 : (tensor<48x8xf32>) -> tensor<48x8xf16>
  %5 = tn.matmul %y, %4 : (tensor<1x48xf16>, tensor<48x8xf16>) -> tensor<1x8xf16>
  return %2, %5 : tensor<17x8xf16>, tensor<1x8xf16>
}
