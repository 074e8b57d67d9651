// RUN: %tenon-opt %s --pass=integer-products --check | FileCheck %s

// The zero point lies around the numbers before the convolution; channels are filled up to words.
// CHECK-LABEL: @padded
func.func @padded(%x: tensor<1x4x5x3xf32>) -> tensor<1x4x5x2xf32> {
  // CHECK: %[[Z:.*]] = tn.constant dense<3> : tensor<ui8>
  // CHECK: %[[Q:.*]] = tn.quantize %arg0
  // CHECK: %[[P:.*]] = tn.pad <constant> %[[Q]] value %[[Z]] {begins = array<i64: 0, 1, 1, 0>, ends = array<i64: 0, 1, 1, 1>} : (tensor<1x4x5x3xui8>, tensor<ui8>) -> tensor<1x6x7x4xui8>
  // CHECK: %[[S:.*]] = tn.conv %[[P]], {{.*}} pads = array<i64: 0, 0, 0, 0>{{.*}} : (tensor<1x6x7x4xui8>, tensor<2x4x3x3xi8>) -> tensor<1x4x5x2xi32>
  // CHECK: tn.sub %[[S]]
  // CHECK: tn.mul
  // CHECK: tn.add
  // CHECK-NOT: dequantize
  // CHECK: return
  %s = tn.constant dense<5.000000e-01> : tensor<f32> : tensor<f32>
  %z = tn.constant dense<3> : tensor<ui8> : tensor<ui8>
  %t = tn.constant dense<[2.500000e-01, 3.000000e+00]> : tensor<2xf32> : tensor<2xf32>
  %o = tn.constant dense<[0, 1]> : tensor<2xi8> : tensor<2xi8>
  %w = tn.constant dense<7> : tensor<2x3x3x3xi8> : tensor<2x3x3x3xi8>
  %b = tn.constant dense<[1.0, 2.0]> : tensor<2xf32> : tensor<2xf32>
  %0 = tn.quantize %x, %s, %z {axis = 0 : i64} : (tensor<1x4x5x3xf32>, tensor<f32>, tensor<ui8>) -> tensor<1x4x5x3xui8>
  %1 = tn.dequantize %0, %s, %z {axis = 0 : i64} : (tensor<1x4x5x3xui8>, tensor<f32>, tensor<ui8>) -> tensor<1x4x5x3xf32>
  %2 = tn.dequantize %w, %t, %o {axis = 0 : i64} : (tensor<2x3x3x3xi8>, tensor<2xf32>, tensor<2xi8>) -> tensor<2x3x3x3xf32>
  %3 = tn.conv %1, %2 bias %b {strides = array<i64: 1, 1>, pads = array<i64: 1, 1, 1, 1>, dilations = array<i64: 1, 1>, groups = 1 : i64, channelsLast = true} : (tensor<1x4x5x3xf32>, tensor<2x3x3x3xf32>, tensor<2xf32>) -> tensor<1x4x5x2xf32>
  return %3 : tensor<1x4x5x2xf32>
}

