// RUN: %tenon-opt %s --pass=fit-products --check | FileCheck %s

// Both depths are padded; the rows of the other operand, which are no depth, become it.
// CHECK-LABEL: @odd
func.func @odd(%a: tensor<100x97xf16>, %b: tensor<97x101xf16>) -> tensor<100x101xf16> {
  // CHECK-DAG: %[[A:.*]] = tn.pad <constant> %arg0 {{.*}} -> tensor<100x104xf16>
  // CHECK-DAG: %[[T:.*]] = tn.transpose %arg1 [1, 0]
  // CHECK-DAG: %[[B:.*]] = tn.pad <constant> %[[T]] {{.*}} -> tensor<101x104xf16>
  // CHECK: tn.matmul %[[A]], %[[B]] {transposeB}
  %0 = tn.matmul %a, %b : (tensor<100x97xf16>, tensor<97x101xf16>) -> tensor<100x101xf16>
  return %0 : tensor<100x101xf16>
}

// A constant is padded when it is written; its columns are codegen's to lay out.
// CHECK-LABEL: @weight
func.func @weight(%a: tensor<3x97xbf16>) -> tensor<3x101xbf16> {
  // CHECK-DAG: tn.pad <constant> %arg0 {{.*}} -> tensor<3x104xbf16>
  // CHECK-DAG: %[[W:.*]] = tn.weight "w.padded" : tensor<104x101xbf16>
  // CHECK: tn.matmul %{{.*}}, %[[W]] :
  %w = tn.weight "w" : tensor<97x101xbf16>
  %0 = tn.matmul %a, %w : (tensor<3x97xbf16>, tensor<97x101xbf16>) -> tensor<3x101xbf16>
  return %0 : tensor<3x101xbf16>
}

// Small integers are padded as f16.
// CHECK-LABEL: @integers
func.func @integers(%a: tensor<70x33xf16>, %b: tensor<72x33xf16>) -> tensor<70x72xi32> {
  // CHECK: %[[P:.*]] = tn.pad <constant> %arg0 {{.*}} -> tensor<70x40xf16>
  // CHECK: %[[A:.*]] = tn.cast %[[P]] : (tensor<70x40xf16>) -> tensor<70x40xi32>
  // CHECK: tn.matmul %[[A]], %{{.*}} {tn.narrow_integers, transposeB}
  %0 = tn.cast %a : (tensor<70x33xf16>) -> tensor<70x33xi32>
  %1 = tn.cast %b : (tensor<72x33xf16>) -> tensor<72x33xi32>
  %2 = tn.matmul %0, %1 {tn.narrow_integers, transposeB} : (tensor<70x33xi32>, tensor<72x33xi32>) -> tensor<70x72xi32>
  return %2 : tensor<70x72xi32>
}

// Nothing lies on an odd border, FP32 has no such borders, and few columns are not worth a pass over A.
// CHECK-LABEL: @left
func.func @left(%a: tensor<64x96xf16>, %b: tensor<96x64xf16>, %c: tensor<64x97xf32>, %d: tensor<97x64xf32>, %e: tensor<64x97xf16>, %f: tensor<97x3xf16>) -> (tensor<64x64xf16>, tensor<64x64xf32>, tensor<64x3xf16>) {
  // CHECK-NOT: tn.pad
  // CHECK: return
  %0 = tn.matmul %a, %b : (tensor<64x96xf16>, tensor<96x64xf16>) -> tensor<64x64xf16>
  %1 = tn.matmul %c, %d : (tensor<64x97xf32>, tensor<97x64xf32>) -> tensor<64x64xf32>
  %2 = tn.matmul %e, %f : (tensor<64x97xf16>, tensor<97x3xf16>) -> tensor<64x3xf16>
  return %0, %1, %2 : tensor<64x64xf16>, tensor<64x64xf32>, tensor<64x3xf16>
}
