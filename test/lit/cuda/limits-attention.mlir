// RUN: %tenon-opt --ptx=sm_80 %s | FileCheck %s --check-prefix=SM80
// RUN: %tenon-opt --ptx=sm_89 %s | FileCheck %s --check-prefix=SM89
// RUN: %tenon-opt --ptx=sm_90a %s | FileCheck %s --check-prefix=SM90A
// RUN: %tenon-opt --ptx=sm_100 %s | FileCheck %s --check-prefix=SM100
// A step of decoding: the keys are split over a cluster where there are clusters, else over blocks
// that a second kernel combines; its stages fit the shared memory of each part.

// SM80: // kernel attention_flash{clustered=0,{{.*}}split_k=16,stages=3,
// SM80-NOT: reqnctapercluster
// SM80: .entry kernel_1(
// SM89: // kernel attention_flash{clustered=0,{{.*}}split_k=32,stages=2,
// SM89-NOT: griddepcontrol
// SM90A: // kernel attention_flash{clustered=1,{{.*}}keys=128,{{.*}}split_k=8,
// SM90A: .reqnctapercluster 8
// SM90A: griddepcontrol.wait
// SM100: // kernel attention_flash{clustered=1,{{.*}}split_k=8,
// SM100: .target sm_100
// SM100-NOT: wgmma
module {
  func.func @kernel(%q: tensor<1x32x1x128xf16>, %k: tensor<1x8x4096x128xf16>, %v: tensor<1x8x4096x128xf16>) -> tensor<1x32x1x128xf16> attributes {tn.strategy = "attention"} {
    %0 = tn.attention %q, %k, %v {scale = 0.1 : f64, causal = false, headsInner = array<i1: false, false, false, false>} : (tensor<1x32x1x128xf16>, tensor<1x8x4096x128xf16>, tensor<1x8x4096x128xf16>) -> tensor<1x32x1x128xf16>
    return %0 : tensor<1x32x1x128xf16>
  }
}