// A chain of signed numbers stays in 8 bits: what stands between becomes unsigned with them, the least zero point is none, which
// leaves padding to the convolution, and quantization behind the sums divides by nothing.
// CHECK-LABEL: @chain
func.func @chain(%x: tensor<1x8x8x4xf32>) -> tensor<1x4x4x4xf32> {
  // CHECK-DAG: %[[ONE:.*]] = tn.constant dense<1.000000e+00> : tensor<f32>
  // CHECK: %[[Q:.*]] = tn.quantize %arg0, {{.*}} -> tensor<1x8x8x4xui8>
  // CHECK: %[[S:.*]] = tn.conv %[[Q]], {{.*}}groups = 4 : i64, pads = array<i64: 1, 1, 1, 1>{{.*}} -> tensor<1x8x8x4xi32>
  // CHECK: tn.quantize {{.*}}, %[[ONE]], {{.*}} -> tensor<1x8x8x4xui8>
  // CHECK: %[[M:.*]] = tn.max_pool {{.*}} : (tensor<1x8x8x4xui8>) -> tensor<1x4x4x4xui8>
  // CHECK: tn.dequantize %[[M]]
  // CHECK-NOT: xi8>) -> tensor<1x{{.*}}xf32>
  // CHECK: tn.conv %[[M]], {{.*}} (tensor<1x4x4x4xui8>, tensor<4x4x1x1xi8>) -> tensor<1x4x4x4xi32>
  // CHECK: return
  %s = tn.constant dense<5.000000e-01> : tensor<f32> : tensor<f32>
  %z = tn.constant dense<-128> : tensor<i8> : tensor<i8>
  %t = tn.constant dense<2.500000e-01> : tensor<f32> : tensor<f32>
  %o = tn.constant dense<0> : tensor<i8> : tensor<i8>
  %w = tn.constant dense<7> : tensor<4x1x3x3xi8> : tensor<4x1x3x3xi8>
  %v = tn.constant dense<5> : tensor<4x4x1x1xi8> : tensor<4x4x1x1xi8>
  %0 = tn.quantize %x, %s, %z {axis = 0 : i64} : (tensor<1x8x8x4xf32>, tensor<f32>, tensor<i8>) -> tensor<1x8x8x4xi8>
  %1 = tn.dequantize %0, %s, %z {axis = 0 : i64} : (tensor<1x8x8x4xi8>, tensor<f32>, tensor<i8>) -> tensor<1x8x8x4xf32>
  %2 = tn.dequantize %w, %t, %o {axis = 0 : i64} : (tensor<4x1x3x3xi8>, tensor<f32>, tensor<i8>) -> tensor<4x1x3x3xf32>
  %3 = tn.conv %1, %2 {strides = array<i64: 1, 1>, pads = array<i64: 1, 1, 1, 1>, dilations = array<i64: 1, 1>, groups = 4 : i64, channelsLast = true} : (tensor<1x8x8x4xf32>, tensor<4x1x3x3xf32>) -> tensor<1x8x8x4xf32>
  %4 = tn.relu %3 : tensor<1x8x8x4xf32>
  %5 = tn.quantize %4, %s, %z {axis = 0 : i64} : (tensor<1x8x8x4xf32>, tensor<f32>, tensor<i8>) -> tensor<1x8x8x4xi8>
  %6 = tn.dequantize %5, %s, %z {axis = 0 : i64} : (tensor<1x8x8x4xi8>, tensor<f32>, tensor<i8>) -> tensor<1x8x8x4xf32>
  %7 = tn.max_pool %6 {kernel = array<i64: 2, 2>, strides = array<i64: 2, 2>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>, ceilMode = false, channelsLast = true} : (tensor<1x8x8x4xf32>) -> tensor<1x4x4x4xf32>
  %8 = tn.dequantize %v, %t, %o {axis = 0 : i64} : (tensor<4x4x1x1xi8>, tensor<f32>, tensor<i8>) -> tensor<4x4x1x1xf32>
  %9 = tn.conv %7, %8 {strides = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>, groups = 1 : i64, channelsLast = true} : (tensor<1x4x4x4xf32>, tensor<4x4x1x1xf32>) -> tensor<1x4x4x4xf32>
  %10 = tn.add %9, %7 : (tensor<1x4x4x4xf32>, tensor<1x4x4x4xf32>) -> tensor<1x4x4x4xf32>
  return %10 : tensor<1x4x4x4xf32>
}

