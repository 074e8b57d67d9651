// RUN: %tenon-opt %s --pass=convert-to-fp16 | FileCheck %s --check-prefixes=CHECK,HALF
// RUN: %tenon-opt %s --pass=convert-to-bf16 | FileCheck %s --check-prefixes=CHECK,BF

// The model's inputs and outputs keep their types; weights, products and norms are narrow.
// CHECK-LABEL: @layer(%arg0: tensor<4x8xf32>) -> tensor<4x8xf32>
func.func @layer(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  // HALF-DAG: %[[W:.*]] = tn.weight "w.f16" : tensor<8x8xf16>
  // HALF-DAG: %[[S:.*]] = tn.weight "s.f16" : tensor<8xf16>
  // HALF-DAG: %[[X:.*]] = tn.cast %arg0 : (tensor<4x8xf32>) -> tensor<4x8xf16>
  // HALF: %[[P:.*]] = tn.matmul %[[X]], %[[W]] : (tensor<4x8xf16>, tensor<8x8xf16>) -> tensor<4x8xf16>
  // HALF: %[[N:.*]] = tn.layer_norm %[[P]] scale %[[S]] {{.*}} -> tensor<4x8xf16>
  // HALF: %[[Y:.*]] = tn.cast %[[N]] : (tensor<4x8xf16>) -> tensor<4x8xf32>
  // HALF: return %[[Y]]
  // BF: tn.matmul {{.*}} -> tensor<4x8xbf16>
  // BF: tn.layer_norm {{.*}} -> tensor<4x8xbf16>
  %w = tn.weight "w" : tensor<8x8xf32>
  %s = tn.weight "s" : tensor<8xf32>
  %0 = tn.matmul %x, %w : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  %1 = tn.layer_norm %0 scale %s {axis = 1 : i64, epsilon = 1.0e-12 : f64} : (tensor<4x8xf32>, tensor<8xf32>) -> tensor<4x8xf32>
  return %1 : tensor<4x8xf32>
}
// -----
// A mask built with the lowest f32 is clamped where attention reads it, so that no row is all
// infinity.
// CHECK-LABEL: @mask
func.func @mask(%q: tensor<1x2x4x8xf32>, %m: tensor<1x1x1x4xi1>) -> tensor<1x2x4x8xf32> {
  // CHECK: %[[M:.*]] = tn.mul {{.*}} -> tensor<1x1x1x4xf32>
  // HALF: %[[C:.*]] = tn.clamp %[[M]] {hi = 6.550400e+04 : f64, lo = -6.550400e+04 : f64} : tensor<1x1x1x4xf32>
  // BF: %[[C:.*]] = tn.clamp %[[M]] {hi = 3.389{{[0-9]*}}E+38 : f64, lo = -3.389{{[0-9]*}}E+38 : f64} : tensor<1x1x1x4xf32>
  // HALF: %[[N:.*]] = tn.cast %[[C]] : (tensor<1x1x1x4xf32>) -> tensor<1x1x1x4xf16>
  // HALF: tn.attention {{.*}} mask %[[N]] {{.*}} -> tensor<1x2x4x8xf16>
  %lowest = tn.constant dense<-3.40282347E+38> : tensor<f32> : tensor<f32>
  %0 = tn.cast %m : (tensor<1x1x1x4xi1>) -> tensor<1x1x1x4xf32>
  %1 = tn.mul %0, %lowest : (tensor<1x1x1x4xf32>, tensor<f32>) -> tensor<1x1x1x4xf32>
  %2 = tn.attention %q, %q, %q mask %1 {scale = 0.35 : f64, causal = false, headsInner = array<i1: false, false, false, false>} : (tensor<1x2x4x8xf32>, tensor<1x2x4x8xf32>, tensor<1x2x4x8xf32>, tensor<1x1x1x4xf32>) -> tensor<1x2x4x8xf32>
  return %2 : tensor<1x2x4x8xf32>
}
// -----
// A norm spelled out: what makes the deviation stays in f32, its quotient is ordinary again and is
// narrow where the product reads it.
// CHECK-LABEL: @deviation
func.func @deviation(%x: tensor<4x8xf32>, %w: tensor<8x8xf32>) -> tensor<4x8xf32> {
  // CHECK: tn.matmul {{.*}} -> tensor<4x8x[[NARROW:b?f16]]>
  // CHECK: tn.mul {{.*}} -> tensor<4x8xf32>
  // CHECK: tn.reduce <mean> {{.*}} -> tensor<4x1xf32>
  // CHECK: tn.add {{.*}} -> tensor<4x1xf32>
  // CHECK: tn.sqrt {{.*}} : tensor<4x1xf32>
  // CHECK: tn.div {{.*}} -> tensor<4x8xf32>
  // CHECK: tn.matmul {{.*}} -> tensor<4x8x[[NARROW]]>
  %eps = tn.constant dense<1.0e-12> : tensor<f32> : tensor<f32>
  %0 = tn.matmul %x, %w : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  %1 = tn.mul %0, %0 : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  %2 = tn.reduce <mean> %1 {axes = array<i64: 1>, keepdims = true} : (tensor<4x8xf32>) -> tensor<4x1xf32>
  %3 = tn.add %2, %eps : (tensor<4x1xf32>, tensor<f32>) -> tensor<4x1xf32>
  %4 = tn.sqrt %3 : tensor<4x1xf32>
  %5 = tn.div %0, %4 : (tensor<4x8xf32>, tensor<4x1xf32>) -> tensor<4x8xf32>
  %6 = tn.matmul %5, %w : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  return %6 : tensor<4x8xf32>
}
// -----
// Rotary angles: positions and their product with the frequencies are f32, also through a product
// that sums over one element and a concatenation; cosine is narrow where it scales the data.
// CHECK-LABEL: @rotary
func.func @rotary(%x: tensor<4x8xf32>, %p: tensor<4x1xi64>, %f: tensor<1x4xf32>) -> tensor<4x8xf32> {
  // CHECK: tn.cast %arg1 : (tensor<4x1xi64>) -> tensor<4x1xf32>
  // CHECK: tn.matmul {{.*}} -> tensor<4x4xf32>
  // CHECK: tn.concat {{.*}} -> tensor<4x8xf32>
  // CHECK: tn.cos {{.*}} : tensor<4x8xf32>
  // CHECK: tn.mul {{.*}} -> tensor<4x8x{{b?}}f16>
  %0 = tn.cast %p : (tensor<4x1xi64>) -> tensor<4x1xf32>
  %1 = tn.matmul %0, %f : (tensor<4x1xf32>, tensor<1x4xf32>) -> tensor<4x4xf32>
  %2 = tn.concat %1, %1 {axis = 1 : i64} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x8xf32>
  %3 = tn.cos %2 : tensor<4x8xf32>
  %4 = tn.mul %x, %3 : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  return %4 : tensor<4x8xf32>
}
// -----
// Numbers that become integers, running sums and comparisons with constants stay exact.
// CHECK-LABEL: @exact
func.func @exact(%x: tensor<8xf32>) -> (tensor<8xi64>, tensor<8xf32>, tensor<8xi1>) {
  // CHECK: tn.mul {{.*}} -> tensor<8xf32>
  // CHECK: tn.cast {{.*}} : (tensor<8xf32>) -> tensor<8xi64>
  // CHECK: tn.cumsum {{.*}} : tensor<8xf32>
  // CHECK: tn.compare {{.*}} : (tensor<8xf32>, tensor<f32>)
  %c = tn.constant dense<0.1> : tensor<f32> : tensor<f32>
  %0 = tn.mul %x, %c : (tensor<8xf32>, tensor<f32>) -> tensor<8xf32>
  %1 = tn.cast %0 : (tensor<8xf32>) -> tensor<8xi64>
  %2 = tn.relu %x : tensor<8xf32>
  %3 = tn.cumsum %2 {axis = 0 : i64, exclusive = false, reverse = false} : tensor<8xf32>
  %4 = tn.compare %2 <gt> %c : (tensor<8xf32>, tensor<f32>) -> tensor<8xi1>
  return %1, %3, %4 : tensor<8xi64>, tensor<8xf32>, tensor<8xi1>
}
// -----
// exp overflows in fp16 unless its argument is bounded; pixels and sums of probabilities fit.
// CHECK-LABEL: @range
func.func @range(%x: tensor<4x8xf32>, %u: tensor<4x8xui8>) -> (tensor<4x8xf32>, tensor<4x8xf32>, tensor<4xf32>) {
  // HALF: tn.cast %arg1 : (tensor<4x8xui8>) -> tensor<4x8xf16>
  // HALF: tn.exp {{.*}} : tensor<4x8xf32>
  // BF: tn.exp {{.*}} : tensor<4x8xbf16>
  // HALF: tn.tanh {{.*}} : tensor<4x8xf16>
  // HALF: tn.exp {{.*}} : tensor<4x8xf16>
  // HALF: tn.reduce <sum> {{.*}} -> tensor<4xf16>
  %p = tn.cast %u : (tensor<4x8xui8>) -> tensor<4x8xf32>
  %0 = tn.add %x, %p : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  %1 = tn.exp %0 : tensor<4x8xf32>
  %2 = tn.tanh %0 : tensor<4x8xf32>
  %3 = tn.exp %2 : tensor<4x8xf32>
  %4 = tn.softmax %0 {axis = 1 : i64} : tensor<4x8xf32>
  %5 = tn.reduce <sum> %4 {axes = array<i64: 1>, keepdims = false} : (tensor<4x8xf32>) -> tensor<4xf32>
  return %1, %3, %5 : tensor<4x8xf32>, tensor<4x8xf32>, tensor<4xf32>
}
// -----
// A model's own f64 and f16 values stay what they are.
// CHECK-LABEL: @own
func.func @own(%x: tensor<8xf64>, %y: tensor<8xf16>) -> (tensor<8xf64>, tensor<8xf16>) {
  // CHECK-NEXT: tn.relu %arg0 : tensor<8xf64>
  // CHECK-NEXT: tn.relu %arg1 : tensor<8xf16>
  %0 = tn.relu %x : tensor<8xf64>
  %1 = tn.relu %y : tensor<8xf16>
  return %0, %1 : tensor<8xf64>, tensor<8xf16>
}
