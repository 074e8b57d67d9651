// Walks blocks in order, frees each tensor after its last use, and checks every result's type.
// Relies on the table of Evaluation.h; the IR must have passed the verifier.
#include "compiler/reference/Interpreter.h"

#include "compiler/graph/DataSizes.h"
#include "support/Check.h"
#include "support/Shape.h"
#include "support/text/Text.h"

#include "mlir/IR/BuiltinOps.h"

namespace tenon::reference {
namespace {

std::string nameOfOp(mlir::Operation *op) { return op->getName().getStringRef().str(); }

std::string text(llvm::ArrayRef<int64_t> dims) { return formatDims({dims.data(), dims.size()}); }

/// Error unless the tensor can be a value of that type.
Status checkType(const Tensor &tensor, mlir::Type type, Precision precision,
                 const std::string &what) {
  mlir::RankedTensorType tensorType = llvm::dyn_cast<mlir::RankedTensorType>(type);
  if (!tensorType || storageOf(tensorType.getElementType(), precision) != tensor.dtype()) {
    return badOperand(strCat(what, " is a tensor of ", nameOf(tensor.dtype()),
                             ", which its type does not allow"));
  }
  bool fits = tensorType.getRank() == tensor.rank();
  for (int64_t i = 0; fits && i < tensor.rank(); ++i) {
    fits = tensorType.isDynamicDim(i) || tensorType.getDimSize(i) == tensor.dims()[i];
  }
  if (!fits) {
    return badOperand(
        strCat(what, " has shape ", text(tensor.dims()), ", which its type does not allow"));
  }
  return Status::ok();
}

/// Symbols that data decides are learned from the first results that have them as dims.
void decideSymbols(mlir::Operation *op, llvm::ArrayRef<Tensor> results,
                   llvm::MutableArrayRef<int64_t> symbols) {
  for (auto [type, tensor] : llvm::zip_equal(op->getResultTypes(), results)) {
    for (auto [dim, size] : llvm::zip(tn::getDims(type), tensor.dims())) {
      mlir::AffineSymbolExpr symbol = llvm::dyn_cast_or_null<mlir::AffineSymbolExpr>(dim);
      if (symbol && symbol.getPosition() < symbols.size() &&
          symbols[symbol.getPosition()] == kUndecided) {
        symbols[symbol.getPosition()] = size;
      }
    }
  }
}

} // namespace

Interpreter::Interpreter(tn::WeightStore *weights, InterpreterOptions options)
    : weights(weights), options(options) {
  Result<std::unique_ptr<ThreadPool>> made = ThreadPool::create(std::max(options.threads, 1u));
  if (made) {
    pool = std::move(*made);
  } else {
    poolStatus = made.takeStatus();
  }
}

Result<std::vector<Tensor>> Interpreter::evaluateOp(mlir::Operation *op,
                                                    llvm::ArrayRef<Tensor> operands,
                                                    llvm::ArrayRef<int64_t> symbols) {
  llvm::SmallVector<int64_t> values(symbols);
  return runOp(op, operands, values, {});
}

Result<std::vector<Tensor>> Interpreter::runOp(mlir::Operation *op, llvm::ArrayRef<Tensor> operands,
                                               llvm::MutableArrayRef<int64_t> symbols,
                                               const Hooks &hooks) {
  TENON_TRY(poolStatus);
  TENON_CHECK(operands.size() == op->getNumOperands(), "one tensor for each operand");
  for (auto [index, tensor] : llvm::enumerate(operands)) {
    TENON_TRY(checkType(tensor, op->getOperand(index).getType(), options.precision,
                        strCat("operand ", index, " of ", nameOfOp(op))));
  }
  if (tn::RegionOp region = llvm::dyn_cast<tn::RegionOp>(op)) {
    return runBlock(region.getBody().front(), operands, symbols, hooks);
  }
  OpFunction function = findOpFunction(op->getName().getStringRef());
  if (!function) {
    return Status::error(ErrorId::InternalError,
                         "the reference interpreter does not know " + nameOfOp(op));
  }
  Evaluation evaluation{op, operands, symbols, weights, options.precision, *pool, {}};
  Status status = function(evaluation);
  if (!status) {
    return status.prefix(nameOfOp(op));
  }
  TENON_CHECK(evaluation.results.size() == op->getNumResults(), "one tensor for each result");
  for (auto [index, tensor] : llvm::enumerate(evaluation.results)) {
    TENON_TRY(checkType(tensor, op->getResult(index).getType(), options.precision,
                        strCat("result ", index, " of ", nameOfOp(op))));
  }
  return std::move(evaluation.results);
}

Result<std::vector<Tensor>> Interpreter::runBlock(mlir::Block &block, llvm::ArrayRef<Tensor> inputs,
                                                  llvm::MutableArrayRef<int64_t> symbols,
                                                  const Hooks &hooks) {
  TENON_CHECK(inputs.size() == block.getNumArguments(), "one tensor for each block argument");
  struct Live {
    Tensor tensor;
    size_t uses;
  };
  llvm::DenseMap<mlir::Value, Live> values;
  auto define = [&](mlir::Value value, const Tensor &tensor) {
    size_t uses = std::distance(value.use_begin(), value.use_end());
    if (uses != 0) {
      values[value] = {tensor, uses};
    }
  };
  auto take = [&](mlir::Operation &op) {
    std::vector<Tensor> operands;
    for (mlir::Value operand : op.getOperands()) {
      auto found = values.find(operand);
      TENON_CHECK(found != values.end(), "operands are defined before use, inside the block");
      operands.push_back(found->second.tensor);
      if (--found->second.uses == 0) {
        values.erase(found);
      }
    }
    return operands;
  };
  for (auto [argument, tensor] : llvm::zip_equal(block.getArguments(), inputs)) {
    define(argument, tensor);
  }
  for (mlir::Operation &op : block) {
    std::vector<Tensor> operands = take(op);
    if (op.hasTrait<mlir::OpTrait::IsTerminator>()) {
      return operands;
    }
    std::optional<std::vector<Tensor>> known;
    if (hooks.reuse) {
      known = hooks.reuse(&op, operands);
    }
    if (!known) {
      TENON_ASSIGN(known, runOp(&op, operands, symbols, hooks));
    }
    decideSymbols(&op, *known, symbols);
    if (hooks.observe) {
      TENON_TRY(hooks.observe(&op, operands, *known));
    }
    for (auto [result, tensor] : llvm::zip_equal(op.getResults(), *known)) {
      define(result, tensor);
    }
  }
  return std::vector<Tensor>();
}

Result<std::vector<Tensor>> Interpreter::evaluate(mlir::Region &region,
                                                  llvm::ArrayRef<Tensor> inputs,
                                                  llvm::ArrayRef<int64_t> symbols,
                                                  const Hooks &hooks) {
  TENON_CHECK(region.hasOneBlock(), "a region to evaluate has one block");
  mlir::Block &block = region.front();
  if (inputs.size() != block.getNumArguments()) {
    return Status::error(ErrorId::RunInputCount, strCat(inputs.size(), " inputs were given where ",
                                                        block.getNumArguments(), " are needed"));
  }
  std::vector<Tensor> converted;
  for (auto [index, input] : llvm::enumerate(inputs)) {
    bool widens = options.precision == Precision::F64 && isFloat(input.dtype());
    TENON_ASSIGN(Tensor tensor, convert(input, widens ? DType::F64 : input.dtype()));
    TENON_TRY(checkType(tensor, block.getArgument(index).getType(), options.precision,
                        strCat("input ", index)));
    converted.push_back(std::move(tensor));
  }
  llvm::SmallVector<int64_t> values(symbols);
  return runBlock(block, converted, values, hooks);
}

Result<std::vector<Tensor>> Interpreter::evaluate(mlir::func::FuncOp function,
                                                  llvm::ArrayRef<Tensor> inputs,
                                                  const Hooks &hooks) {
  TENON_ASSIGN(llvm::SmallVector<int64_t> symbols, bindSymbols(function, inputs));
  return evaluate(function.getBody(), inputs, symbols, hooks);
}

Result<llvm::SmallVector<int64_t>> bindSymbols(mlir::func::FuncOp function,
                                               llvm::ArrayRef<Tensor> inputs) {
  if (inputs.size() != function.getNumArguments()) {
    return Status::error(ErrorId::RunInputCount, strCat(inputs.size(), " inputs were given where ",
                                                        function.getNumArguments(), " are needed"));
  }
  tn::SymbolList declared;
  if (mlir::ModuleOp module = function->getParentOfType<mlir::ModuleOp>()) {
    declared = tn::SymbolList(module);
  }
  // A symbol that no input determines keeps its smallest value.
  llvm::SmallVector<int64_t> values;
  for (const tn::Symbol &symbol : declared.symbols()) {
    values.push_back(symbol.min);
  }
  for (const auto &[symbol, binder] : tn::sizeBinders(function)) {
    values[symbol] = kUndecided;
  }
  for (auto [type, input] : llvm::zip_equal(function.getArgumentTypes(), inputs)) {
    for (auto [dim, size] : llvm::zip(tn::getDims(type), input.dims())) {
      std::optional<tn::LinearDim> line = tn::linearDim(dim);
      if (!line) {
        continue;
      }
      if (line->symbol >= values.size()) {
        return badOperand("an input's type names a symbol that the module does not declare");
      }
      values[line->symbol] = (size - line->offset) / line->factor;
    }
  }
  for (auto [symbol, value] : llvm::zip_equal(declared.symbols(), values)) {
    if (value != kUndecided && (value < symbol.min || value > symbol.max)) {
      return Status::error(ErrorId::RunInputDim,
                           strCat(symbol.name, " is ", value, ", outside its range [", symbol.min,
                                  ", ", symbol.max, "]"));
    }
  }
  for (auto [index, input] : llvm::enumerate(inputs)) {
    tn::Dims dims = tn::getDims(function.getArgumentTypes()[index]);
    bool fits = int64_t(dims.size()) == input.rank();
    for (size_t i = 0; fits && i < dims.size(); ++i) {
      fits = tn::evaluate(dims[i], values) == input.dims()[i];
    }
    if (!fits) {
      return Status::error(ErrorId::RunInputMismatch,
                           strCat("input ", index, " has shape ", text(input.dims()),
                                  ", which contradicts its type or another input"));
    }
  }
  return values;
}

} // namespace tenon::reference
