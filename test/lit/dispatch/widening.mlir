// RUN: %tenon-opt %s --pass=dispatch --check | FileCheck %s

// Bytes are stored between the two convolutions, and the second one widens them where it adds them.
// CHECK-LABEL: @residual
func.func @residual(%x: tensor<1x16x16x32xui8>, %s: tensor<f32>) -> tensor<1x16x16x32xf32> {
  // CHECK: tn.region {{.*}}
  // CHECK: tn.conv
  // CHECK: tn.yield {{.*}} : tensor<1x16x16x32xui8>
  // CHECK: tn.region {{.*}}
  // CHECK: tn.cast {{.*}} : (tensor<1x16x16x32xui8>) -> tensor<1x16x16x32xf32>
  // CHECK: tn.conv
  // CHECK: tn.add
  // CHECK: tn.yield {{.*}} : tensor<1x16x16x32xf32>
  // CHECK-NOT: tn.region
  %w = tn.weight "w" : tensor<32x32x1x1xi8>
  %v = tn.weight "v" : tensor<32x32x1x1xi8>
  %0 = tn.conv %x, %w {strides = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>, groups = 1 : i64, channelsLast = true} : (tensor<1x16x16x32xui8>, tensor<32x32x1x1xi8>) -> tensor<1x16x16x32xi32>
  %1 = tn.cast %0 : (tensor<1x16x16x32xi32>) -> tensor<1x16x16x32xf32>
  %2 = tn.mul %1, %s : (tensor<1x16x16x32xf32>, tensor<f32>) -> tensor<1x16x16x32xf32>
  %3 = tn.cast %2 : (tensor<1x16x16x32xf32>) -> tensor<1x16x16x32xui8>
  %4 = tn.cast %3 : (tensor<1x16x16x32xui8>) -> tensor<1x16x16x32xf32>
  %5 = tn.mul %4, %s : (tensor<1x16x16x32xf32>, tensor<f32>) -> tensor<1x16x16x32xf32>
  %6 = tn.conv %3, %v {strides = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>, groups = 1 : i64, channelsLast = true} : (tensor<1x16x16x32xui8>, tensor<32x32x1x1xi8>) -> tensor<1x16x16x32xi32>
  %7 = tn.cast %6 : (tensor<1x16x16x32xi32>) -> tensor<1x16x16x32xf32>
  %8 = tn.add %7, %5 : (tensor<1x16x16x32xf32>, tensor<1x16x16x32xf32>) -> tensor<1x16x16x32xf32>
  return %8 : tensor<1x16x16x32xf32>
}

// -----

// What widens the other term costs no kernel of its own where both are weighed.
// CHECK-LABEL: @shallow
func.func @shallow(%x: tensor<1x56x56x64xui8>, %r: tensor<1x56x56x256xui8>, %s: tensor<f32>) -> tensor<1x56x56x256xui8> {
  // CHECK: tn.region
  // CHECK: tn.cast {{.*}} : (tensor<1x56x56x256xui8>) -> tensor<1x56x56x256xf32>
  // CHECK: tn.conv
  // CHECK: tn.add
  // CHECK: tn.yield {{.*}} : tensor<1x56x56x256xui8>
  // CHECK-NOT: tn.region
  %w = tn.weight "w" : tensor<256x64x1x1xi8>
  %0 = tn.conv %x, %w {strides = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>, groups = 1 : i64, channelsLast = true} : (tensor<1x56x56x64xui8>, tensor<256x64x1x1xi8>) -> tensor<1x56x56x256xi32>
  %1 = tn.cast %0 : (tensor<1x56x56x256xi32>) -> tensor<1x56x56x256xf32>
  %2 = tn.mul %1, %s : (tensor<1x56x56x256xf32>, tensor<f32>) -> tensor<1x56x56x256xf32>
  %3 = tn.cast %2 : (tensor<1x56x56x256xf32>) -> tensor<1x56x56x256xui8>
  %4 = tn.cast %3 : (tensor<1x56x56x256xui8>) -> tensor<1x56x56x256xf32>
  %5 = tn.cast %r : (tensor<1x56x56x256xui8>) -> tensor<1x56x56x256xf32>
  %6 = tn.sub %5, %s : (tensor<1x56x56x256xf32>, tensor<f32>) -> tensor<1x56x56x256xf32>
  %7 = tn.mul %6, %s : (tensor<1x56x56x256xf32>, tensor<f32>) -> tensor<1x56x56x256xf32>
  %8 = tn.add %4, %7 : (tensor<1x56x56x256xf32>, tensor<1x56x56x256xf32>) -> tensor<1x56x56x256xf32>
  %9 = tn.round %8 : tensor<1x56x56x256xf32>
  %10 = tn.cast %9 : (tensor<1x56x56x256xf32>) -> tensor<1x56x56x256xui8>
  return %10 : tensor<1x56x56x256xui8>
}
