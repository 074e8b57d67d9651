// RUN: %tenon-opt %s --pass=sink-reshapes --check | FileCheck %s
#x = #tn.shape<()[s0] -> (s0, 16)>
#s = #tn.shape<()[s0] -> (s0, 2, 2, 4)>
#p = #tn.shape<()[s0] -> (s0, 2, 1, 4)>
#h = #tn.shape<()[s0] -> (s0, 2, 4)>
#y = #tn.shape<()[s0] -> (s0, 2, 1, 8)>

// Rotary embedding as import writes it: halves of heads are picked from a dim of two, and put together
// along it.
module attributes {tn.symbols = [#tn.symbol<"batch", 1, 8>]} {
// CHECK-LABEL: @rotary
func.func @rotary(%x: tensor<?x16xf32, #x>, %c: tensor<4xf32>) -> tensor<?x2x1x8xf32, #y> {
  // CHECK: %[[H:.*]] = tn.reshape %arg0 : {{.*}}(s0, 2, 8)
  // CHECK-DAG: tn.slice %[[H]] {{.*}}(s0, 2, 4)
  // CHECK-DAG: tn.slice %[[H]] {{.*}}(s0, 2, 4)
  // CHECK-NOT: tn.reshape
  // CHECK: tn.sub
  // CHECK-NOT: tn.reshape
  // CHECK: tn.concat {{.*}}axis = 2 {{.*}}(s0, 2, 8)
  // CHECK-NEXT: tn.reshape {{.*}}(s0, 2, 1, 8)
  // CHECK-NEXT: return
  %0 = tn.reshape %x : (tensor<?x16xf32, #x>) -> tensor<?x2x2x4xf32, #s>
  %1 = tn.slice %0 {starts = affine_map<() -> (0, 0, 0, 0)>, steps = array<i64: 1, 1, 1, 1>} : (tensor<?x2x2x4xf32, #s>) -> tensor<?x2x1x4xf32, #p>
  %2 = tn.reshape %1 : (tensor<?x2x1x4xf32, #p>) -> tensor<?x2x4xf32, #h>
  %3 = tn.slice %0 {starts = affine_map<() -> (0, 0, 1, 0)>, steps = array<i64: 1, 1, 1, 1>} : (tensor<?x2x2x4xf32, #s>) -> tensor<?x2x1x4xf32, #p>
  %4 = tn.reshape %3 : (tensor<?x2x1x4xf32, #p>) -> tensor<?x2x4xf32, #h>
  %5 = tn.mul %2, %c : (tensor<?x2x4xf32, #h>, tensor<4xf32>) -> tensor<?x2x4xf32, #h>
  %6 = tn.reshape %5 : (tensor<?x2x4xf32, #h>) -> tensor<?x2x1x4xf32, #p>
  %7 = tn.reshape %4 : (tensor<?x2x4xf32, #h>) -> tensor<?x2x1x4xf32, #p>
  %8 = tn.sub %6, %7 : (tensor<?x2x1x4xf32, #p>, tensor<?x2x1x4xf32, #p>) -> tensor<?x2x1x4xf32, #p>
  %9 = tn.concat %8, %6 {axis = 2 : i64} : (tensor<?x2x1x4xf32, #p>, tensor<?x2x1x4xf32, #p>) -> tensor<?x2x2x4xf32, #s>
  %10 = tn.reshape %9 : (tensor<?x2x2x4xf32, #s>) -> tensor<?x2x1x8xf32, #y>
  return %10 : tensor<?x2x1x8xf32, #y>
}

// A reshape that mixes dims stays where it is, and so does one of two different.
// CHECK-LABEL: @stay
// CHECK: tn.reshape
// CHECK-NEXT: tn.exp
// CHECK: tn.reshape
// CHECK-NEXT: tn.reshape
// CHECK-NEXT: tn.add
func.func @stay(%x: tensor<4x6xf32>, %y: tensor<3x2xf32>, %z: tensor<3x2xf32>) -> (tensor<3x8xf32>, tensor<3x1x2xf32>) {
  %0 = tn.reshape %x : (tensor<4x6xf32>) -> tensor<3x8xf32>
  %1 = tn.exp %0 : tensor<3x8xf32>
  %2 = tn.reshape %y : (tensor<3x2xf32>) -> tensor<3x1x2xf32>
  %3 = tn.reshape %z : (tensor<3x2xf32>) -> tensor<1x3x2xf32>
  %4 = tn.add %2, %3 : (tensor<3x1x2xf32>, tensor<1x3x2xf32>) -> tensor<3x3x2xf32>
  %5 = tn.slice %4 {starts = affine_map<() -> (0, 0, 0)>, steps = array<i64: 1, 1, 1>} : (tensor<3x3x2xf32>) -> tensor<3x1x2xf32>
  return %1, %5 : tensor<3x8xf32>, tensor<3x1x2xf32>
}
}
