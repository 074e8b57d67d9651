// Relies on the import to have made inner values results (ImportOptions::extraOutputs); results
// that nobody observes go, and what only they need is dead code.
#include "compiler/opt/precision/Observe.h"

#include "compiler/graph/Shape.h"
#include "compiler/graph/TnRare.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "support/text/Text.h"

using namespace mlir;

namespace tenon::opt {
namespace {

/// The input or result of that name; null if there is none.
Value find(func::FuncOp function, StringRef name) {
  Operation *end = function.getBody().front().getTerminator();
  for (auto [i, value] : llvm::enumerate(end->getOperands())) {
    if (function.getResultAttrOfType<StringAttr>(i, "tn.name") == name) {
      return value;
    }
  }
  for (auto [i, value] : llvm::enumerate(function.getArguments())) {
    if (function.getArgAttrOfType<StringAttr>(i, "tn.name") == name) {
      return value;
    }
  }
  return nullptr;
}

/// Builds the results of observations.
class Observers {
public:
  explicit Observers(OpBuilder &builder) : b(builder) {}

  void add(const Observation &observation, Value value);

  SmallVector<Value> results;
  SmallVector<Attribute> attributes;

private:
  void addResult(const Observation &observation, StringRef what, Value result) {
    std::string name = strCat(observation.name, ":", std::string_view(what));
    results.push_back(result);
    attributes.push_back(b.getDictionaryAttr(b.getNamedAttr("tn.name", b.getStringAttr(name))));
  }
  Value reduced(Value value, tn::ReduceKind kind, ArrayRef<int64_t> axes) {
    tn::Dims dims;
    for (auto [i, dim] : llvm::enumerate(tn::getDims(value.getType()))) {
      if (!llvm::is_contained(axes, static_cast<int64_t>(i))) {
        dims.push_back(dim);
      }
    }
    return tn::ReduceOp::create(b, value.getLoc(), tn::makeTensor(dims, b.getF32Type()), value,
                                kind, axes, /*keepdims=*/false);
  }
  void addHistogram(const Observation &observation, Value value);
  void addChannels(const Observation &observation, Value value);

  OpBuilder &b;
};

void Observers::addHistogram(const Observation &observation, Value value) {
  Location location = value.getLoc();
  AffineExpr one = b.getAffineConstantExpr(1);
  tn::Dims line = {one, tn::elementCount(b.getContext(), tn::getDims(value.getType()))};
  Value flat = tn::ReshapeOp::create(b, location, tn::makeTensor(line, b.getF32Type()), value);
  addResult(observation, "min", reduced(flat, tn::ReduceKind::min, {1}));
  addResult(observation, "max", reduced(flat, tn::ReduceKind::max, {1}));
  RankedTensorType counts = RankedTensorType::get({1, kHistogramBins}, b.getI32Type());
  addResult(observation, "histogram",
            tn::HistogramOp::create(b, location, counts, flat, kHistogramBits));
}

void Observers::addChannels(const Observation &observation, Value value) {
  int64_t rank = cast<RankedTensorType>(value.getType()).getRank();
  int64_t axis = *observation.channels < 0 ? rank + *observation.channels : *observation.channels;
  SmallVector<int64_t> others;
  for (int64_t i = 0; i < rank; ++i) {
    if (i != axis) {
      others.push_back(i);
    }
  }
  Value square = tn::MulOp::create(b, value.getLoc(), value, value);
  addResult(observation, "means", reduced(value, tn::ReduceKind::mean, others));
  addResult(observation, "lows", reduced(value, tn::ReduceKind::min, others));
  addResult(observation, "highs", reduced(value, tn::ReduceKind::max, others));
  addResult(observation, "squares", reduced(square, tn::ReduceKind::mean, others));
}

void Observers::add(const Observation &observation, Value value) {
  if (!getElementTypeOrSelf(value).isF32()) {
    RankedTensorType wide = tn::makeTensor(tn::getDims(value.getType()), b.getF32Type());
    value = tn::CastOp::create(b, value.getLoc(), wide, value);
  }
  if (observation.hasHistogram) {
    addHistogram(observation, value);
  }
  if (observation.channels) {
    addChannels(observation, value);
  }
}

} // namespace

Status observe(ModuleOp module, const std::vector<Observation> &observations) {
  func::FuncOp function = *module.getOps<func::FuncOp>().begin();
  Operation *end = function.getBody().front().getTerminator();
  OpBuilder b(end);
  Observers observers(b);
  for (const Observation &observation : observations) {
    Value value = find(function, observation.name);
    if (!value || !isa<FloatType>(getElementTypeOrSelf(value))) {
      return Status::error(
          ErrorId::BadArgument,
          strCat("'", observation.name, "' is not a tensor of floats that can be observed"),
          "keep the layer that reads it in FP32: tenon quantize --keep NODE");
    }
    observers.add(observation, value);
  }
  end->setOperands(observers.results);
  function.setFunctionType(
      b.getFunctionType(function.getArgumentTypes(), TypeRange(ValueRange(observers.results))));
  function.setResAttrsAttr(b.getArrayAttr(observers.attributes));
  return Status::ok();
}

} // namespace tenon::opt