// Integers less a zero point that is found at run time, through what moves them; weights that no s8 holds are moved down, and a
// convolution of ones makes up for it.
// CHECK-LABEL: @moved
func.func @moved(%x: tensor<1x4x6xui8>, %z: tensor<i32>) -> tensor<1x6x2xi32> {
  // CHECK: %[[T:.*]] = tn.transpose %arg0 [0, 2, 1] : (tensor<1x4x6xui8>) -> tensor<1x6x4xui8>
  // CHECK: %[[C:.*]] = tn.cast %arg1 : (tensor<i32>) -> tensor<ui8>
  // CHECK: %[[P:.*]] = tn.pad <constant> %[[T]] value %[[C]]
  // CHECK: tn.conv %[[P]], {{.*}} : (tensor<1x8x4xui8>, tensor<2x4x3xi8>) -> tensor<1x6x2xi32>
  // CHECK: tn.conv %[[P]], {{.*}} : (tensor<1x8x4xui8>, tensor<1x4x3xi8>) -> tensor<1x6x1xi32>
  // CHECK: return
  %w = tn.constant dense<250> : tensor<2x4x3xi32> : tensor<2x4x3xi32>
  %0 = tn.cast %x : (tensor<1x4x6xui8>) -> tensor<1x4x6xi32>
  %1 = tn.sub %0, %z : (tensor<1x4x6xi32>, tensor<i32>) -> tensor<1x4x6xi32>
  %2 = tn.transpose %1 [0, 2, 1] : (tensor<1x4x6xi32>) -> tensor<1x6x4xi32>
  %3 = tn.conv %2, %w {strides = array<i64: 1>, pads = array<i64: 1, 1>, dilations = array<i64: 1>, groups = 1 : i64, channelsLast = true} : (tensor<1x6x4xi32>, tensor<2x4x3xi32>) -> tensor<1x6x2xi32>
  return %3 : tensor<1x6x2xi32>
}

// Not with channels first, a scale for each channel of the data, or computed weights. Groups that fill neither words nor vectors are
// filled up.
// CHECK-LABEL: @left
func.func @left(%x: tensor<1x6x6xui8>, %v: tensor<4x4x1xi8>, %y: tensor<1x6x4xui8>) -> (tensor<1x6x6xf32>, tensor<1x6x6xf32>, tensor<1x6x6xf32>, tensor<1x6x4xf32>) {
  // CHECK-COUNT-2: tn.conv {{.*}} -> tensor<1x6x6xf32>
  // CHECK: tn.reshape {{.*}} -> tensor<1x6x2x3xui8>
  // CHECK: tn.pad <constant> {{.*}} ends = array<i64: 0, 0, 0, 1>{{.*}} -> tensor<1x6x2x4xui8>
  // CHECK: tn.conv {{.*}} : (tensor<1x6x8xui8>, tensor<6x4x1xi8>) -> tensor<1x6x6xi32>
  // CHECK: tn.conv {{.*}} -> tensor<1x6x4xf32>
  %s = tn.constant dense<5.000000e-01> : tensor<f32> : tensor<f32>
  %z = tn.constant dense<3> : tensor<ui8> : tensor<ui8>
  %ss = tn.constant dense<5.000000e-01> : tensor<6xf32> : tensor<6xf32>
  %zs = tn.constant dense<3> : tensor<6xui8> : tensor<6xui8>
  %o = tn.constant dense<0> : tensor<i8> : tensor<i8>
  %w = tn.constant dense<7> : tensor<6x6x1xi8> : tensor<6x6x1xi8>
  %g = tn.constant dense<7> : tensor<6x3x1xi8> : tensor<6x3x1xi8>
  %0 = tn.dequantize %x, %s, %z {axis = 0 : i64} : (tensor<1x6x6xui8>, tensor<f32>, tensor<ui8>) -> tensor<1x6x6xf32>
  %1 = tn.dequantize %w, %s, %o {axis = 0 : i64} : (tensor<6x6x1xi8>, tensor<f32>, tensor<i8>) -> tensor<6x6x1xf32>
  %2 = tn.conv %0, %1 {strides = array<i64: 1>, pads = array<i64: 0, 0>, dilations = array<i64: 1>, groups = 1 : i64, channelsLast = false} : (tensor<1x6x6xf32>, tensor<6x6x1xf32>) -> tensor<1x6x6xf32>
  %3 = tn.dequantize %x, %ss, %zs {axis = 2 : i64} : (tensor<1x6x6xui8>, tensor<6xf32>, tensor<6xui8>) -> tensor<1x6x6xf32>
  %4 = tn.conv %3, %1 {strides = array<i64: 1>, pads = array<i64: 0, 0>, dilations = array<i64: 1>, groups = 1 : i64, channelsLast = true} : (tensor<1x6x6xf32>, tensor<6x6x1xf32>) -> tensor<1x6x6xf32>
  %5 = tn.dequantize %g, %s, %o {axis = 0 : i64} : (tensor<6x3x1xi8>, tensor<f32>, tensor<i8>) -> tensor<6x3x1xf32>
  %6 = tn.conv %0, %5 {strides = array<i64: 1>, pads = array<i64: 0, 0>, dilations = array<i64: 1>, groups = 2 : i64, channelsLast = true} : (tensor<1x6x6xf32>, tensor<6x3x1xf32>) -> tensor<1x6x6xf32>
  %7 = tn.dequantize %y, %s, %z {axis = 0 : i64} : (tensor<1x6x4xui8>, tensor<f32>, tensor<ui8>) -> tensor<1x6x4xf32>
  %8 = tn.dequantize %v, %s, %o {axis = 0 : i64} : (tensor<4x4x1xi8>, tensor<f32>, tensor<i8>) -> tensor<4x4x1xf32>
  %9 = tn.conv %7, %8 {strides = array<i64: 1>, pads = array<i64: 0, 0>, dilations = array<i64: 1>, groups = 1 : i64, channelsLast = true} : (tensor<1x6x4xf32>, tensor<4x4x1xf32>) -> tensor<1x6x4xf32>
  return %2, %4, %6, %9 : tensor<1x6x6xf32>, tensor<1x6x6xf32>, tensor<1x6x6xf32>, tensor<1x6x4xf32>
}

