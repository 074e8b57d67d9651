// The walk over a module: every quantizer becomes the call that makes its numbers, everything else
// waits until one reads it. What no quantizer has read by the end is a gap.
#include "compiler/codegen/edge/Lowering.h"

#include "compiler/graph/GraphInfo.h"
#include "compiler/graph/NodeOrigin.h"
#include "compiler/graph/Shape.h"
#include "compiler/graph/State.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "support/text/Text.h"
#include "llvm/Support/raw_ostream.h"

#include <limits>

using namespace mlir;

namespace tenon::codegen::edge {
namespace {

constexpr std::string_view kNoFloat = "it computes in f32, which --target c has no kernels for";
constexpr std::string_view kQuantize =
    "quantize its operands and its result: QuantizeLinear and DequantizeLinear behind each of them";

std::string typeText(Type type) {
  std::string text;
  llvm::raw_string_ostream stream(text);
  type.print(stream);
  return text;
}

bool isFloat(Value value) { return isa<FloatType>(opt::tensorType(value).getElementType()); }

} // namespace

Lowered lower(ModuleOp module, tn::WeightStore &weights, bool roundsTwice) {
  return Lowering(module, weights, roundsTwice).run();
}

std::optional<View> Lowering::viewOf(Value value) const {
  auto found = views.find(value);
  return found == views.end() ? std::nullopt : std::optional(found->second);
}

int Lowering::newTensor(int64_t bytes) {
  result.program.tensors.push_back({bytes});
  return static_cast<int>(result.program.tensors.size()) - 1;
}

Call &Lowering::call(Operation *op, Kernel kernel, std::vector<int> reads, int writes,
                     std::vector<int32_t> shape) {
  Call made;
  made.kernel = kernel;
  made.node = tn::nodeName(op);
  made.reads = std::move(reads);
  made.writes = writes;
  made.shape = std::move(shape);
  result.program.calls.push_back(std::move(made));
  return result.program.calls.back();
}

std::nullopt_t Lowering::gap(Operation *op, std::string why, std::string workaround) {
  if (!reported.insert(op).second) {
    return std::nullopt;
  }
  // A node may have become several operations.
  bool isKnown = llvm::any_of(result.gaps, [&](const Gap &other) {
    return other.node == tn::nodeName(op) && op->getLoc() != UnknownLoc::get(op->getContext());
  });
  if (isKnown) {
    return std::nullopt;
  }
  tn::NodeOrigin origin = tn::originOf(op->getLoc());
  Gap missing;
  missing.op = origin.kinds.empty() ? op->getName().stripDialect().str() : origin.kinds.front();
  missing.node = tn::nodeName(op);
  if (op->getNumOperands() > 0) {
    RankedTensorType type = opt::tensorType(op->getOperand(0));
    missing.dtype = typeText(type.getElementType());
    missing.rank = static_cast<int>(type.getRank());
  }
  missing.why = std::move(why);
  missing.workaround = std::move(workaround);
  result.gaps.push_back(std::move(missing));
  return std::nullopt;
}

Lowered Lowering::run() {
  func::FuncOp main = module.lookupSymbol<func::FuncOp>("main");
  addStates();
  for (BlockArgument argument : main.getArguments()) {
    if (!opt::tensorType(argument).hasStaticShape()) {
      std::string name = tn::portName(main.getArgAttrDict(argument.getArgNumber()), "input",
                                      argument.getArgNumber());
      result.gaps.push_back(
          {"Input", name, typeText(opt::tensorType(argument).getElementType()),
           static_cast<int>(opt::tensorType(argument).getRank()),
           "its sizes are not fixed, and memory of a board is laid out when compiling",
           "give them fixed sizes with --shape"});
    }
    result.program.inputs.push_back({tn::portName(main.getArgAttrDict(argument.getArgNumber()),
                                                  "input", argument.getArgNumber()),
                                     {},
                                     -1});
  }
  if (!result.gaps.empty()) {
    return std::move(result);
  }
  for (Operation &op : main.getBody().front()) {
    bool isFixed = llvm::all_of(op.getResultTypes(), [](Type type) {
      return cast<RankedTensorType>(type).hasStaticShape();
    });
    if (!isFixed) {
      gap(&op, "the sizes of its result depend on data");
      continue;
    }
    bool isCounted = llvm::all_of(op.getResults(), [](Value value) {
      return countOf(value) > 0 && countOf(value) <= std::numeric_limits<int32_t>::max();
    });
    if (!isCounted) {
      gap(&op, "its result has no elements, or more than 32 bits count");
      continue;
    }
    visit(&op);
  }
  reportRest();
  // What is kept is no input.
  std::vector<Port> inputs;
  for (auto [argument, port] : llvm::zip_equal(main.getArguments(), result.program.inputs)) {
    if (!states.contains(argument)) {
      inputs.push_back(std::move(port));
    }
  }
  result.program.inputs = std::move(inputs);
  return std::move(result);
}

void Lowering::visit(Operation *op) {
  if (isa<tn::WeightOp, tn::ConstantOp>(op)) {
    lowered.insert(op);
  } else if (tn::QuantizeOp quantize = dyn_cast<tn::QuantizeOp>(op)) {
    visitQuantize(quantize);
  } else if (tn::DequantizeOp dequantize = dyn_cast<tn::DequantizeOp>(op)) {
    visitDequantize(dequantize);
  } else if (op->hasTrait<OpTrait::IsTerminator>()) {
    visitReturn(op);
  } else if (tn::MaxPoolOp pool = dyn_cast<tn::MaxPoolOp>(op)) {
    std::optional<View> x = viewOf(pool.getX());
    if (Maybe tensor = x ? maximum(pool, x->tensor) : std::nullopt) {
      views[pool.getY()] = {*tensor, x->scale, x->zero};
      lowered.insert(op);
    }
  } else if (visitStateArithmetic(op) || movement(op)) {
    lowered.insert(op);
  }
}

/// Of a whole tensor, in signed numbers.
std::optional<View> Lowering::quantizationOf(Operation *op, Value scale, Value zero, Type element) {
  if (!element.isInteger(8)) {
    return gap(op, strCat("it quantizes to ", typeText(element), ", not to 8 bits"));
  }
  std::optional<std::vector<double>> scales = constants.elements(scale);
  std::optional<std::vector<double>> zeros = constants.elements(zero);
  if (!scales || !zeros) {
    return gap(op, "its scale or zero point is no constant");
  }
  if (scales->size() != 1 || zeros->size() != 1) {
    return gap(op, "it has a scale for each channel; activations need one for the whole tensor");
  }
  if (!(scales->front() > 0) || !std::isfinite(scales->front())) {
    return gap(op, strCat("its scale is not a positive number"));
  }
  int32_t shift = element.isUnsignedInteger() ? 128 : 0;
  return View{-1, scales->front(), static_cast<int32_t>(zeros->front()) - shift};
}

void Lowering::addInput(BlockArgument argument, Value reader, const View &numbers) {
  Port &port = result.program.inputs[argument.getArgNumber()];
  if (port.tensor < 0) {
    port.dims.assign(shapeOf(argument).begin(), shapeOf(argument).end());
    port.tensor = newTensor(countOf(argument));
    port.scale = numbers.scale;
    port.zero = numbers.zero;
  } else if (port.scale != numbers.scale || port.zero != numbers.zero) {
    gap(reader.getDefiningOp(), "another quantizer of the same input has another scale");
  }
  views[reader] = {port.tensor, numbers.scale, numbers.zero};
}

void Lowering::visitQuantize(tn::QuantizeOp op) {
  std::optional<View> numbers = quantizationOf(op, op.getScale(), op.getZeroPoint(),
                                               opt::tensorType(op.getY()).getElementType());
  if (BlockArgument argument = dyn_cast<BlockArgument>(op.getX()); argument && numbers) {
    lowered.insert(op);
    addInput(argument, op.getY(), *numbers);
    return;
  }
  Maybe tensor;
  if (numbers) {
    tensor = quantizedTensor(op.getX(), {numbers->scale, numbers->zero});
  }
  if (tensor) {
    lowered.insert(op);
  } else {
    reported.insert(op); // the gap is that of what it reads
  }
  View made = numbers.value_or(View());
  // After a gap the walk goes on, so that all are found.
  made.tensor = tensor ? *tensor : newTensor(countOf(op.getY()));
  views[op.getY()] = made;
}

/// What makes the numbers of a value: bounds and movement behind a computation go into and behind
/// its call.
Lowering::Maybe Lowering::quantizedTensor(Value value, Quantizer quantizer) {
  SmallVector<Operation *> movements, chain;
  Value end = value;
  while (!views.contains(value)) {
    Operation *op = value.getDefiningOp();
    if (tn::ReluOp relu = dyn_cast_or_null<tn::ReluOp>(op)) {
      quantizer.low = std::max(quantizer.low, quantizer.quantized(0));
      value = relu.getX();
    } else if (tn::ClampOp clamp = dyn_cast_or_null<tn::ClampOp>(op)) {
      quantizer.low = std::max(quantizer.low, quantizer.quantized(clamp.getLo().convertToDouble()));
      quantizer.high =
          std::min(quantizer.high, quantizer.quantized(clamp.getHi().convertToDouble()));
      value = clamp.getX();
    } else if (isa_and_nonnull<tn::ReshapeOp, tn::TransposeOp, tn::MaxPoolOp>(op)) {
      // A maximum is that of the numbers, as quantizing keeps their order.
      movements.push_back(op);
      value = op->getOperand(0);
    } else {
      break;
    }
    chain.push_back(op);
  }
  Operation *last = end.getDefiningOp();
  if (quantizer.low > quantizer.high) {
    return gap(last, "its bounds leave no number of the quantized range");
  }
  Maybe tensor;
  if (std::optional<View> view = viewOf(value)) {
    // A quantizer reads it at once, or behind bounds.
    Operation *op = chain.empty() ? *end.getUsers().begin() : chain.front();
    tensor = rescaled(op, *view, countOf(value), quantizer);
  } else if (Operation *op = value.getDefiningOp()) {
    size_t known = result.gaps.size();
    tensor = producer(op, quantizer);
    if (tensor) {
      lowered.insert(op);
    } else if (result.gaps.size() == known) {
      tensor = table(op, value, quantizer);
    }
    if (!tensor && result.gaps.size() == known) {
      gap(op, std::string(kNoFloat), std::string(kQuantize));
    }
  }
  View made{-1, quantizer.scale, quantizer.zero};
  for (Operation *op : llvm::reverse(movements)) {
    if (tn::MaxPoolOp pool = dyn_cast<tn::MaxPoolOp>(op); pool && tensor) {
      tensor = maximum(pool, *tensor);
    } else if (tensor) {
      tensor = moved(op, *tensor, made);
    }
  }
  if (tensor) {
    lowered.insert(chain.begin(), chain.end());
  } else {
    reported.insert(chain.begin(), chain.end());
  }
  return tensor;
}

void Lowering::visitDequantize(tn::DequantizeOp op) {
  if (opt::Constants::isConstant(op.getX())) {
    lowered.insert(op); // whoever reads it takes it apart
    return;
  }
  std::optional<View> numbers = quantizationOf(op, op.getScale(), op.getZeroPoint(),
                                               opt::tensorType(op.getX()).getElementType());
  if (!numbers) {
    return;
  }
  if (BlockArgument argument = dyn_cast<BlockArgument>(op.getX());
      argument && !states.contains(argument)) {
    lowered.insert(op);
    addInput(argument, op.getY(), *numbers);
    return;
  }
  std::optional<View> view = viewOf(op.getX());
  if (!view) {
    gap(op, "what it reads is not quantized by QuantizeLinear");
    return;
  }
  numbers->tensor = view->tensor;
  views[op.getY()] = *numbers;
  lowered.insert(op);
}

void Lowering::visitReturn(Operation *op) {
  func::FuncOp main = op->getParentOfType<func::FuncOp>();
  lowered.insert(op);
  for (OpOperand &operand : op->getOpOperands()) {
    Value value = operand.get();
    unsigned index = operand.getOperandNumber();
    std::optional<View> view = viewOf(value);
    if (StringAttr kept = main.getResultAttrOfType<StringAttr>(index, tn::kState)) {
      keep(op, kept.getValue(), value);
      continue;
    }
    if (!view && value.getDefiningOp<tn::SoftmaxOp>()) {
      // Probabilities that no quantizer follows: numbers from 0 to 255/256.
      Quantizer probabilities{1.0 / 256, -128};
      if (Maybe tensor = quantizedTensor(value, probabilities)) {
        view = View{*tensor, probabilities.scale, probabilities.zero};
      }
    }
    if (!view) {
      Operation *maker = value.getDefiningOp();
      if (maker && isFloat(value)) {
        gap(maker, "its result leaves the model in f32",
            "put QuantizeLinear and DequantizeLinear behind it");
      } else if (!maker) {
        gap(op, "an input leaves the model as it comes");
      }
      continue;
    }
    result.program.outputs.push_back({tn::portName(main.getResultAttrDict(index), "output", index),
                                      {shapeOf(value).begin(), shapeOf(value).end()},
                                      view->tensor,
                                      view->scale,
                                      view->zero});
  }
}

/// Whatever no call came of.
void Lowering::reportRest() {
  func::FuncOp main = module.lookupSymbol<func::FuncOp>("main");
  for (Operation &op : main.getBody().front()) {
    if (!lowered.contains(&op) && !reported.contains(&op)) {
      gap(&op, std::string(kNoFloat), std::string(kQuantize));
    }
  }
  for (auto [argument, port] : llvm::zip_equal(main.getArguments(), result.program.inputs)) {
    if (port.tensor < 0 && result.gaps.empty() && !states.contains(argument)) {
      result.gaps.push_back({"Input", port.name,
                             typeText(opt::tensorType(argument).getElementType()),
                             static_cast<int>(opt::tensorType(argument).getRank()),
                             "no QuantizeLinear or DequantizeLinear reads it", ""});
    }
  }
}

} // namespace tenon::codegen::edge
