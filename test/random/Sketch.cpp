// Relies on the importer for the types of results; a whole import a node, which for a dozen nodes
// takes less time than compiling one region.
#include "test/random/Sketch.h"

#include "compiler/frontend/onnx/Onnx.h"
#include "compiler/graph/Shape.h"
#include "compiler/reference/Tensor.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/MLIRContext.h"

#include <algorithm>
#include <cmath>
#include <limits>

using namespace mlir;

namespace tenon::random {
namespace {

using namespace onnx::test;

constexpr int64_t kOpsets[] = {9, 11, 13, 17, 18, 21, 23, 24};
constexpr int64_t kLargest = 6000;
constexpr int64_t kSizes[] = {1, 2, 3, 2, 3, 4, 5, 7, 8, 16, 17, 33};

double limitOf(DType type) {
  switch (type) {
  case DType::F64:
    return std::numeric_limits<double>::max();
  case DType::F32:
    return std::numeric_limits<float>::max();
  case DType::BF16:
    return 3.3895313892515355e38;
  default:
    return 65504;
  }
}

bool isUnsigned(DType type) {
  return type == DType::U8 || type == DType::U16 || type == DType::U32 || type == DType::U64 ||
         type == DType::Bool;
}

} // namespace

int64_t Value::count() const {
  int64_t product = 1;
  for (int64_t size : sizes) {
    product *= size;
  }
  return product;
}

bool Value::isFixed() const {
  return llvm::all_of(dims, [](const Dim &dim) { return std::holds_alternative<int64_t>(dim); });
}

int onnxType(DType type) {
  switch (type) {
  case DType::F32:
    return 1;
  case DType::U8:
    return 2;
  case DType::I8:
    return 3;
  case DType::U16:
    return 4;
  case DType::I16:
    return 5;
  case DType::I32:
    return 6;
  case DType::I64:
    return 7;
  case DType::Bool:
    return 9;
  case DType::F16:
    return 10;
  case DType::F64:
    return 11;
  case DType::U32:
    return 12;
  case DType::U64:
    return 13;
  default:
    return 16;
  }
}

std::string encode(DType type, const std::vector<double> &elements) {
  int64_t count = static_cast<int64_t>(elements.size());
  Result<reference::Tensor> wide = reference::Tensor::create(DType::F64, {count});
  std::copy(elements.begin(), elements.end(), wide->as<double>());
  Result<reference::Tensor> tensor = reference::convert(*wide, type);
  return std::string(tensor->bytes(), tensor->byteCount());
}

std::vector<double> elementsOf(Random &draw, DType type, int64_t count, const Content &content) {
  bool isFloat = reference::isFloat(type);
  std::vector<double> elements;
  for (int64_t i = 0; i < count; ++i) {
    double low = isUnsigned(type) ? std::max(content.low, 0.0) : content.low;
    double high = std::max(type == DType::Bool ? 1 : content.high, low);
    double value = low + draw.unit() * (high - low);
    if (!isFloat || content.isWhole) {
      value = static_cast<double>(draw.within(std::ceil(low), std::floor(high)));
    }
    if (content.hasExtremes && isFloat && draw.chance(0.2)) {
      double infinity = std::numeric_limits<double>::infinity();
      value = draw.one<double>(
          {0.0, -0.0, infinity, -infinity, std::nan(""), limitOf(type), -limitOf(type), 1e-5});
    }
    elements.push_back(content.isNonzero && value == 0 ? 1 : value);
  }
  return elements;
}

/// Imports what there is of the model.
struct Sketch::Checker {
  Checker() : context(MLIRContext::Threading::DISABLED) {
    context.loadDialect<tn::TnDialect, func::FuncDialect>();
    context.getDiagEngine().registerHandler([](Diagnostic &) { return success(); });
  }
  MLIRContext context;
};

Sketch::Sketch(uint64_t seed, bool hasRelations)
    : draw(seed), opset(kOpsets[draw.below(std::size(kOpsets))]), hasRelations(hasRelations),
      checker(std::make_unique<Checker>()) {
  int64_t count = draw.below(4);
  for (int64_t i = 0; i < count; ++i) {
    Symbol symbol{.name = std::string(1, "NST"[i]),
                  .value = draw.of(std::vector<int64_t>(std::begin(kSizes), std::end(kSizes)))};
    bool canBeEmpty = draw.chance(0.1);
    symbol.value = canBeEmpty && draw.chance(0.5) ? 0 : symbol.value;
    symbol.min = canBeEmpty ? 0 : draw.chance(0.7) ? 1 : symbol.value;
    symbol.max = draw.chance(0.5) ? 64 : symbol.value + draw.below(4);
    symbols.push_back(symbol);
  }
}

Sketch::~Sketch() = default;

DType Sketch::floating() {
  double at = draw.unit();
  return at < 0.75 ? DType::F32 : at < 0.85 ? DType::F64 : at < 0.93 ? DType::F16 : DType::BF16;
}

DType Sketch::integer() {
  return draw.one({DType::I64, DType::I64, DType::I32, DType::I32, DType::I8, DType::U8, DType::I16,
                   DType::U16, DType::U32, DType::U64});
}

Dim Sketch::dim() {
  if (!symbols.empty() && draw.chance(0.4)) {
    return draw.of(symbols).name;
  }
  return draw.chance(0.02) ? int64_t{0} : kSizes[draw.below(std::size(kSizes))];
}

Dim Sketch::symbol(int64_t size, int64_t min, int64_t max) {
  symbols.push_back(
      {.name = "R" + std::to_string(symbols.size()), .value = size, .min = min, .max = max});
  return symbols.back().name;
}

int64_t Sketch::sizeOf(const Dim &dim) const {
  if (const int64_t *size = std::get_if<int64_t>(&dim)) {
    return *size;
  }
  for (const Symbol &symbol : symbols) {
    if (symbol.name == std::get<std::string>(dim)) {
      return symbol.value;
    }
  }
  return 1;
}

std::vector<Dim> Sketch::shape(int64_t minRank, int64_t maxRank) {
  int64_t rank =
      draw.within(minRank, std::min(maxRank, std::max<int64_t>(minRank, draw.within(1, 5))));
  std::vector<Dim> dims;
  int64_t count = 1;
  for (int64_t i = 0; i < rank; ++i) {
    Dim next = dim();
    if (count * sizeOf(next) > kLargest / 4) {
      next = int64_t{1};
    }
    count *= std::max<int64_t>(sizeOf(next), 1);
    dims.push_back(next);
  }
  return dims;
}

Value Sketch::constant(DType type, std::vector<int64_t> dims, const std::vector<double> &elements) {
  Value value{.name = freshName(), .type = type, .dims = {dims.begin(), dims.end()}, .sizes = dims};
  std::string bytes = encode(type, elements);
  if (draw.chance(0.6)) {
    initializers.push_back(rawTensor(value.name, onnxType(type), dims, bytes));
  } else {
    nodes.push_back(
        onnx::test::node("Constant", {}, {value.name},
                         {attrTensor("value", rawTensor("", onnxType(type), dims, bytes))}));
    operators.push_back("Constant");
  }
  return value;
}

Value Sketch::integers(const std::vector<int64_t> &elements, DType type) {
  return constant(type, {static_cast<int64_t>(elements.size())},
                  std::vector<double>(elements.begin(), elements.end()));
}

Value Sketch::source(DType type, std::vector<Dim> dims, Content content) {
  Value value{.name = "", .type = type, .dims = dims, .sizes = {}};
  for (const Dim &dim : dims) {
    value.sizes.push_back(sizeOf(dim));
  }
  if (value.isFixed() && draw.chance(0.35)) {
    Value made = constant(type, value.sizes, elementsOf(draw, type, value.count(), content));
    values.push_back(made);
    return made;
  }
  value.name = freshName();
  values.push_back(value);
  inputs.push_back({value, content});
  return value;
}

Value Sketch::operand(const Types &types, int64_t minRank, int64_t maxRank, Content content) {
  bool isPlain = content.low == -2 && content.high == 2 && !content.isNonzero;
  std::vector<const Value *> fitting;
  for (const Value &value : values) {
    if (llvm::is_contained(types, value.type) && value.rank() >= minRank &&
        value.rank() <= maxRank) {
      fitting.push_back(&value);
    }
  }
  if (!fitting.empty() && draw.chance(isPlain ? 0.75 : 0.2)) {
    // The latest ones more often: chains are longer.
    size_t from = draw.chance(0.6) && fitting.size() > 3 ? fitting.size() - 3 : 0;
    return *fitting[from + draw.below(fitting.size() - from)];
  }
  return source(draw.of(types), shape(minRank, maxRank), content);
}

Value Sketch::operandLike(DType type, const std::vector<Dim> &dims, Content content) {
  for (const Value &value : values) {
    bool isNamed = std::none_of(dims.begin(), dims.end(),
                                [](const Dim &dim) { return dim == Dim(std::string()); });
    if (isNamed && value.type == type && value.dims == dims && draw.chance(0.5)) {
      return value;
    }
  }
  return source(type, dims, content);
}

std::vector<Dim> Sketch::dimsLike(const Value &value) {
  std::vector<Dim> dims;
  for (const auto &[index, dim] : llvm::enumerate(value.dims)) {
    bool isStated = dim != Dim(std::string());
    if (isStated) {
      dims.push_back(dim);
    } else if (hasRelations) {
      // Another symbol that has the size of the expression in this run.
      dims.push_back(symbol(value.sizes[index], std::min<int64_t>(1, value.sizes[index]), 512));
    } else {
      dims.push_back(int64_t{1});
    }
  }
  return dims;
}

Value Sketch::partner(const Value &other, DType type, Content content) {
  for (const Value &value : values) {
    if (value.type == type && value.dims == other.dims && value.isFixed() && draw.chance(0.4)) {
      return value;
    }
  }
  std::vector<Dim> dims = dimsLike(other);
  if (draw.chance(0.4)) {
    dims.erase(dims.begin(), dims.begin() + draw.within(0, static_cast<int64_t>(dims.size())));
  }
  for (Dim &dim : dims) {
    dim = draw.chance(0.2) ? Dim(int64_t{1}) : dim;
  }
  if (draw.chance(0.1) && dims.size() < 5) {
    dims.insert(dims.begin(), Dim(draw.within(1, 3)));
  }
  return source(type, dims, content);
}

std::string Sketch::modelBytes(const std::vector<std::string> &outputs) const {
  GraphParts parts{.nodes = nodes, .inputs = {}, .outputs = {}, .initializers = initializers};
  for (const Port &port : inputs) {
    parts.inputs.push_back(valueInfo(port.value.name, onnxType(port.value.type), port.value.dims));
  }
  for (const std::string &name : outputs) {
    parts.outputs.push_back(Message().text(1, name));
  }
  return model(graph(parts), opset);
}

/// Adds the values that the last node made.
bool Sketch::learn(const std::vector<std::string> &names) {
  std::string bytes = modelBytes(names);
  tn::WeightStore store;
  Result<onnx::ImportResult> imported =
      onnx::importOnnx(std::as_bytes(std::span(bytes)), "", {}, checker->context, store);
  if (!imported || !imported->gaps.empty()) {
    lastRefusal = imported ? imported->gaps.front().why : imported.status().toString();
    return false;
  }
  func::FuncOp function = *imported->module->getOps<func::FuncOp>().begin();
  tn::SymbolList list(*imported->module);
  llvm::SmallVector<int64_t> at;
  for (const tn::Symbol &symbol : list.symbols()) {
    at.push_back(sizeOf(symbol.name));
  }
  std::vector<Value> made;
  for (auto [name, type] : llvm::zip_equal(names, function.getResultTypes())) {
    std::optional<DType> dtype = reference::dtypeOf(cast<RankedTensorType>(type).getElementType());
    Value value{.name = name, .type = dtype.value_or(DType::F32), .dims = {}, .sizes = {}};
    for (AffineExpr dim : tn::getDims(type)) {
      std::optional<int64_t> size = dim ? tn::evaluate(dim, at) : std::nullopt;
      if (!dtype || !size || *size < 0) {
        lastRefusal = "a dim that is not known";
        return false;
      }
      AffineSymbolExpr symbol = dyn_cast<AffineSymbolExpr>(dim);
      std::optional<int64_t> constant = tn::constantDim(dim);
      value.sizes.push_back(*size);
      value.dims.push_back(constant ? Dim(*constant)
                           : symbol ? Dim(list.symbols()[symbol.getPosition()].name)
                                    : Dim(std::string()));
    }
    if (value.count() > kLargest || value.rank() > 6) {
      lastRefusal = "too large";
      return false;
    }
    made.push_back(std::move(value));
  }
  values.insert(values.end(), made.begin(), made.end());
  results.insert(results.end(), names.begin(), names.end());
  return true;
}

bool Sketch::node(std::string_view op, const std::vector<std::string> &operands, int outputs,
                  std::vector<Message> attributes, std::string_view domain) {
  std::vector<std::string> names;
  for (int i = 0; i < outputs; ++i) {
    names.push_back(freshName());
  }
  nodes.push_back(onnx::test::node(op, operands, names, attributes, domain));
  if (!learn(names)) {
    nodes.pop_back();
    return false;
  }
  operators.emplace_back(op);
  read.insert(read.end(), operands.begin(), operands.end());
  return true;
}

Model Sketch::finish() {
  Model finished{
      .bytes = "", .symbols = symbols, .inputs = {}, .outputs = {}, .operators = operators};
  for (const std::string &name : results) {
    if (!llvm::is_contained(read, name) || draw.chance(0.15)) {
      finished.outputs.push_back(name);
    }
  }
  std::erase_if(inputs,
                [&](const Port &port) { return !llvm::is_contained(read, port.value.name); });
  finished.inputs = inputs;
  finished.bytes = modelBytes(finished.outputs);
  return finished;
}

} // namespace tenon::random
