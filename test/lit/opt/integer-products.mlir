// RUN: %tenon-opt %s --pass=integer-products --check | FileCheck %s

// Scales multiply behind the sums, the zero point by the sums of columns is taken off: 3 * (5, 7, -9).
// CHECK-LABEL: @per_tensor
func.func @per_tensor(%x: tensor<5x2xf32>) -> tensor<5x3xf32> {
  // CHECK: %[[Q:.*]] = tn.quantize %arg0
  // CHECK: %[[S:.*]] = tn.matmul %[[Q]], {{.*}} : (tensor<5x2xui8>, tensor<2x3xi8>) -> tensor<5x3xi32>
  // CHECK: tn.sub %[[S]]
  // CHECK: tn.cast {{.*}} -> tensor<5x3xf32>
  // CHECK-NOT: dequantize
  // CHECK: return
  %s = tn.constant dense<5.000000e-01> : tensor<f32> : tensor<f32>
  %z = tn.constant dense<3> : tensor<ui8> : tensor<ui8>
  %t = tn.constant dense<2.500000e-01> : tensor<f32> : tensor<f32>
  %o = tn.constant dense<0> : tensor<i8> : tensor<i8>
  %w = tn.constant dense<[[1, 2, -3], [4, 5, -6]]> : tensor<2x3xi8> : tensor<2x3xi8>
  %0 = tn.quantize %x, %s, %z {axis = 0 : i64} : (tensor<5x2xf32>, tensor<f32>, tensor<ui8>) -> tensor<5x2xui8>
  %1 = tn.dequantize %0, %s, %z {axis = 0 : i64} : (tensor<5x2xui8>, tensor<f32>, tensor<ui8>) -> tensor<5x2xf32>
  %2 = tn.dequantize %w, %t, %o {axis = 0 : i64} : (tensor<2x3xi8>, tensor<f32>, tensor<i8>) -> tensor<2x3xf32>
  %3 = tn.matmul %1, %2 : (tensor<5x2xf32>, tensor<2x3xf32>) -> tensor<5x3xf32>
  return %3 : tensor<5x3xf32>
}

// Signed numbers are quantized as unsigned ones at once, also through what moves them; a scale for each column.
// CHECK-LABEL: @signed_per_column
func.func @signed_per_column(%x: tensor<2x5xf32>) -> tensor<5x3xf32> {
  // CHECK: %[[Q:.*]] = tn.quantize %arg0, {{.*}} -> tensor<2x5xui8>
  // CHECK: %[[T:.*]] = tn.transpose %[[Q]]
  // CHECK: tn.matmul %[[T]], {{.*}} {transposeB} : (tensor<5x2xui8>, tensor<3x2xi8>) -> tensor<5x3xi32>
  %s = tn.constant dense<5.000000e-01> : tensor<f32> : tensor<f32>
  %z = tn.constant dense<-7> : tensor<i8> : tensor<i8>
  %t = tn.constant dense<[2.500000e-01, 1.000000e+00, 3.000000e+00]> : tensor<3xf32> : tensor<3xf32>
  %o = tn.constant dense<[0, 1, -2]> : tensor<3xi8> : tensor<3xi8>
  %w = tn.constant dense<[[1, 2], [-3, 4], [5, -6]]> : tensor<3x2xi8> : tensor<3x2xi8>
  %0 = tn.quantize %x, %s, %z {axis = 0 : i64} : (tensor<2x5xf32>, tensor<f32>, tensor<i8>) -> tensor<2x5xi8>
  %1 = tn.dequantize %0, %s, %z {axis = 0 : i64} : (tensor<2x5xi8>, tensor<f32>, tensor<i8>) -> tensor<2x5xf32>
  %2 = tn.transpose %1 [1, 0] : (tensor<2x5xf32>) -> tensor<5x2xf32>
  %3 = tn.dequantize %w, %t, %o {axis = 0 : i64} : (tensor<3x2xi8>, tensor<3xf32>, tensor<3xi8>) -> tensor<3x2xf32>
  %4 = tn.matmul %2, %3 {transposeB} : (tensor<5x2xf32>, tensor<3x2xf32>) -> tensor<5x3xf32>
  return %4 : tensor<5x3xf32>
}

