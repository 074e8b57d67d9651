// RUN: %tenon-opt %s --pass=fit-products --check | FileCheck %s

// Both depths are padded; the rows of the other operand, which are no depth, become it.
// CHECK-LABEL: @odd
func.func @odd(%a: tensor<1100x597xf16>, %b: tensor<597x601xf16>) -> tensor<1100x601xf16> {
  // CHECK-DAG: %[[A:.*]] = tn.pad <constant> %arg0 {{.*}} -> tensor<1100x600xf16>
  // CHECK-DAG: %[[T:.*]] = tn.transpose %arg1 [1, 0]
  // CHECK-DAG: %[[B:.*]] = tn.pad <constant> %[[T]] {{.*}} -> tensor<601x600xf16>
  // CHECK: tn.matmul %[[A]], %[[B]] {transposeB}
  %0 = tn.matmul %a, %b : (tensor<1100x597xf16>, tensor<597x601xf16>) -> tensor<1100x601xf16>
  return %0 : tensor<1100x601xf16>
}

// A constant is padded when it is written; its columns are codegen's to lay out.
// CHECK-LABEL: @weight
func.func @weight(%a: tensor<3x1997xbf16>) -> tensor<3x2001xbf16> {
  // CHECK-DAG: tn.pad <constant> %arg0 {{.*}} -> tensor<3x2000xbf16>
  // CHECK-DAG: %[[W:.*]] = tn.weight "w.padded" : tensor<2000x2001xbf16>
  // CHECK: tn.matmul %{{.*}}, %[[W]] :
  %w = tn.weight "w" : tensor<1997x2001xbf16>
  %0 = tn.matmul %a, %w : (tensor<3x1997xbf16>, tensor<1997x2001xbf16>) -> tensor<3x2001xbf16>
  return %0 : tensor<3x2001xbf16>
}

// Small integers are padded as f16.
// CHECK-LABEL: @integers
func.func @integers(%a: tensor<7000x1033xf16>, %b: tensor<72x1033xf16>) -> tensor<7000x72xi32> {
  // CHECK: %[[P:.*]] = tn.pad <constant> %arg0 {{.*}} -> tensor<7000x1040xf16>
  // CHECK: %[[A:.*]] = tn.cast %[[P]] : (tensor<7000x1040xf16>) -> tensor<7000x1040xi32>
  // CHECK: tn.matmul %[[A]], %{{.*}} {tn.narrow_integers, transposeB}
  %0 = tn.cast %a : (tensor<7000x1033xf16>) -> tensor<7000x1033xi32>
  %1 = tn.cast %b : (tensor<72x1033xf16>) -> tensor<72x1033xi32>
  %2 = tn.matmul %0, %1 {tn.narrow_integers, transposeB} : (tensor<7000x1033xi32>, tensor<72x1033xi32>) -> tensor<7000x72xi32>
  return %2 : tensor<7000x72xi32>
}

// Nothing lies on an odd border, FP32 has no such borders, and few columns, or few operations, are not worth a
// pass over A.
// CHECK-LABEL: @left
func.func @left(%a: tensor<64x96xf16>, %b: tensor<96x64xf16>, %c: tensor<64x97xf32>, %d: tensor<97x64xf32>, %e: tensor<6400x997xf16>, %f: tensor<997x3xf16>, %g: tensor<12x197x197xf16>, %h: tensor<12x197x64xf16>) -> (tensor<64x64xf16>, tensor<64x64xf32>, tensor<6400x3xf16>, tensor<12x197x64xf16>) {
  // CHECK-NOT: tn.pad
  // CHECK: return
  %0 = tn.matmul %a, %b : (tensor<64x96xf16>, tensor<96x64xf16>) -> tensor<64x64xf16>
  %1 = tn.matmul %c, %d : (tensor<64x97xf32>, tensor<97x64xf32>) -> tensor<64x64xf32>
  %2 = tn.matmul %e, %f : (tensor<6400x997xf16>, tensor<997x3xf16>) -> tensor<6400x3xf16>
  %3 = tn.matmul %g, %h : (tensor<12x197x197xf16>, tensor<12x197x64xf16>) -> tensor<12x197x64xf16>
  return %0, %1, %2, %3 : tensor<64x64xf16>, tensor<64x64xf32>, tensor<6400x3xf16>, tensor<12x197x64xf16>
}
