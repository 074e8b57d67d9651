// Gives values their narrow type, with casts where narrow and wide meet: at the model's inputs and
// outputs and around what the rules keep in f32. Relies on casts fusing into their neighbours.
#include "compiler/opt/ConvertPrecision.h"

#include "compiler/graph/NarrowFloats.h"
#include "compiler/graph/Shape.h"
#include "compiler/graph/State.h"
#include "compiler/opt/Match.h"
#include "compiler/opt/Passes.h"
#include "compiler/opt/precision/ConvertPrecisionRules.h"
#include "compiler/opt/precision/ConvertPrecisionWeights.h"
#include "mlir/IR/TypeUtilities.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/raw_ostream.h"

using namespace mlir;

namespace tenon::opt {
namespace {

class Conversion {
public:
  Conversion(func::FuncOp model, tn::WeightStore &weights, FloatType narrowType,
             QuantizedProducts quantized, PrecisionRecord &conversionRecord)
      : function(model), block(model.getBody().front()), constants(weights),
        rules(model, constants, narrowType, quantized), narrowed(weights, narrowType),
        narrow(narrowType), f32(Float32Type::get(model.getContext())), record(conversionRecord) {}

  void run();

private:
  void convert(Operation *op);
  void narrowStates();
  void convertReturn(func::ReturnOp op);
  bool readsNarrowOnly(Operation *op) const;
  Value asNarrow(Value value);
  Value asWide(Value value);
  Value castAfter(Value value, FloatType element, bool clamped);
  void noteClamp(Value value);