// Columns that no s8 holds less their zero point are moved down, and the sums of rows make up for it.
// CHECK-LABEL: @unsigned_weights
func.func @unsigned_weights(%x: tensor<5x2xui8>, %z: tensor<5x1xi32>) -> tensor<5x3xi32> {
  // CHECK: tn.matmul %arg0, {{.*}} : (tensor<5x2xui8>, tensor<2x3xi8>) -> tensor<5x3xi32>
  // CHECK: tn.mul {{.*}}(tensor<5x1xi32>, tensor<3xi32>) -> tensor<5x3xi32>
  // CHECK: tn.reduce <sum>
  %w = tn.constant dense<[[1, 2, 250], [4, 5, 100]]> : tensor<2x3xi32> : tensor<2x3xi32>
  %0 = tn.cast %x : (tensor<5x2xui8>) -> tensor<5x2xi32>
  %1 = tn.sub %0, %z : (tensor<5x2xi32>, tensor<5x1xi32>) -> tensor<5x2xi32>
  %2 = tn.matmul %1, %w : (tensor<5x2xi32>, tensor<2x3xi32>) -> tensor<5x3xi32>
  return %2 : tensor<5x3xi32>
}

// Not where a scale belongs to an index of the depth, nor of wider numbers.
// CHECK-LABEL: @left
func.func @left(%x: tensor<5x2xui8>, %h: tensor<5x2xi16>) -> (tensor<5x3xf32>, tensor<5x3xi32>) {
  // CHECK: tn.matmul {{.*}} -> tensor<5x3xf32>
  // CHECK: tn.matmul {{.*}} : (tensor<5x2xi32>, tensor<2x3xi32>)
  %s = tn.constant dense<[5.000000e-01, 1.000000e+00]> : tensor<2xf32> : tensor<2xf32>
  %z = tn.constant dense<[3, 4]> : tensor<2xui8> : tensor<2xui8>
  %t = tn.constant dense<2.500000e-01> : tensor<f32> : tensor<f32>
  %o = tn.constant dense<0> : tensor<i8> : tensor<i8>
  %w = tn.constant dense<[[1, 2, -3], [4, 5, -6]]> : tensor<2x3xi8> : tensor<2x3xi8>
  %wide = tn.constant dense<[[1, 2, -3], [4, 5, -6]]> : tensor<2x3xi32> : tensor<2x3xi32>
  %0 = tn.dequantize %x, %s, %z {axis = 1 : i64} : (tensor<5x2xui8>, tensor<2xf32>, tensor<2xui8>) -> tensor<5x2xf32>
  %1 = tn.dequantize %w, %t, %o {axis = 0 : i64} : (tensor<2x3xi8>, tensor<f32>, tensor<i8>) -> tensor<2x3xf32>
  %2 = tn.matmul %0, %1 : (tensor<5x2xf32>, tensor<2x3xf32>) -> tensor<5x3xf32>
  %6 = tn.cast %h : (tensor<5x2xi16>) -> tensor<5x2xi32>
  %7 = tn.matmul %6, %wide : (tensor<5x2xi32>, tensor<2x3xi32>) -> tensor<5x3xi32>
  return %2, %7 : tensor<5x3xf32>, tensor<5x3xi32>
}

// Two computed operands: the second as s8, sums of rows less its zero point, sums of columns less the first's.
// CHECK-LABEL: @computed
func.func @computed(%x: tensor<4x5x2xui8>, %v: tensor<4x3x2xui8>) -> tensor<4x5x3xf32> {
  // CHECK-DAG: %[[SHIFT:.*]] = tn.constant dense<-128> : tensor<i32>
  // CHECK: tn.add {{.*}} : (tensor<4x3x2xi32>, tensor<i32>)
  // CHECK: %[[SUMS:.*]] = tn.matmul {{.*}} {transposeB} : (tensor<4x5x2xui8>, tensor<4x3x2xi8>) -> tensor<4x5x3xi32>
  // CHECK: tn.reduce {{.*}} -> tensor<4x5x1xi32>
  // CHECK: tn.reduce {{.*}} -> tensor<4x3x1xi32>
  %s = tn.constant dense<2.500000e-01> : tensor<f32> : tensor<f32>
  %u = tn.constant dense<9> : tensor<ui8> : tensor<ui8>
  %0 = tn.dequantize %x, %s, %u {axis = 0 : i64} : (tensor<4x5x2xui8>, tensor<f32>, tensor<ui8>) -> tensor<4x5x2xf32>
  %1 = tn.dequantize %v, %s, %u {axis = 0 : i64} : (tensor<4x3x2xui8>, tensor<f32>, tensor<ui8>) -> tensor<4x3x2xf32>
  %2 = tn.matmul %0, %1 {transposeB} : (tensor<4x5x2xf32>, tensor<4x3x2xf32>) -> tensor<4x5x3xf32>
  return %2 : tensor<4x5x3xf32>
}
