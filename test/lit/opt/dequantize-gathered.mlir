// RUN: %tenon-opt %s --pass=simplify --check | FileCheck %s

// Of one scale the numbers are gathered, and dequantized behind; the table stays 8 bits wide.
// CHECK-LABEL: @one_scale
func.func @one_scale(%i: tensor<3xi64>) -> tensor<3x64xf32> {
  // CHECK: %[[G:.*]] = tn.gather %{{.*}}, %arg0 {axis = 0 : i64} : (tensor<2000x64xi8>, tensor<3xi64>) -> tensor<3x64xi8>
  // CHECK: tn.dequantize %[[G]]
  %w = tn.constant dense<5> : tensor<2000x64xi8> : tensor<2000x64xi8>
  %s = tn.constant dense<5.000000e-01> : tensor<f32> : tensor<f32>
  %z = tn.constant dense<3> : tensor<i8> : tensor<i8>
  %0 = tn.dequantize %w, %s, %z {axis = 0 : i64} : (tensor<2000x64xi8>, tensor<f32>, tensor<i8>) -> tensor<2000x64xf32>
  %1 = tn.gather %0, %i {axis = 0 : i64} : (tensor<2000x64xf32>, tensor<3xi64>) -> tensor<3x64xf32>
  return %1 : tensor<3x64xf32>
}

// Of a scale for each row the scales are gathered too; of one for each column the axis moves with the rank of the indices.
// CHECK-LABEL: @rows_and_columns
func.func @rows_and_columns(%i: tensor<3x2xi64>) -> (tensor<3x2x64xf32>, tensor<3x2x64xf32>) {
  // CHECK: tn.gather {{.*}} (tensor<2000xf32>, tensor<3x2xi64>) -> tensor<3x2xf32>
  // CHECK: tn.dequantize {{.*}} {axis = 2 : i64} : (tensor<3x2x64xi8>, tensor<64xf32>, tensor<64xi8>)
  // CHECK-NOT: tensor<2000x64xf32>
  // CHECK: return
  %w = tn.constant dense<5> : tensor<2000x64xi8> : tensor<2000x64xi8>
  %s = tn.weight "rows" : tensor<2000xf32>
  %z = tn.constant dense<3> : tensor<2000xi8> : tensor<2000xi8>
  %0 = tn.dequantize %w, %s, %z {axis = 0 : i64} : (tensor<2000x64xi8>, tensor<2000xf32>, tensor<2000xi8>) -> tensor<2000x64xf32>
  %1 = tn.gather %0, %i {axis = 0 : i64} : (tensor<2000x64xf32>, tensor<3x2xi64>) -> tensor<3x2x64xf32>
  %t = tn.constant dense<5.000000e-01> : tensor<64xf32> : tensor<64xf32>
  %u = tn.constant dense<3> : tensor<64xi8> : tensor<64xi8>
  %2 = tn.dequantize %w, %t, %u {axis = 1 : i64} : (tensor<2000x64xi8>, tensor<64xf32>, tensor<64xi8>) -> tensor<2000x64xf32>
  %3 = tn.gather %2, %i {axis = 0 : i64} : (tensor<2000x64xf32>, tensor<3x2xi64>) -> tensor<3x2x64xf32>
  return %1, %3 : tensor<3x2x64xf32>, tensor<3x2x64xf32>
}
