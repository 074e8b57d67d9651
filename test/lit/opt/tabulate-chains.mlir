// RUN: %tenon-opt %s --pass=tabulate-chains --check | FileCheck %s
// Elementwise operations between 8-bit numbers, with a slow one or several quantizations among them, are a table; through quantized steps too.

// CHECK-LABEL: @steps
func.func @steps(%x: tensor<5x6xui8>) -> tensor<5x6xi8> {
  // CHECK: %[[TABLE:.*]] = tn.weight {{.*}} : tensor<256xi8>
  // CHECK: %[[INDEX:.*]] = tn.cast %arg0 : (tensor<5x6xui8>)
  // CHECK: %[[Y:.*]] = tn.gather %[[TABLE]], %[[INDEX]] {axis = 0 : i64}
  // CHECK: return %[[Y]]
  %s = tn.constant dense<2.500000e-01> : tensor<f32> : tensor<f32>
  %u = tn.constant dense<9> : tensor<ui8> : tensor<ui8>
  %o = tn.constant dense<-3> : tensor<i8> : tensor<i8>
  %0 = tn.dequantize %x, %s, %u {axis = 0 : i64} : (tensor<5x6xui8>, tensor<f32>, tensor<ui8>) -> tensor<5x6xf32>
  %1 = tn.sigmoid %0 : tensor<5x6xf32>
  %2 = tn.quantize %1, %s, %u {axis = 0 : i64} : (tensor<5x6xf32>, tensor<f32>, tensor<ui8>) -> tensor<5x6xui8>
  %3 = tn.dequantize %2, %s, %u {axis = 0 : i64} : (tensor<5x6xui8>, tensor<f32>, tensor<ui8>) -> tensor<5x6xf32>
  %4 = tn.mul %0, %3 : (tensor<5x6xf32>, tensor<5x6xf32>) -> tensor<5x6xf32>
  %5 = tn.quantize %4, %s, %o {axis = 0 : i64} : (tensor<5x6xf32>, tensor<f32>, tensor<i8>) -> tensor<5x6xi8>
  return %5 : tensor<5x6xi8>
}

// Not of one quantization without a slow operation, nor of two tensors, nor of a value that is not 8 bits in the end.
// CHECK-LABEL: @left
func.func @left(%x: tensor<6xui8>, %y: tensor<6xui8>) -> (tensor<6xui8>, tensor<6xui8>, tensor<6xf32>) {
  // CHECK-NOT: tn.gather
  %s = tn.constant dense<2.500000e-01> : tensor<f32> : tensor<f32>
  %u = tn.constant dense<9> : tensor<ui8> : tensor<ui8>
  %0 = tn.dequantize %x, %s, %u {axis = 0 : i64} : (tensor<6xui8>, tensor<f32>, tensor<ui8>) -> tensor<6xf32>
  %1 = tn.relu %0 : tensor<6xf32>
  %2 = tn.quantize %1, %s, %u {axis = 0 : i64} : (tensor<6xf32>, tensor<f32>, tensor<ui8>) -> tensor<6xui8>
  %3 = tn.dequantize %y, %s, %u {axis = 0 : i64} : (tensor<6xui8>, tensor<f32>, tensor<ui8>) -> tensor<6xf32>
  %4 = tn.tanh %0 : tensor<6xf32>
  %5 = tn.add %3, %4 : (tensor<6xf32>, tensor<6xf32>) -> tensor<6xf32>
  %6 = tn.quantize %5, %s, %u {axis = 0 : i64} : (tensor<6xf32>, tensor<f32>, tensor<ui8>) -> tensor<6xui8>
  return %2, %6, %4 : tensor<6xui8>, tensor<6xui8>, tensor<6xf32>
}

// A constant of one element is one number, whatever its rank is.
// CHECK-LABEL: @constant
func.func @constant(%x: tensor<5x6xui8>) -> tensor<5x6xui8> {
  // CHECK: tn.gather
  %s = tn.constant dense<2.500000e-01> : tensor<f32> : tensor<f32>
  %u = tn.constant dense<9> : tensor<ui8> : tensor<ui8>
  %c = tn.constant dense<1.500000e+00> : tensor<1xf32> : tensor<1xf32>
  %0 = tn.dequantize %x, %s, %u {axis = 0 : i64} : (tensor<5x6xui8>, tensor<f32>, tensor<ui8>) -> tensor<5x6xf32>
  %1 = tn.tanh %0 : tensor<5x6xf32>
  %2 = tn.mul %1, %c : (tensor<5x6xf32>, tensor<1xf32>) -> tensor<5x6xf32>
  %3 = tn.quantize %2, %s, %u {axis = 0 : i64} : (tensor<5x6xf32>, tensor<f32>, tensor<ui8>) -> tensor<5x6xui8>
  return %3 : tensor<5x6xui8>
}

// Two quantizations one behind the other take longer than a table, whatever stands between.
// CHECK-LABEL: @twice
func.func @twice(%x: tensor<5x6xui8>) -> tensor<5x6xui8> {
  // CHECK: tn.gather
  // CHECK-NOT: tn.quantize
  // CHECK: return
  %s = tn.constant dense<2.500000e-01> : tensor<f32> : tensor<f32>
  %t = tn.constant dense<3.000000e-01> : tensor<f32> : tensor<f32>
  %u = tn.constant dense<9> : tensor<ui8> : tensor<ui8>
  %0 = tn.dequantize %x, %s, %u {axis = 0 : i64} : (tensor<5x6xui8>, tensor<f32>, tensor<ui8>) -> tensor<5x6xf32>
  %1 = tn.relu %0 : tensor<5x6xf32>
  %2 = tn.quantize %1, %t, %u {axis = 0 : i64} : (tensor<5x6xf32>, tensor<f32>, tensor<ui8>) -> tensor<5x6xui8>
  %3 = tn.dequantize %2, %t, %u {axis = 0 : i64} : (tensor<5x6xui8>, tensor<f32>, tensor<ui8>) -> tensor<5x6xf32>
  %4 = tn.mul %0, %3 : (tensor<5x6xf32>, tensor<5x6xf32>) -> tensor<5x6xf32>
  %5 = tn.quantize %4, %s, %u {axis = 0 : i64} : (tensor<5x6xf32>, tensor<f32>, tensor<ui8>) -> tensor<5x6xui8>
  return %5 : tensor<5x6xui8>
}