  func::FuncOp function;
  Block &block;
  Constants constants;
  PrecisionRules rules;
  NarrowConstants narrowed;
  FloatType narrow;
  FloatType f32;
  PrecisionRecord &record;
  /// The values whose type was f32 and now is narrow.
  llvm::DenseSet<Value> converted;
  /// What was made: the narrow form of a wide value, the wide form of a narrow one.
  llvm::DenseMap<Value, Value> casts;
};

Value Conversion::castAfter(Value value, FloatType element, bool clamped) {
  Value &cast = casts[value];
  if (cast) {
    return cast;
  }
  OpBuilder builder(block.getParentOp()->getContext());
  builder.setInsertionPointAfterValue(value);
  Location location = value.getLoc();
  Value source = value;
  if (clamped) {
    FloatAttr low =
        builder.getF64FloatAttr(narrow.isF16() ? -tn::kLargestHalf : -tn::kLargestBFloat);
    FloatAttr high =
        builder.getF64FloatAttr(narrow.isF16() ? tn::kLargestHalf : tn::kLargestBFloat);
    source = tn::ClampOp::create(builder, location, value.getType(), value, low, high);
  }
  cast = castTo(builder, location, source, element);
  noteClamp(value);
  return cast;
}

void Conversion::noteClamp(Value value) {
  if (!converted.contains(value) && rules.needsClamp(value)) {
    Operation *producer = value.getDefiningOp();
    record.clamped.push_back({value.getLoc(), producer->getName().getStringRef().str(), kClamped});
  }
}

/// `value` may still have the type that it had before.
Value Conversion::asNarrow(Value value) {
  if (converted.contains(value)) {
    return value;
  }
  if (!Constants::isConstant(value)) {
    return castAfter(value, narrow, rules.needsClamp(value));
  }
  Value &constant = casts[value];
  if (!constant) {
    constant = narrowed.make(value.getDefiningOp());
    noteClamp(value);
  }
  return constant;
}

Value Conversion::asWide(Value value) {
  return converted.contains(value) ? castAfter(value, f32, false) : value;
}

/// Comparisons and their kin have no float result: they read what is there, and f32 where the
/// operands differ.
bool Conversion::readsNarrowOnly(Operation *op) const {
  return llvm::all_of(op->getOperands(), [&](Value operand) {
    return converted.contains(operand) || !isF32(operand);
  });
}

/// States are seen by nobody outside: they are narrow unless what replaces them is not.
void Conversion::narrowStates() {
  for (tn::State &state : tn::statesOf(function)) {
    Operation *producer = block.getTerminator()->getOperand(state.result).getDefiningOp();
    if (isF32(state.argument) && !(producer && rules.of(producer))) {
      converted.insert(state.argument);
      state.argument.setType(tn::withElement(state.argument.getType(), narrow));
    }
  }
}

/// Outputs keep their types; a state's new value has the state's.
void Conversion::convertReturn(func::ReturnOp op) {
  SmallVector<tn::State> states = tn::statesOf(function);
  for (OpOperand &operand : op->getOpOperands()) {
    auto state = llvm::find_if(
        states, [&](const tn::State &s) { return s.result == operand.getOperandNumber(); });
    bool isNarrow = state != states.end() && converted.contains(state->argument);
    operand.set(isNarrow ? asNarrow(operand.get()) : asWide(operand.get()));
  }
  function.setFunctionType(
      FunctionType::get(function.getContext(), block.getArgumentTypes(), op->getOperandTypes()));
}

void Conversion::convert(Operation *op) {
  const PrecisionRule *rule = rules.of(op);
  bool hasResult = llvm::any_of(op->getResults(), isF32);
  bool isWide = rule || (!hasResult && !readsNarrowOnly(op));
  if (rule) {
    record.wider.push_back({op->getLoc(), op->getName().getStringRef().str(), *rule});
  }
  for (OpOperand &operand : op->getOpOperands()) {
    Value value = operand.get();
    if (converted.contains(value) || isF32(value)) {
      operand.set(isWide ? asWide(value) : asNarrow(value));
    }
  }
  if (isWide || !hasResult) {
    return;
  }
  ++record.narrow;
  for (Value result : op->getResults()) {
    if (isF32(result)) {
      converted.insert(result);
      result.setType(tn::withElement(result.getType(), narrow));
    }
  }
}

void Conversion::run() {
  SmallVector<Operation *> ops;
  for (Operation &op : block.without_terminator()) {
    if (!isa<tn::ConstantOp, tn::WeightOp>(op)) {
      ops.push_back(&op);
    }
  }
  narrowStates();
  for (Operation *op : ops) {
    convert(op);
  }
  convertReturn(cast<func::ReturnOp>(block.getTerminator()));
  record.weights = narrowed.converted;
  record.weightBytes = narrowed.bytes;
}

llvm::json::Array toJsonArray(ArrayRef<PrecisionRecord::Entry> entries,
                              llvm::function_ref<std::vector<std::string>(Location)> nodesOf) {
  llvm::json::Array list;
  for (const PrecisionRecord::Entry &entry : entries) {
    list.push_back(llvm::json::Object{{"nodes", llvm::json::Array(nodesOf(entry.location))},
                                      {"operation", entry.operation},
                                      {"rule", entry.rule.name.str()},
                                      {"why", entry.rule.why.str()}});
  }
  return list;
}

} // namespace

std::string
PrecisionRecord::toJson(llvm::function_ref<std::vector<std::string>(Location)> nodesOf) const {
  std::string text;
  llvm::raw_string_ostream stream(text);
  llvm::json::Object record{{"schema", 1},
                            {"precision", precision ? nameOf(*precision) : "keep"},
                            {"narrow_operations", narrow},
                            {"wider", toJsonArray(wider, nodesOf)},
                            {"clamped", toJsonArray(clamped, nodesOf)},
                            {"approximated", toJsonArray(approximated, nodesOf)},
                            {"narrow_weights", weights},
                            {"narrow_weights_bytes", weightBytes}};
  if (precision == Precision::Fp8 || float8 > 0) {
    record["float8_products"] = float8;
    record["not_float8"] = toJsonArray(notFloat8, nodesOf);
    record["float8_time"] = llvm::json::Object{{"products", fasterInHalf},
                                               {"fp16_us", halfSeconds * 1e6},
                                               {"float8_us", float8Seconds * 1e6}};
  }
  stream << llvm::json::Value(std::move(record));
  return text;
}

LogicalResult convertPrecision(ModuleOp module, tn::WeightStore &weights, Precision precision,
                               QuantizedProducts quantized, PrecisionRecord &record) {
  MLIRContext *context = module.getContext();
  FloatType narrow = precision == Precision::Bf16 ? FloatType(BFloat16Type::get(context))
                                                  : FloatType(Float16Type::get(context));
  record.precision = precision;
  for (func::FuncOp function : module.getOps<func::FuncOp>()) {
    Conversion(function, weights, narrow, quantized, record).run();
  }
  return simplify(module, weights);
}

LogicalResult convertToFp16(ModuleOp module, tn::WeightStore &weights) {
  PrecisionRecord record;
  return convertPrecision(module, weights, Precision::Fp16, QuantizedProducts::Convert, record);
}

LogicalResult convertToBf16(ModuleOp module, tn::WeightStore &weights) {
  PrecisionRecord record;
  return convertPrecision(module, weights, Precision::Bf16, QuantizedProducts::Convert, record);
}

} // namespace tenon::opt
