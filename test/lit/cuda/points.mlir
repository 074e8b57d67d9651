// RUN: %tenon-opt --ptx=sm_80 %s | FileCheck %s
// Elements of a strip share one wide access where the alignment can be proved, and nothing between the
// inputs and the results of a region is stored.

// CHECK-LABEL: // step kernel: buffers 0 1 2 -> 3, threads 256
// CHECK: .target sm_80
// CHECK: ld.global.v4.b32
// CHECK: ld.global.v4.b32
// CHECK: ld.global.nc.v4.b32
// CHECK-NOT: ld.global
// CHECK: st.global.v4.b32
// CHECK-NOT: st.global
// CHECK: ret;
module {
  func.func @kernel(%x: tensor<4096x4096xf16>, %y: tensor<4096x4096xf16>, %b: tensor<4096xf16>)
      -> tensor<4096x4096xf16> attributes {tn.strategy = "elementwise"} {
    %0 = tn.add %x, %y : (tensor<4096x4096xf16>, tensor<4096x4096xf16>) -> tensor<4096x4096xf16>
    %1 = tn.mul %0, %b : (tensor<4096x4096xf16>, tensor<4096xf16>) -> tensor<4096x4096xf16>
    return %1 : tensor<4096x4096xf16>
  }
}

// -----
// A transpose that keeps the last dim moves 16 bytes at a time; the places come from 32-bit divisions by
// constants.

// CHECK-LABEL: // step kernel: buffers 0 -> 1, threads 256
// CHECK-NOT: div
// CHECK: ld.global.nc.v4.b32
// CHECK: st.global.v4.b32
// CHECK: ret;
module {
  func.func @kernel(%x: tensor<64x128x12x64xf32>) -> (tensor<64x12x128x64xf32>)
      attributes {tn.strategy = "elementwise"} {
    %0 = tn.transpose %x [0, 2, 1, 3] : (tensor<64x128x12x64xf32>) -> tensor<64x12x128x64xf32>
    return %0 : tensor<64x12x128x64xf32>
  }
}

// -----
// Rows of 33 elements are not aligned: single elements.

// CHECK-LABEL: // step kernel: buffers 0 1 -> 2, threads
// CHECK-NOT: v4
// CHECK-NOT: v2
// CHECK: ret;
module {
  func.func @kernel(%x: tensor<1001x33xf32>, %b: tensor<33xf32>) -> tensor<1001x33xf32>
      attributes {tn.strategy = "elementwise"} {
    %0 = tn.add %x, %b : (tensor<1001x33xf32>, tensor<33xf32>) -> tensor<1001x33xf32>
    return %0 : tensor<1001x33xf32>
  }
}

// -----
// A scatter is a copy, then the updates; those of different columns run in different threads.

// CHECK-LABEL: // step kernel: buffers 0 -> 3, threads
// CHECK-NEXT: // step kernel_1: buffers 1 2 -> 3, threads 64
// CHECK: .entry kernel_1(
// CHECK: min.s32
// CHECK: st.global.b32
module {
  func.func @kernel(%x: tensor<8x16x33xf32>, %i: tensor<8x2x33xi64>, %u: tensor<8x2x33xf32>)
      -> (tensor<8x16x33xf32>) attributes {tn.strategy = "single"} {
    %0 = tn.scatter_elements <none> %x, %i, %u {axis = 1 : i64}
        : (tensor<8x16x33xf32>, tensor<8x2x33xi64>, tensor<8x2x33xf32>) -> tensor<8x16x33xf32>
    return %0 : tensor<8x16x33xf32>
  }
}
