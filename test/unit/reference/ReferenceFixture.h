// What the tests of the reference interpreter share: tensors from lists, running a function given
// as text, and expectations on results. Relies on the parser, which verifies the IR.
#pragma once

#include "compiler/reference/Interpreter.h"

#include "mlir/IR/BuiltinOps.h"

#include <gtest/gtest.h>
#include <limits>
#include <random>
#include <string>
#include <vector>

namespace tenon::reference {

inline constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
inline constexpr double kInf = std::numeric_limits<double>::infinity();

/// A tensor whose elements are converted to its type.
Tensor make(DType dtype, std::vector<int64_t> dims, const std::vector<double> &values);
inline Tensor floats(std::vector<int64_t> dims, const std::vector<double> &values) {
  return make(DType::F32, std::move(dims), values);
}
/// Seeded values in [-1, 1).
Tensor random(DType dtype, std::vector<int64_t> dims, unsigned seed);
std::vector<double> valuesOf(const Tensor &tensor);

struct ReferenceTest : testing::Test {
  mlir::MLIRContext context;
  tn::WeightStore weights;
  std::string message;

  ReferenceTest();
  mlir::OwningOpRef<mlir::ModuleOp> parse(const std::string &text);

  /// Evaluates a module's only function.
  Result<std::vector<Tensor>> run(mlir::ModuleOp module, llvm::ArrayRef<Tensor> inputs,
                                  Precision precision = Precision::Native);
  /// Evaluates one operation on %0, %1, ...: `op` is its text up to the colon, the types of the
  /// operands are those of the tensors. Fails the test if anything goes wrong.
  Tensor evaluate(const std::string &op, llvm::ArrayRef<Tensor> inputs, const std::string &result,
                  Precision precision = Precision::Native);
  /// The same, expecting an error.
  ErrorId errorOf(const std::string &op, llvm::ArrayRef<Tensor> inputs, const std::string &result);

private:
  std::string functionOf(const std::string &op, llvm::ArrayRef<Tensor> inputs,
                         const std::string &result);
};

/// Same type, dims and values (NaN equals NaN).
void expectTensor(const Tensor &actual, std::vector<int64_t> dims,
                  const std::vector<double> &values, double tolerance = 0);

} // namespace tenon::reference
