// RUN: %tenon-opt %s --pass=narrow-integer-products --pass=dispatch-cuda --check | FileCheck %s

// The f16 behind the operands is what the region reads; what turns the sums into numbers of the model runs with
// it.
// CHECK-LABEL: @scaled
func.func @scaled(%x: tensor<64x128xui8>, %zero: tensor<ui8>, %w: tensor<128x32xi8>, %s: tensor<32xf32>) -> tensor<64x32xf32> {
  // CHECK: tn.region "cuda" "elementwise"
  // CHECK: tn.region "cuda" "contraction"{{.*}}gemm_tensorcore
  // CHECK-NEXT: ^bb0(%{{.*}}: tensor<128x32xf16>, %{{.*}}: tensor<64x128xf16>
  // CHECK: tn.matmul {{.*}} {tn.narrow_integers}
  // CHECK-NEXT: tn.cast {{.*}} -> tensor<64x32xf32>
  // CHECK-NEXT: tn.mul
  // CHECK-NEXT: tn.yield
  // CHECK-NOT: tn.region
  %0 = tn.cast %x : (tensor<64x128xui8>) -> tensor<64x128xi32>
  %1 = tn.cast %zero : (tensor<ui8>) -> tensor<i32>
  %2 = tn.sub %0, %1 : (tensor<64x128xi32>, tensor<i32>) -> tensor<64x128xi32>
  %3 = tn.cast %w : (tensor<128x32xi8>) -> tensor<128x32xi32>
  %4 = tn.matmul %2, %3 : (tensor<64x128xi32>, tensor<128x32xi32>) -> tensor<64x32xi32>
  %5 = tn.cast %4 : (tensor<64x32xi32>) -> tensor<64x32xf32>
  %6 = tn.mul %5, %s : (tensor<64x32xf32>, tensor<32xf32>) -> tensor<64x32xf32>
  return %6 : tensor<64x32xf32>
}
