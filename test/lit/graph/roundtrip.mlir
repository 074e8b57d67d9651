// What tn prints is read back as the same text, in every family of operations.
// RUN: %tenon-opt %s > %t.once
// RUN: %tenon-opt %t.once > %t.twice
// RUN: diff %t.once %t.twice
// RUN: FileCheck %s < %t.twice

#rows = #tn.shape<()[s0, s1] -> (s0, s1, 8)>
#image = #tn.shape<()[s0, s1] -> (s0, 3, s1, s1)>
#half = #tn.shape<()[s0, s1] -> (s0, 16, (s1 + 1) floordiv 2, (s1 + 1) floordiv 2)>

// CHECK-DAG: #[[SIZES:.*]] = affine_map<()[s0, s1] -> (s0, s1 * 8)>
// CHECK-DAG: #[[STARTS:.*]] = affine_map<() -> (0, 3)>
// CHECK: module attributes {tn.symbols = [#tn.symbol<"batch", 1, 8>, #tn.symbol<"size", 4, 64>]}
module attributes {tn.symbols = [#tn.symbol<"batch", 1, 8>, #tn.symbol<"size", 4, 64>]} {
// CHECK-LABEL: @rows
// CHECK-SAME: tensor<?x?x8xf32, #tn.shape<()[s0, s1] -> (s0, s1, 8)>>
func.func @rows(%x: tensor<?x?x8xf32, #rows>, %w: tensor<8x8xf32>) -> tensor<?x?x8xf32, #rows> {
  // CHECK: tn.constant dense<5.000000e-01> : tensor<8xf32> : tensor<8xf32>
  %scale = tn.constant dense<0.5> : tensor<8xf32> : tensor<8xf32>
  // CHECK: tn.sizes #[[SIZES]] : tensor<2xi64>
  %sizes = tn.sizes affine_map<()[s0, s1] -> (s0, s1 * 8)> : tensor<2xi64>
  // CHECK: tn.matmul %{{.*}}, %{{.*}} {transposeB}
  %m = tn.matmul %x, %w {transposeB} : (tensor<?x?x8xf32, #rows>, tensor<8x8xf32>) -> tensor<?x?x8xf32, #rows>
  // CHECK: tn.layer_norm %{{.*}} scale %{{.*}} {axis = 2 : i64, epsilon = 9.9999999999999995E-7 : f64}
  %n = tn.layer_norm %m scale %scale {axis = 2 : i64, epsilon = 1.0e-6 : f64} : (tensor<?x?x8xf32, #rows>, tensor<8xf32>) -> tensor<?x?x8xf32, #rows>
  // CHECK: tn.softmax %{{.*}} {axis = 2 : i64, log}
  %s = tn.softmax %n {axis = 2 : i64, log} : tensor<?x?x8xf32, #rows>
  // CHECK: tn.reduce <max> %{{.*}} {axes = array<i64: 2>, keepdims = true}
  %r = tn.reduce <max> %s {axes = array<i64: 2>, keepdims = true} : (tensor<?x?x8xf32, #rows>) -> tensor<?x?x1xf32, #tn.shape<()[s0, s1] -> (s0, s1, 1)>>
  // CHECK: tn.compare %{{.*}} <gt> %{{.*}}
  %c = tn.compare %s <gt> %r : (tensor<?x?x8xf32, #rows>, tensor<?x?x1xf32, #tn.shape<()[s0, s1] -> (s0, s1, 1)>>) -> tensor<?x?x8xi1, #rows>
  // CHECK: tn.select
  %y = tn.select %c, %s, %n : (tensor<?x?x8xi1, #rows>, tensor<?x?x8xf32, #rows>, tensor<?x?x8xf32, #rows>) -> tensor<?x?x8xf32, #rows>
  return %y : tensor<?x?x8xf32, #rows>
}

// CHECK-LABEL: @image
func.func @image(%x: tensor<?x3x?x?xf32, #image>) -> tensor<?x16x?x?xf32, #half> {
  // CHECK: tn.weight "w" : tensor<16x3x7x7xf32>
  %w = tn.weight "w" : tensor<16x3x7x7xf32>
  // CHECK: tn.region "cpu" "conv"(%{{.*}}, %{{.*}}) attributes {record = 3 : i64} {
  %y = tn.region "cpu" "conv"(%x, %w) attributes {record = 3 : i64} {
  ^bb0(%a: tensor<?x3x?x?xf32, #image>, %b: tensor<16x3x7x7xf32>):
    // CHECK: tn.conv %{{.*}}, %{{.*}} {channelsLast = false
    %c = tn.conv %a, %b {strides = array<i64: 2, 2>, pads = array<i64: 3, 3, 3, 3>, dilations = array<i64: 1, 1>, groups = 1 : i64, channelsLast = false} : (tensor<?x3x?x?xf32, #image>, tensor<16x3x7x7xf32>) -> tensor<?x16x?x?xf32, #half>
    // CHECK: tn.clamp %{{.*}} {hi = 6.000000e+00 : f64, lo = 0.000000e+00 : f64}
    %d = tn.clamp %c {lo = 0.0 : f64, hi = 6.0 : f64} : tensor<?x16x?x?xf32, #half>
    // CHECK: tn.yield
    tn.yield %d : tensor<?x16x?x?xf32, #half>
  } : (tensor<?x3x?x?xf32, #image>, tensor<16x3x7x7xf32>) -> tensor<?x16x?x?xf32, #half>
  return %y : tensor<?x16x?x?xf32, #half>
}

// CHECK-LABEL: @movement
func.func @movement(%x: tensor<2x3xf32>, %i: tensor<4xi64>) -> tensor<4x3xf32> {
  // CHECK: tn.transpose %{{.*}} [1, 0]
  %t = tn.transpose %x [1, 0] : (tensor<2x3xf32>) -> tensor<3x2xf32>
  // CHECK: tn.pad <reflect> %{{.*}} {begins = array<i64: 1, 0>, ends = array<i64: 0, 0>}
  %p = tn.pad <reflect> %t {begins = array<i64: 1, 0>, ends = array<i64: 0, 0>} : (tensor<3x2xf32>) -> tensor<4x2xf32>
  // CHECK: tn.concat %{{.*}}, %{{.*}} {axis = 1 : i64} : (tensor<4x2xf32>, tensor<4x2xf32>) -> tensor<4x4xf32>
  %c = tn.concat %p, %p {axis = 1 : i64} : (tensor<4x2xf32>, tensor<4x2xf32>) -> tensor<4x4xf32>
  // CHECK: tn.slice %{{.*}} {starts = #[[STARTS]], steps = array<i64: 1, -1>}
  %s = tn.slice %c {starts = affine_map<() -> (0, 3)>, steps = array<i64: 1, -1>} : (tensor<4x4xf32>) -> tensor<4x3xf32>
  // CHECK: tn.gather %{{.*}}, %{{.*}} {axis = 0 : i64}
  %g = tn.gather %s, %i {axis = 0 : i64} : (tensor<4x3xf32>, tensor<4xi64>) -> tensor<4x3xf32>
  return %g : tensor<4x3xf32>
}
}
