// The numeric check of these tests is itself tested: it must catch a pass that is wrong on purpose.
// RUN: not %tenon-opt %s --pass=planted-fault --check 2>&1 | FileCheck %s
// RUN: not %tenon-opt %s --pass=no-such-pass 2>&1 | FileCheck %s --check-prefix=NAME

// CHECK: numbers changed in planted-fault: result 0 differs by 0.000
// NAME: there is no pass 'no-such-pass'; there are {{.*}}, simplify
func.func @gelu(%x: tensor<64xf32>) -> tensor<64xf32> {
  %scale = tn.constant dense<4.0> : tensor<f32> : tensor<f32>
  %0 = tn.mul %x, %scale : (tensor<64xf32>, tensor<f32>) -> tensor<64xf32>
  %1 = tn.gelu %0 : tensor<64xf32>
  return %1 : tensor<64xf32>
}
// -----
// CHECK: numbers changed in planted-fault: result 0 differs
func.func @relu(%x: tensor<8xf32>) -> tensor<8xf32> {
  %0 = tn.relu %x : tensor<8xf32>
  return %0 : tensor<8xf32>
}
// -----
// CHECK: numbers changed in planted-fault: result 0 differs
func.func @add(%x: tensor<8xf32>) -> tensor<8xf32> {
  %0 = tn.add %x, %x : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  return %0 : tensor<8xf32>
}
