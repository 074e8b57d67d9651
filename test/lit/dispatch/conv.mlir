// RUN: %tenon-opt %s --pass=dispatch --check | FileCheck %s

// An inverted residual block: pointwise, depthwise, pointwise, with a grouped convolution at the end.
// CHECK-LABEL: @main
func.func @main(%x: tensor<1x6x6x8xf32>) -> tensor<1x6x6x8xf32> {
  %w0 = tn.weight "w0" : tensor<48x8x1x1xf32>
  %w1 = tn.weight "w1" : tensor<48x1x3x3xf32>
  %w2 = tn.weight "w2" : tensor<8x48x1x1xf32>
  %w3 = tn.weight "w3" : tensor<8x4x3x3xf32>
  // CHECK-DAG: tn.pack {{.*}} -> tensor<2x1x1x8x32xf32>
  // CHECK-DAG: tn.pack {{.*}} -> tensor<1x1x1x48x8xf32>
  // CHECK-DAG: tn.pack {{.*}} -> tensor<3x3x3x1x16xf32>
  // CHECK-DAG: tn.pack {{.*}} -> tensor<1x3x3x4x16xf32>
  // CHECK: tn.region "cpu" "contraction"
  // CHECK: tn.clamp
  // CHECK-NEXT: tn.yield
  %0 = tn.conv %x, %w0 {strides = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>, groups = 1 : i64, channelsLast = true} : (tensor<1x6x6x8xf32>, tensor<48x8x1x1xf32>) -> tensor<1x6x6x48xf32>
  %1 = tn.clamp %0 {lo = 0.0 : f64, hi = 6.0 : f64} : tensor<1x6x6x48xf32>
  // Weights of convolutions by groups lie by vectors of 16 output channels, whatever their groups.
  // CHECK: tn.region "cpu" "depthwise"
  // CHECK: tn.unpack {{.*}} inner_dims_pos = [0] inner_tiles = [16]
  // CHECK-NEXT: tn.conv
  // CHECK-NEXT: tn.clamp
  // CHECK-NEXT: tn.yield
  %2 = tn.conv %1, %w1 {strides = array<i64: 1, 1>, pads = array<i64: 1, 1, 1, 1>, dilations = array<i64: 1, 1>, groups = 48 : i64, channelsLast = true} : (tensor<1x6x6x48xf32>, tensor<48x1x3x3xf32>) -> tensor<1x6x6x48xf32>
  %3 = tn.clamp %2 {lo = 0.0 : f64, hi = 6.0 : f64} : tensor<1x6x6x48xf32>
  // CHECK: tn.region "cpu" "contraction"
  // CHECK: tn.conv
  // CHECK-NEXT: tn.add
  // CHECK-NEXT: tn.yield
  %4 = tn.conv %3, %w2 {strides = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>, groups = 1 : i64, channelsLast = true} : (tensor<1x6x6x48xf32>, tensor<8x48x1x1xf32>) -> tensor<1x6x6x8xf32>
  %5 = tn.add %4, %x : (tensor<1x6x6x8xf32>, tensor<1x6x6x8xf32>) -> tensor<1x6x6x8xf32>
  // CHECK: tn.region "cpu" "contraction"
  // CHECK: tn.unpack {{.*}} inner_dims_pos = [0] inner_tiles = [16] {{.*}} -> tensor<8x4x3x3xf32>
  // CHECK-NEXT: tn.conv
  // CHECK-NEXT: tn.yield
  %6 = tn.conv %5, %w3 {strides = array<i64: 1, 1>, pads = array<i64: 1, 1, 1, 1>, dilations = array<i64: 1, 1>, groups = 2 : i64, channelsLast = true} : (tensor<1x6x6x8xf32>, tensor<8x4x3x3xf32>) -> tensor<1x6x6x8xf32>
  return %6 : tensor<1x6x6x8xf32>
}
// -----
// Winograd's filtering: the filters are transformed before they are packed, and the convolution keeps its shapes.
// CHECK-LABEL: @filters
func.func @filters(%x: tensor<1x56x56x64xf32>) -> tensor<1x56x56x64xf32> {
  %w = tn.weight "w" : tensor<64x64x3x3xf32>
  // CHECK: %[[F:.*]] = tn.winograd_filter %{{.*}} {m = 4 : i64} : (tensor<64x64x3x3xf32>) -> tensor<64x64x6x6xf32>
  // CHECK-NEXT: tn.pack %[[F]] outer_dims_perm = [0, 2, 3, 1] inner_dims_pos = [0] inner_tiles = [32] : {{.*}} -> tensor<2x6x6x64x32xf32>
  // CHECK: tn.region "cpu" "contraction"{{.*}}conv_winograd4
  // CHECK: tn.unpack {{.*}} -> tensor<64x64x6x6xf32>
  // CHECK-NEXT: tn.winograd_taps {{.*}} {m = 4 : i64} : (tensor<64x64x6x6xf32>) -> tensor<64x64x3x3xf32>
  // CHECK-NEXT: tn.conv
  // CHECK-NEXT: tn.yield
  %0 = tn.conv %x, %w {strides = array<i64: 1, 1>, pads = array<i64: 1, 1, 1, 1>, dilations = array<i64: 1, 1>, groups = 1 : i64, channelsLast = true} : (tensor<1x56x56x64xf32>, tensor<64x64x3x3xf32>) -> tensor<1x56x56x64xf32>
  return %0 : tensor<1x56x56x64xf32>
}
