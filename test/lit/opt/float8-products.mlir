// RUN: %tenon-opt %s --pass=float8-products | FileCheck %s

// A norm's rows have a length of at most sqrt(64) times its scales, and its elements no more: 8 or 2^3. So
// they are multiplied by 32 at most; weights of at most 1 by 256.
// CHECK-LABEL: @norm
func.func @norm(%x: tensor<32x64xf16>) -> tensor<32x16xf16> {
  // CHECK-DAG: %[[N:.*]] = tn.rms_norm
  // CHECK-DAG: %[[F:.*]] = tn.constant dense<3.200000e+01>
  // CHECK: %[[S:.*]] = tn.mul %[[N]], %[[F]]
  // CHECK: %[[Q:.*]] = tn.encode %[[S]] : (tensor<32x64xf16>) -> tensor<32x64xf8E4M3FN>
  // CHECK: %[[D:.*]] = tn.decode %[[Q]]
  // CHECK: %[[A:.*]] = tn.mul %[[D]]
  // CHECK: %[[W:.*]] = tn.decode {{.*}} : (tensor<16x64xf8E4M3FN>) -> tensor<16x64xf16>
  // CHECK: %[[B:.*]] = tn.mul %[[W]]
  // CHECK: tn.matmul %[[A]], %[[B]] {tn.float8, transposeB}
  %g = tn.constant dense<1.0> : tensor<64xf16> : tensor<64xf16>
  %w = tn.constant dense<1.0> : tensor<64x16xf16> : tensor<64x16xf16>
  %0 = tn.rms_norm %x scale %g {axis = 1 : i64, epsilon = 1.0e-6 : f64} : (tensor<32x64xf16>, tensor<64xf16>) -> tensor<32x64xf16>
  %1 = tn.matmul %0, %w : (tensor<32x64xf16>, tensor<64x16xf16>) -> tensor<32x16xf16>
  return %1 : tensor<32x16xf16>
}
// -----
// Nothing bounds an input; columns of 24 are no multiple of 16.
// CHECK-LABEL: @stays
func.func @stays(%x: tensor<32x64xf16>) -> (tensor<32x16xf16>, tensor<32x24xf16>) {
  // CHECK-NOT: tn.encode
  %w = tn.constant dense<1.0> : tensor<64x16xf16> : tensor<64x16xf16>
  %v = tn.constant dense<1.0> : tensor<64x24xf16> : tensor<64x24xf16>
  %0 = tn.matmul %x, %w : (tensor<32x64xf16>, tensor<64x16xf16>) -> tensor<32x16xf16>
  %1 = tn.rms_norm %x {axis = 1 : i64, epsilon = 1.0e-6 : f64} : (tensor<32x64xf16>) -> tensor<32x64xf16>
  %2 = tn.matmul %1, %v : (tensor<32x64xf16>, tensor<64x24xf16>) -> tensor<32x24xf16>
  return %0, %2 : tensor<32x16xf16>, tensor<32x24xf16>
}
// -----
// As a quantizer writes it: one scale of x, one of each column of the weights, f32 around them.
// CHECK-LABEL: @quantized
func.func @quantized(%x: tensor<32x64xf32>) -> tensor<32x16xf32> {
  // CHECK-DAG: %[[Q:.*]] = tn.encode
  // CHECK-DAG: %[[D:.*]] = tn.decode %[[Q]]
  // CHECK-DAG: %[[W:.*]] = tn.decode {{.*}} : (tensor<16x64xf8E4M3FN>) -> tensor<16x64xf32>
  // CHECK: %[[P:.*]] = tn.matmul {{.*}}, %[[W]] {tn.float8, transposeB}
  // CHECK: tn.mul %[[P]], {{.*}} : (tensor<32x16xf32>, tensor<16xf32>)
  %s = tn.constant dense<0.5> : tensor<f32> : tensor<f32>
  %c = tn.constant dense<[0.25, 0.5, 1.0, 2.0, 0.25, 0.5, 1.0, 2.0, 0.25, 0.5, 1.0, 2.0, 0.25, 0.5, 1.0, 2.0]> : tensor<16xf32> : tensor<16xf32>
  %w = tn.constant dense<1.0> : tensor<64x16xf8E4M3FN> : tensor<64x16xf8E4M3FN>
  %0 = tn.div %x, %s : (tensor<32x64xf32>, tensor<f32>) -> tensor<32x64xf32>
  %1 = tn.encode %0 : (tensor<32x64xf32>) -> tensor<32x64xf8E4M3FN>
  %2 = tn.decode %1 : (tensor<32x64xf8E4M3FN>) -> tensor<32x64xf32>
  %3 = tn.mul %2, %s : (tensor<32x64xf32>, tensor<f32>) -> tensor<32x64xf32>
  %4 = tn.decode %w : (tensor<64x16xf8E4M3FN>) -> tensor<64x16xf32>
  %5 = tn.mul %4, %c : (tensor<64x16xf32>, tensor<16xf32>) -> tensor<64x16xf32>
  %6 = tn.matmul %3, %5 : (tensor<32x64xf32>, tensor<64x16xf32>) -> tensor<32x16xf32>
  return %6 : tensor<32x16xf32>
}
