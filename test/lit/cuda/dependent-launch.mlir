// RUN: %tenon-opt --ptx=sm_90 %s | FileCheck %s
// A kernel may be launched before the one before it has ended: nothing is read before the wait, however
// freely loads of constant memory move. Only weights are constant while both run.

// CHECK: .entry kernel(
// CHECK-NOT: ld.global
// CHECK: griddepcontrol.wait;
// CHECK-DAG: griddepcontrol.launch_dependents;
// CHECK-DAG: mov.b64 %[[X:rd[0-9]+]], %rd{{[0-9]+}};
// CHECK: ld.global.v4.b32
// CHECK: ld.global.nc.b32
// CHECK: st.global
module {
  func.func @kernel(%x: tensor<4096x4096xf32>, %b: tensor<f32> {tn.constant}) -> tensor<4096x4096xf32>
      attributes {tn.strategy = "elementwise"} {
    %0 = tn.add %b, %b : (tensor<f32>, tensor<f32>) -> tensor<f32>
    %1 = tn.mul %x, %0 : (tensor<4096x4096xf32>, tensor<f32>) -> tensor<4096x4096xf32>
    return %1 : tensor<4096x4096xf32>
  }
}
