// RUN: %tenon-opt %s --pass=dispatch-cuda | FileCheck %s

// A decoder's half of a layer on one rank: the sum over ranks takes the residual, which is read
// again, and the norm, which the product behind it would otherwise take in. What is added up but not
// normed stays a message.
// CHECK-LABEL: @half
func.func @half(%a: tensor<1x64xbf16>, %x: tensor<1x256xbf16>) -> tensor<1x256xbf16> {
  %o = tn.weight "o" : tensor<64x256xbf16>
  %s = tn.weight "s" : tensor<256xbf16>
  %u = tn.weight "u" : tensor<256x64xbf16>
  %d = tn.weight "d" : tensor<64x256xbf16>
  // CHECK: tn.region "cuda" "contraction"
  // CHECK: tn.matmul
  // CHECK: tn.region "cuda" "single"
  // CHECK: tn.all_reduce
  // CHECK-NEXT: tn.add
  // CHECK-NEXT: tn.rms_norm
  // CHECK-NEXT: tn.yield
  // CHECK: tn.region "cuda" "contraction"
  // CHECK-NOT: tn.rms_norm
  // CHECK: tn.region "cuda" "contraction"
  // CHECK: tn.region "cuda" "single"
  // CHECK: tn.all_reduce
  // CHECK-NEXT: tn.yield
  // CHECK: tn.region "cuda" "elementwise"
  %p = tn.matmul %a, %o : (tensor<1x64xbf16>, tensor<64x256xbf16>) -> tensor<1x256xbf16>
  %r = tn.all_reduce %p {ranks = 2 : i64} : tensor<1x256xbf16>
  %h = tn.add %x, %r : (tensor<1x256xbf16>, tensor<1x256xbf16>) -> tensor<1x256xbf16>
  %n = tn.rms_norm %h scale %s {axis = 1 : i64, epsilon = 1.0e-5 : f64} : (tensor<1x256xbf16>, tensor<256xbf16>) -> tensor<1x256xbf16>
  %g = tn.matmul %n, %u : (tensor<1x256xbf16>, tensor<256x64xbf16>) -> tensor<1x64xbf16>
  %e = tn.matmul %g, %d : (tensor<1x64xbf16>, tensor<64x256xbf16>) -> tensor<1x256xbf16>
  %f = tn.all_reduce %e {ranks = 2 : i64} : tensor<1x256xbf16>
  %y = tn.add %h, %f : (tensor<1x256xbf16>, tensor<1x256xbf16>) -> tensor<1x256xbf16>
  return %y : tensor<1x256xbf16>
}
