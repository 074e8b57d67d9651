// Imports the model twice with all inner values as outputs: as it is compiled, for the dims, and
// with constant sizes, for the numbers.
#include "tools/debug/Values.h"

#include "compiler/graph/Tn.h"

using namespace mlir;

namespace tenon::debug {
namespace {

onnx::Port portOf(const std::string &name, Type type, ArrayRef<tn::Symbol> symbols, DType dtype) {
  onnx::Port port{name, dtype, {}};
  for (AffineExpr dim : tn::getDims(type)) {
    AffineConstantExpr constant = dyn_cast_or_null<AffineConstantExpr>(dim);
    AffineSymbolExpr symbol = dyn_cast_or_null<AffineSymbolExpr>(dim);
    if (symbol && symbol.getPosition() < symbols.size()) {
      port.dims.emplace_back(symbols[symbol.getPosition()].name);
    } else {
      // An expression over symbols: its size in this run takes its place.
      port.dims.emplace_back(constant ? constant.getValue() : int64_t{-1});
    }
  }
  return port;
}

/// The dims as the compiled model has them.
Status recordDims(const Trial &trial, Recording &recording) {
  pipeline::CompileOptions import = trial.compile;
  import.extraOutputs = {"*"};
  import.stopAfter = pipeline::Phase::Import;
  import.output.clear();
  pipeline::CompileHooks hooks = trial.hooks;
  hooks.afterPhase = nullptr;
  hooks.afterPass = [&](std::string_view, ModuleOp module, tn::WeightStore &) {
    func::FuncOp function = *module.getOps<func::FuncOp>().begin();
    tn::SymbolList symbols(module);
    auto add = [&](const std::string &name, Type type, bool isInput) {
      std::optional<DType> dtype =
          reference::dtypeOf(cast<RankedTensorType>(type).getElementType());
      if (dtype) {
        RecordedValue &value = recording.values[name];
        value.port = portOf(name, type, symbols.symbols(), *dtype);
        value.isInput = isInput;
      }
    };
    for (auto [name, type] :
         llvm::zip_equal(argumentNames(function), function.getArgumentTypes())) {
      add(name, type, true);
    }
    for (auto [name, type] : llvm::zip_equal(resultNames(function), function.getResultTypes())) {
      if (!recording.values.contains(name)) {
        add(name, type, false);
      }
    }
    for (const tn::Symbol &symbol : symbols.symbols()) {
      recording.ranges[symbol.name] = {symbol.min, symbol.max};
    }
    return Status::ok();
  };
  return pipeline::compile(import, hooks).takeStatus();
}

} // namespace

Result<Recording> recordValues(const Trial &trial) {
  Recording recording;
  TENON_TRY(recordDims(trial, recording));
  ReferenceModel referenceModel;
  TENON_TRY(referenceModel.importFile(trial.compile.model, {"*"}, trial.inputs, trial.compile));
  func::FuncOp function = referenceModel.function();
  std::map<std::string, reference::Tensor> tensors;
  std::map<std::string, bool> known;
  llvm::DenseMap<Value, reference::Tensor> results;
  reference::Hooks hooks;
  hooks.observe = [&](Operation *op, ArrayRef<reference::Tensor>,
                      ArrayRef<reference::Tensor> made) {
    for (auto [result, tensor] : llvm::zip_equal(op->getResults(), made)) {
      results[result] = tensor;
    }
    return Status::ok();
  };
  // What the reference had before an error is recorded all the same.
  (void)referenceModel.evaluate(hooks);
  Operation *end = function.getBody().front().getTerminator();
  for (auto [name, value] : llvm::zip_equal(referenceModel.names(), end->getOperands())) {
    if (results.contains(value)) {
      tensors[name] = results[value];
      known[name] = isa<tn::ConstantOp, tn::WeightOp, tn::SizesOp>(value.getDefiningOp());
    }
  }
  for (const NamedTensor &input : trial.inputs) {
    tensors[input.name] = input.tensor;
  }
  std::erase_if(recording.values,
                [&](const auto &entry) { return !tensors.contains(entry.first); });
  for (auto &[name, value] : recording.values) {
    value.tensor = tensors[name];
    value.isKnown = known[name];
    for (auto [index, size] : llvm::enumerate(value.tensor.dims())) {
      if (value.port.dims[index] == std::variant<int64_t, std::string>(int64_t{-1})) {
        value.port.dims[index] = size;
      }
    }
  }
  return recording;
}

std::vector<ShapeArgument> shapesOf(const std::vector<onnx::Port> &inputs,
                                    const Recording &recording) {
  std::vector<ShapeArgument> shapes;
  for (const onnx::Port &input : inputs) {
    ShapeArgument shape{.input = input.name, .dims = {}};
    bool isConstant = true;
    for (const std::variant<int64_t, std::string> &dim : input.dims) {
      const int64_t *size = std::get_if<int64_t>(&dim);
      auto range = size ? std::pair(*size, *size) : recording.ranges.at(std::get<std::string>(dim));
      shape.dims.push_back({range.first, range.second});
      isConstant = isConstant && size;
    }
    if (!isConstant) {
      shapes.push_back(std::move(shape));
    }
  }
  return shapes;
}

} // namespace tenon::debug
