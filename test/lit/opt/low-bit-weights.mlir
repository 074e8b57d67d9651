// RUN: %tenon-opt %s --pass=low-bit-weights --check | FileCheck %s

// Differences from the zero point that fit 4 bits are stored so, 8 bytes of numbers and one scale for 16 columns of the depth.
// CHECK-LABEL: @per_tensor
func.func @per_tensor(%x: tensor<5x512xf32>) -> tensor<5x1024xf32> {
  // CHECK: %[[R:.*]] = tn.weight {{.*}} : tensor<1024x264xui8>
  // CHECK: %[[W:.*]] = tn.decode_rows %[[R]] {bits = 4 : i64, block = 256 : i64, zero_points = false} : (tensor<1024x264xui8>) -> tensor<1024x512xf32>
  // CHECK: tn.matmul %arg0, %[[W]] {transposeB}
  // CHECK-NOT: tn.dequantize
  // CHECK: return
  %w = tn.constant dense<100> : tensor<512x1024xui8> : tensor<512x1024xui8>
  %s = tn.constant dense<5.000000e-01> : tensor<f32> : tensor<f32>
  %z = tn.constant dense<97> : tensor<ui8> : tensor<ui8>
  %0 = tn.dequantize %w, %s, %z {axis = 0 : i64} : (tensor<512x1024xui8>, tensor<f32>, tensor<ui8>) -> tensor<512x1024xf32>
  %1 = tn.matmul %x, %0 : (tensor<5x512xf32>, tensor<512x1024xf32>) -> tensor<5x1024xf32>
  return %1 : tensor<5x1024xf32>
}

// Blocks of 32 behind a reshape, an end that is cut off, and a cast; numbers of 8 bits whose differences need more keep zero points.
// CHECK-LABEL: @blocks
func.func @blocks(%x: tensor<3x50xf16>) -> tensor<3x4096xf16> {
  // CHECK: tn.decode_rows {{.*}} {bits = 8 : i64, block = 32 : i64, zero_points = true} : (tensor<4096x68xui8>) -> tensor<4096x50xf16>
  // CHECK-NOT: tn.dequantize
  // CHECK: return
  %w = tn.constant dense<200> : tensor<8192x32xui8> : tensor<8192x32xui8>
  %s = tn.constant dense<5.000000e-01> : tensor<8192xf32> : tensor<8192xf32>
  %z = tn.constant dense<3> : tensor<8192xui8> : tensor<8192xui8>
  %0 = tn.dequantize %w, %s, %z {axis = 0 : i64} : (tensor<8192x32xui8>, tensor<8192xf32>, tensor<8192xui8>) -> tensor<8192x32xf32>
  %1 = tn.reshape %0 : (tensor<8192x32xf32>) -> tensor<4096x64xf32>
  %2 = tn.slice %1 {starts = affine_map<() -> (0, 0)>, steps = array<i64: 1, 1>} : (tensor<4096x64xf32>) -> tensor<4096x50xf32>
  %3 = tn.cast %2 : (tensor<4096x50xf32>) -> tensor<4096x50xf16>
  %4 = tn.matmul %x, %3 {transposeB} : (tensor<3x50xf16>, tensor<4096x50xf16>) -> tensor<3x4096xf16>
  return %4 : tensor<3x4096xf16>
}

// A scale for each index of the depth makes no blocks: such weights become floats.
// CHECK-LABEL: @along_the_depth
func.func @along_the_depth(%x: tensor<3x8xf32>) -> tensor<3x65536xf32> {
  // CHECK: tn.matmul %arg0, {{.*}} : (tensor<3x8xf32>, tensor<8x65536xf32>)
  // CHECK-NOT: tn.dequantize
  // CHECK: return
  %w = tn.constant dense<7> : tensor<8x65536xi8> : tensor<8x65536xi8>
  %s = tn.constant dense<[1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0]> : tensor<8xf32> : tensor<8xf32>
  %z = tn.constant dense<0> : tensor<8xi8> : tensor<8xi8>
  %0 = tn.dequantize %w, %s, %z {axis = 0 : i64} : (tensor<8x65536xi8>, tensor<8xf32>, tensor<8xi8>) -> tensor<8x65536xf32>
  %1 = tn.matmul %x, %0 : (tensor<3x8xf32>, tensor<8x65536xf32>) -> tensor<3x65536xf32>
  return %1 : tensor<3x65536xf32>
}

// More rows of bf16 than few are bound by arithmetic, for which levels have instructions.
// CHECK-LABEL: @many_rows_of_bf16
func.func @many_rows_of_bf16(%x: tensor<9x512xbf16>, %y: tensor<8x512xbf16>) -> (tensor<9x1024xbf16>, tensor<8x1024xbf16>) {
  // CHECK: tn.matmul %arg0, {{.*}} : (tensor<9x512xbf16>, tensor<512x1024xbf16>)
  // CHECK: %[[D:.*]] = tn.decode_rows {{.*}} -> tensor<1024x512xbf16>
  // CHECK: tn.matmul %arg1, %[[D]] {transposeB}
  %w = tn.constant dense<7> : tensor<512x1024xi8> : tensor<512x1024xi8>
  %s = tn.constant dense<5.000000e-01> : tensor<f32> : tensor<f32>
  %z = tn.constant dense<0> : tensor<i8> : tensor<i8>
  %0 = tn.dequantize %w, %s, %z {axis = 0 : i64} : (tensor<512x1024xi8>, tensor<f32>, tensor<i8>) -> tensor<512x1024xf32>
  %1 = tn.cast %0 : (tensor<512x1024xf32>) -> tensor<512x1024xbf16>
  %2 = tn.matmul %x, %1 : (tensor<9x512xbf16>, tensor<512x1024xbf16>) -> tensor<9x1024xbf16>
  %3 = tn.matmul %y, %1 : (tensor<8x512xbf16>, tensor<512x1024xbf16>) -> tensor<8x1024xbf16>
  return %2, %3 : tensor<9x1024xbf16>, tensor<8x1024xbf16>
}