// Weights of groups that no s8 holds are the sum of two.
// CHECK-LABEL: @in_two
func.func @in_two(%x: tensor<1x6x8xui8>) -> tensor<1x6x2xi32> {
  // CHECK-COUNT-2: tn.conv {{.*}} groups = 2 : i64{{.*}} : (tensor<1x6x8xui8>, tensor<2x4x1xi8>) -> tensor<1x6x2xi32>
  // CHECK: tn.add
  // CHECK-NOT: tn.conv
  // CHECK: return
  %w = tn.constant dense<200> : tensor<2x4x1xi32> : tensor<2x4x1xi32>
  %0 = tn.cast %x : (tensor<1x6x8xui8>) -> tensor<1x6x8xi32>
  %1 = tn.conv %0, %w {strides = array<i64: 1>, pads = array<i64: 0, 0>, dilations = array<i64: 1>, groups = 2 : i64, channelsLast = true} : (tensor<1x6x8xi32>, tensor<2x4x1xi32>) -> tensor<1x6x2xi32>
  return %1 : tensor<1x6x2xi32>
}

// Numbers that are quantized as they were are these, but for scales at the ends of f32 and other zero points.
// CHECK-LABEL: @again
func.func @again(%x: tensor<4xui8>) -> (tensor<4xui8>, tensor<4xui8>, tensor<4xui8>) {
  // CHECK-COUNT-2: tn.quantize
  // CHECK-NOT: tn.quantize
  // CHECK: return %arg0, %{{.*}}, %{{.*}}
  %s = tn.constant dense<5.000000e-01> : tensor<f32> : tensor<f32>
  %t = tn.constant dense<1.000000e-40> : tensor<f32> : tensor<f32>
  %z = tn.constant dense<3> : tensor<ui8> : tensor<ui8>
  %u = tn.constant dense<4> : tensor<ui8> : tensor<ui8>
  %0 = tn.dequantize %x, %s, %z {axis = 0 : i64} : (tensor<4xui8>, tensor<f32>, tensor<ui8>) -> tensor<4xf32>
  %1 = tn.quantize %0, %s, %z {axis = 0 : i64} : (tensor<4xf32>, tensor<f32>, tensor<ui8>) -> tensor<4xui8>
  %2 = tn.dequantize %x, %t, %z {axis = 0 : i64} : (tensor<4xui8>, tensor<f32>, tensor<ui8>) -> tensor<4xf32>
  %3 = tn.quantize %2, %t, %z {axis = 0 : i64} : (tensor<4xf32>, tensor<f32>, tensor<ui8>) -> tensor<4xui8>
  %4 = tn.quantize %0, %s, %u {axis = 0 : i64} : (tensor<4xf32>, tensor<f32>, tensor<ui8>) -> tensor<4xui8>
  return %1, %3, %4 : tensor<4xui8>, tensor<4xui8>, tensor<4xui8>
}
