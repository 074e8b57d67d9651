// Regions that fail for some inputs: what CPU and GPU must report of each, in whatever kernel it
// is.
#pragma once

#include "compiler/reference/Interpreter.h"
#include "engine/KernelAbi.h"
#include "test/unit/codegen/RegionCheck.h"

namespace tenon::codegen {

/// A region over one tensor of integers; `good` and `bad` are its elements.
struct FailureCase {
  const char *name;
  const char *strategy;
  const char *signature;
  const char *body;
  std::vector<int64_t> good;
  std::vector<int64_t> bad;
  int32_t status;
};

/// Kernels that look at one element a row, at each element, behind a sum, a norm and a product, in
/// loop nests, and at conditions of the model.
inline const std::vector<FailureCase> &failureCases() {
  static const std::vector<FailureCase> cases = {
      {"gather of rows",
       "single",
       "(%i: tensor<3xi64>, %x: tensor<5x19xf32>) -> tensor<3x19xf32>",
       "%0 = tn.gather %x, %i {axis = 0 : i64} : (tensor<5x19xf32>, tensor<3xi64>) -> "
       "tensor<3x19xf32> return %0 : tensor<3x19xf32>",
       {0, -5, 4},
       {0, 1, 5},
       TENON_KERNEL_INDEX_RANGE},
      {"gather from a table of bytes",
       "single",
       "(%i: tensor<45xi32>, %x: tensor<256xi8>) -> tensor<45xi8>",
       "%0 = tn.gather %x, %i {axis = 0 : i64} : (tensor<256xi8>, tensor<45xi32>) -> "
       "tensor<45xi8> return %0 : tensor<45xi8>",
       {-256, -1, 0, 255, 128},
       {0, 256},
       TENON_KERNEL_INDEX_RANGE},
      {"gather from a table of bytes, behind whole vectors",
       "single",
       "(%i: tensor<5xi32>, %x: tensor<256xi8>) -> tensor<5xi8>",
       "%0 = tn.gather %x, %i {axis = 0 : i64} : (tensor<256xi8>, tensor<5xi32>) -> "
       "tensor<5xi8> return %0 : tensor<5xi8>",
       {-256, -1, 0, 255, 128},
       {0, -257},
       TENON_KERNEL_INDEX_RANGE},
      {"gather with a negative index",
       "single",
       "(%i: tensor<3xi32>, %x: tensor<2x5x3xf16>) -> tensor<2x3x3xf16>",
       "%0 = tn.gather %x, %i {axis = 1 : i64} : (tensor<2x5x3xf16>, tensor<3xi32>) -> "
       "tensor<2x3x3xf16> return %0 : tensor<2x3x3xf16>",
       {0, -5, 4},
       {-6, 0, 0},
       TENON_KERNEL_INDEX_RANGE},
      {"gather by an index of 33 bits",
       "single",
       "(%i: tensor<1xi64>, %x: tensor<5x3xf32>) -> tensor<1x3xf32>",
       "%0 = tn.gather %x, %i {axis = 0 : i64} : (tensor<5x3xf32>, tensor<1xi64>) -> "
       "tensor<1x3xf32> return %0 : tensor<1x3xf32>",
       {1},
       {(int64_t(1) << 32) + 1},
       TENON_KERNEL_INDEX_RANGE},
      {"gather from the extremes",
       "single",
       "(%i: tensor<2xi64>, %x: tensor<5x3xf32>) -> tensor<2x3xf32>",
       "%0 = tn.gather %x, %i {axis = 0 : i64} : (tensor<5x3xf32>, tensor<2xi64>) -> "
       "tensor<2x3xf32> return %0 : tensor<2x3xf32>",
       {1, 1},
       {INT64_MIN, INT64_MAX},
       TENON_KERNEL_INDEX_RANGE},
      {"gather from an empty dim",
       "single",
       "(%i: tensor<1xi64>, %x: tensor<0x3xf32>) -> tensor<1x3xf32>",
       "%0 = tn.gather %x, %i {axis = 0 : i64} : (tensor<0x3xf32>, tensor<1xi64>) -> "
       "tensor<1x3xf32> return %0 : tensor<1x3xf32>",
       {},
       {0},
       TENON_KERNEL_INDEX_RANGE},
      {"gather of single elements",
       "single",
       "(%i: tensor<2x19xi64>, %x: tensor<5x19xf32>) -> tensor<2x19xf32>",
       "%0 = tn.gather_elements %x, %i {axis = 0 : i64} : (tensor<5x19xf32>, tensor<2x19xi64>) -> "
       "tensor<2x19xf32> return %0 : tensor<2x19xf32>",
       {-5},
       {4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4,
        4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 7},
       TENON_KERNEL_INDEX_RANGE},
      {"gather of tuples",
       "single",
       "(%i: tensor<3x2xi64>, %x: tensor<4x5x7xf32>) -> tensor<3x7xf32>",
       "%0 = tn.gather_nd %x, %i {batchDims = 0 : i64} : (tensor<4x5x7xf32>, tensor<3x2xi64>) -> "
       "tensor<3x7xf32> return %0 : tensor<3x7xf32>",
       {3, 4, -4, -5, 0, 0},
       {3, 4, -4, -5, 4, 0},
       TENON_KERNEL_INDEX_RANGE},
      {"scatter of single elements",
       "single",
       "(%i: tensor<2x3xi64>, %x: tensor<5x3xf32>, %u: tensor<2x3xf32>) -> tensor<5x3xf32>",
       "%0 = tn.scatter_elements <add> %x, %i, %u {axis = 0 : i64} : "
       "(tensor<5x3xf32>, tensor<2x3xi64>, tensor<2x3xf32>) -> tensor<5x3xf32> "
       "return %0 : tensor<5x3xf32>",
       {4, -5, 0, 0, 0, 0},
       {4, 0, 0, 0, 0, 5},
       TENON_KERNEL_INDEX_RANGE},
      {"scatter of tuples",
       "single",
       "(%i: tensor<3x1xi64>, %x: tensor<5x3xf32>, %u: tensor<3x3xf32>) -> tensor<5x3xf32>",
       "%0 = tn.scatter_nd <none> %x, %i, %u : "
       "(tensor<5x3xf32>, tensor<3x1xi64>, tensor<3x3xf32>) -> tensor<5x3xf32> "
       "return %0 : tensor<5x3xf32>",
       {4, -5, 0},
       {4, -6, 0},
       TENON_KERNEL_INDEX_RANGE},
      {"norm of gathered rows",
       "rows",
       "(%i: tensor<3xi64>, %x: tensor<5x100xf32>) -> tensor<3x100xf32>",
       "%0 = tn.gather %x, %i {axis = 0 : i64} : (tensor<5x100xf32>, tensor<3xi64>) -> "
       "tensor<3x100xf32> %1 = tn.layer_norm %0 {axis = 1 : i64, epsilon = 1.0e-05 : f64, "
       "operandSegmentSizes = array<i32: 1, 0, 0>} : (tensor<3x100xf32>) -> tensor<3x100xf32> "
       "return %1 : tensor<3x100xf32>",
       {0, -5, 4},
       {0, 999999, 0},
       TENON_KERNEL_INDEX_RANGE},
      {"sum of gathered rows",
       "single",
       "(%i: tensor<3xi64>, %x: tensor<5x40xf32>) -> tensor<3xf32>",
       "%0 = tn.gather %x, %i {axis = 0 : i64} : (tensor<5x40xf32>, tensor<3xi64>) -> "
       "tensor<3x40xf32> %1 = tn.reduce <sum> %0 {axes = array<i64: 1>, keepdims = false} : "
       "(tensor<3x40xf32>) -> tensor<3xf32> return %1 : tensor<3xf32>",
       {0, -5, 4},
       {0, 5, 0},
       TENON_KERNEL_INDEX_RANGE},
      {"division",
       "elementwise",
       "(%i: tensor<2x19xi32>, %x: tensor<2x19xi32>) -> tensor<2x19xi32>",
       "%0 = tn.div %x, %i : (tensor<2x19xi32>, tensor<2x19xi32>) -> tensor<2x19xi32> "
       "return %0 : tensor<2x19xi32>",
       {3, -1, 7, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1,
        1, 1,  1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 2},
       {1},
       TENON_KERNEL_ARITHMETIC},
      {"division of bytes",
       "elementwise",
       "(%i: tensor<3xui8>) -> tensor<3xui8>",
       "%7 = tn.constant dense<7> : tensor<ui8> : tensor<ui8> "
       "%0 = tn.div %7, %i : (tensor<ui8>, tensor<3xui8>) -> tensor<3xui8> "
       "return %0 : tensor<3xui8>",
       {3, 255, 7},
       {3, 255, 0},
       TENON_KERNEL_ARITHMETIC},
      {"division that overflows",
       "elementwise",
       "(%i: tensor<3xi8>) -> tensor<3xi8>",
       "%7 = tn.constant dense<-128> : tensor<i8> : tensor<i8> "
       "%0 = tn.div %7, %i : (tensor<i8>, tensor<3xi8>) -> tensor<3xi8> "
       "return %0 : tensor<3xi8>",
       {3, -1, 7},
       {3, -1, 0},
       TENON_KERNEL_ARITHMETIC},
      {"remainder",
       "elementwise",
       "(%i: tensor<3xi64>) -> tensor<3xi64>",
       "%7 = tn.constant dense<-9223372036854775808> : tensor<i64> : tensor<i64> "
       "%0 = tn.mod %7, %i : (tensor<i64>, tensor<3xi64>) -> tensor<3xi64> "
       "return %0 : tensor<3xi64>",
       {3, -1, -7},
       {3, 0, 1},
       TENON_KERNEL_ARITHMETIC},
      {"remainder as in C, of rank 0",
       "elementwise",
       "(%i: tensor<ui64>) -> tensor<ui64>",
       "%0 = tn.mod %i, %i {fmod} : (tensor<ui64>, tensor<ui64>) -> tensor<ui64> "
       "return %0 : tensor<ui64>",
       {3},
       {0},
       TENON_KERNEL_ARITHMETIC},
      {"division behind a product",
       "contraction",
       "(%i: tensor<33xi32>, %a: tensor<5x21xf32>, %b: tensor<21x33xf32>) -> tensor<5x33xi32>",
       "%0 = tn.matmul %a, %b : (tensor<5x21xf32>, tensor<21x33xf32>) -> tensor<5x33xf32> "
       "%1 = tn.cast %0 : (tensor<5x33xf32>) -> tensor<5x33xi32> "
       "%2 = tn.div %1, %i : (tensor<5x33xi32>, tensor<33xi32>) -> tensor<5x33xi32> "
       "return %2 : tensor<5x33xi32>",
       {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1,
        1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1},
       {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1,
        1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 0},
       TENON_KERNEL_ARITHMETIC},
      {"constraint",
       "elementwise",
       "(%i: tensor<i1>, %x: tensor<2x19xf32>) -> tensor<2x19xf32>",
       "%0 = tn.require %x, %i {what = \"it holds\"} : (tensor<2x19xf32>, tensor<i1>) -> "
       "tensor<2x19xf32> %1 = tn.relu %0 : tensor<2x19xf32> return %1 : tensor<2x19xf32>",
       {1},
       {0},
       TENON_KERNEL_CONSTRAINT},
      {"constraint on indices that a gather uses",
       "single",
       "(%i: tensor<2xi64>, %x: tensor<5x19xf32>) -> tensor<2x19xf32>",
       "%n = tn.constant dense<3> : tensor<i64> : tensor<i64> "
       "%m = tn.reduce <max> %i {axes = array<i64: 0>, keepdims = false} : (tensor<2xi64>) -> "
       "tensor<i64> %c = tn.compare %m <lt> %n : (tensor<i64>, tensor<i64>) -> tensor<i1> "
       "%j = tn.require %i, %c {what = \"indices are below 3\"} : (tensor<2xi64>, tensor<i1>) -> "
       "tensor<2xi64> %0 = tn.gather %x, %j {axis = 0 : i64} : (tensor<5x19xf32>, tensor<2xi64>) "
       "-> tensor<2x19xf32> return %0 : tensor<2x19xf32>",
       {1, 2},
       {5, 3},
       TENON_KERNEL_CONSTRAINT},
  };
  return cases;
}

/// The reference's error for a status.
inline ErrorId errorOf(int32_t status) {
  return status == TENON_KERNEL_INDEX_RANGE  ? ErrorId::RunIndexOutOfRange
         : status == TENON_KERNEL_ARITHMETIC ? ErrorId::RunBadArithmetic
                                             : ErrorId::RunConstraint;
}

/// What a case runs on: the integers first, ones everywhere else.
struct FailureRun {
  std::string text;
  std::vector<reference::Tensor> inputs;
  /// Of the types and dims of the results.
  std::vector<reference::Tensor> results;
  /// What the reference says.
  Status status;
};
FailureRun makeFailureRun(const FailureCase &each, const std::vector<int64_t> &integers);

} // namespace tenon::codegen
