// Compares what a function computes before and after a pass, by the reference on seeded inputs.
// Relies on small shapes: a test's graph, not a model.
#include "tools/tenon-opt/CheckNumbers.h"

#include "compiler/graph/Constraints.h"
#include "compiler/graph/Shape.h"
#include "compiler/reference/Interpreter.h"

#include <cmath>

using namespace mlir;

namespace tenon::tools {
namespace {

/// A sequence of numbers in [0, 1) that depends on nothing but the seed.
class Sequence {
public:
  explicit Sequence(uint64_t seed) : state(seed * 0x9E3779B97F4A7C15 + 1) {}
  double next() {
    state = state * 6364136223846793005 + 1442695040888963407;
    return static_cast<double>(state >> 40) / (1 << 24);
  }

private:
  uint64_t state;
};

/// Floating point in [low, low + 1), integers 0 or 1. Each row of integers begins with a 1: as a
/// mask it shows a key, since what a query sees that sees none depends on the precision.
Result<reference::Tensor> makeTensor(RankedTensorType type, ArrayRef<int64_t> dims, uint64_t seed,
                                     double low) {
  std::optional<DType> dtype = reference::dtypeOf(type.getElementType());
  if (!dtype) {
    return reference::badOperand("an input has an element type that the reference does not hold");
  }
  bool isFloat = isa<FloatType>(type.getElementType());
  TENON_ASSIGN(reference::Tensor tensor, reference::Tensor::create(DType::F64, dims));
  Sequence sequence(seed);
  for (int64_t i = 0; i < tensor.count(); ++i) {
    double number = sequence.next();
    bool isFirst = !dims.empty() && i % dims.back() == 0;
    tensor.as<double>()[i] = isFloat ? low + number : isFirst ? 1 : std::floor(2 * number);
  }
  return reference::convert(tensor, *dtype);
}

Result<std::vector<reference::Tensor>> evaluate(func::FuncOp function, ArrayRef<int64_t> symbols,
                                                tn::WeightStore &weights) {
  SmallVector<reference::Tensor> inputs;
  for (Type argument : function.getArgumentTypes()) {
    SmallVector<int64_t> dims;
    for (AffineExpr dim : tn::getDims(argument)) {
      std::optional<int64_t> size = dim ? tn::evaluate(dim, symbols) : std::nullopt;
      if (!size) {
        return reference::badOperand("an input has a dim without a value");
      }
      dims.push_back(*size);
    }
    TENON_ASSIGN(reference::Tensor tensor,
                 makeTensor(cast<RankedTensorType>(argument), dims, inputs.size() + 1, -0.5));
    inputs.push_back(std::move(tensor));
  }
  reference::InterpreterOptions options;
  options.threads = 1;
  return reference::Interpreter(&weights, options).evaluate(function, inputs);
}

/// What two ways of rounding may make of the largest magnitude.
double toleranceOf(DType dtype) {
  return dtype == DType::F16 ? 1e-3 : dtype == DType::BF16 ? 1.6e-2 : 1e-4;
}

} // namespace

void fillWeights(ModuleOp module, tn::WeightStore &weights) {
  module.walk([&](tn::WeightOp op) {
    if (weights.find(op.getId())) {
      return;
    }
    RankedTensorType type = op.getType();
    uint64_t seed = 0;
    for (char letter : op.getId()) {
      seed = seed * 31 + static_cast<unsigned char>(letter);
    }
    Result<reference::Tensor> tensor = makeTensor(type, type.getShape(), seed, 0.5);
    if (tensor) {
      weights.addOwned(op.getId(),
                       std::vector<char>(tensor->bytes(), tensor->bytes() + tensor->byteCount()),
                       "seeded by tenon-opt");
    }
  });
}

Result<std::vector<reference::Tensor>> evaluateSeeded(ModuleOp module, tn::WeightStore &weights) {
  SmallVector<int64_t> symbols;
  tn::SymbolList list(module);
  for (const tn::Symbol &symbol : list.symbols()) {
    symbols.push_back(std::clamp<int64_t>(symbols.size() + 2, symbol.min, symbol.max));
  }
  std::vector<reference::Tensor> all;
  for (func::FuncOp function : module.getOps<func::FuncOp>()) {
    tn::satisfyConstraints(function, symbols);
    TENON_ASSIGN(std::vector<reference::Tensor> results, evaluate(function, symbols, weights));
    llvm::append_range(all, results);
  }
  return all;
}

std::string difference(ArrayRef<reference::Tensor> before, ArrayRef<reference::Tensor> after) {
  if (before.size() != after.size()) {
    return "another number of results";
  }
  for (auto [index, pair] : llvm::enumerate(llvm::zip_equal(before, after))) {
    auto [left, right] = pair;
    std::string place = "result " + std::to_string(index);
    if (left.dims() != right.dims() || left.dtype() != right.dtype()) {
      return place + " has another type";
    }
    Result<reference::Tensor> a = reference::convert(left, DType::F64);
    Result<reference::Tensor> b = reference::convert(right, DType::F64);
    if (!a || !b) {
      return place + " cannot be compared";
    }
    double largest = 0;
    double error = 0;
    for (int64_t i = 0; i < a->count(); ++i) {
      double x = a->as<double>()[i];
      double y = b->as<double>()[i];
      if (std::isnan(x) != std::isnan(y)) {
        return place + " is not a number on one side";
      }
      if (x == y || std::isnan(x)) {
        continue;
      }
      largest = std::max({largest, std::abs(x), std::abs(y)});
      error = std::max(error, std::abs(x - y));
    }
    if (error > toleranceOf(left.dtype()) * largest) {
      return place + " differs by " + std::to_string(error) + " of " + std::to_string(largest);
    }
  }
  return "";
}

} // namespace tenon::tools
