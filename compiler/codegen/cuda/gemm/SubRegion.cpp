// Relies on MLIR's cloning for the operations and on the table of families for the kernels.
#include "compiler/codegen/cuda/gemm/SubRegion.h"

#include "compiler/codegen/common/region/RegionSource.h"
#include "compiler/codegen/cuda/KernelFamily.h"
#include "compiler/dispatch/Strategy.h"
#include "compiler/graph/TnRare.h"
#include "mlir/IR/IRMapping.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/Support/MathExtras.h"

#include <limits>

using namespace mlir;

namespace tenon::codegen::cuda {
namespace {

constexpr llvm::StringLiteral kName = "kernel";

tn::MatmulOp productOf(func::FuncOp function) { return *function.getOps<tn::MatmulOp>().begin(); }

/// Leaves the symbol that decides the rows the values that give such a count; false if there is
/// none. Where several decide, the attribute alone says it.
bool narrowSymbols(ModuleOp module, AffineExpr rows, RowRange range) {
  std::optional<tn::LinearDim> linear = tn::linearDim(tn::simplify(rows));
  if (!linear) {
    return true;
  }
  tn::SymbolList symbols(module);
  const tn::Symbol &symbol = symbols.symbols()[linear->symbol];
  int64_t least = llvm::divideCeilSigned(range.least - linear->offset, linear->factor);
  int64_t most = llvm::divideFloorSigned(range.most - linear->offset, linear->factor);
  least = std::max(least, symbol.min);
  most = std::min(most, symbol.max);
  if (least > most) {
    return false;
  }
  symbols.setRange(linear->symbol, least, most);
  symbols.store(module);
  return true;
}

/// As dispatch::layOutWeight does to the region, if it can.
void layOut(func::FuncOp function, const dispatch::WeightLayout &layout) {
  tn::MatmulOp matmul = productOf(function);
  RankedTensorType weight = cast<RankedTensorType>(matmul.getB().getType());
  OpBuilder builder = OpBuilder::atBlockBegin(&function.getBody().front());
  (void)function.insertArgument(
      0, tn::packedType(weight, layout.packing),
      builder.getDictionaryAttr(builder.getNamedAttr(kConstantArgument, builder.getUnitAttr())),
      function.getLoc());
  matmul.getBMutable().assign(tn::UnpackOp::create(builder, function.getLoc(), weight,
                                                   function.getArgument(0), layout.packing));
  unsigned old = layout.input + 1;
  if (function.getArgument(old).use_empty()) {
    (void)function.eraseArgument(old);
  }
}

/// A function of these operations, in the order of the block, that returns `result`.
SubRegion functionOf(func::FuncOp source, ArrayRef<Operation *> ops, Value result,
                     StringRef strategy) {
  SubRegion part;
  part.result = result;
  llvm::SmallSetVector<Value, 8> inputs, constants;
  for (Operation *op : ops) {
    for (Value operand : op->getOperands()) {
      if (operand.getDefiningOp<tn::ConstantOp>()) {
        constants.insert(operand);
      } else if (!llvm::is_contained(ops, operand.getDefiningOp())) {
        inputs.insert(operand);
      }
    }
  }
  part.inputs.assign(inputs.begin(), inputs.end());
  ModuleOp model = source->getParentOfType<ModuleOp>();
  OpBuilder builder(source.getContext());
  part.module = ModuleOp::create(source.getLoc());
  (*part.module)->setAttrs(model->getAttrDictionary());
  builder.setInsertionPointToEnd(part.module->getBody());
  SmallVector<Type> types(ValueRange(part.inputs).getTypes());
  func::FuncOp function = func::FuncOp::create(builder, source.getLoc(), kName,
                                               builder.getFunctionType(types, result.getType()));
  function->setAttr("tn.strategy", builder.getStringAttr(strategy));
  if (Attribute rows = source->getAttr(kRowRange)) {
    function->setAttr(kRowRange, rows);
  }
  Block *body = function.addEntryBlock();
  builder.setInsertionPointToEnd(body);
  IRMapping mapping;
  for (auto [i, input] : llvm::enumerate(part.inputs)) {
    mapping.map(input, body->getArgument(i));
    BlockArgument argument = dyn_cast<BlockArgument>(input);
    if (DictionaryAttr attributes =
            argument ? source.getArgAttrDict(argument.getArgNumber()) : DictionaryAttr()) {
      function.setArgAttrs(i, attributes);
    }
  }
  for (Value constant : constants) {
    builder.clone(*constant.getDefiningOp(), mapping);
  }
  for (Operation *op : ops) {
    builder.clone(*op, mapping);
  }
  func::ReturnOp::create(builder, source.getLoc(), mapping.lookup(result));
  return part;
}

/// The source in a module of its own, with no kernel chosen.
SubRegion copyOf(func::FuncOp source) {
  SubRegion copy;
  copy.module = ModuleOp::create(source.getLoc());
  (*copy.module)->setAttrs(source->getParentOfType<ModuleOp>()->getAttrDictionary());
  func::FuncOp function = source.clone();
  function.setName(kName);
  function->removeAttr(kKernelAttribute);
  copy.module->push_back(function);
  return copy;
}

} // namespace

func::FuncOp SubRegion::function() const { return (*module).lookupSymbol<func::FuncOp>(kName); }

SubRegion narrowed(func::FuncOp source, RowRange rows,
                   const std::optional<dispatch::WeightLayout> &layout) {
  SubRegion narrow = copyOf(source);
  func::FuncOp function = narrow.function();
  OpBuilder builder(source.getContext());
  function->setAttr(kRowRange, builder.getDenseI64ArrayAttr({rows.least, rows.most}));
  if (!narrowSymbols(*narrow.module, rowCountOf(productOf(function).getA().getType()), rows)) {
    return SubRegion();
  }
  if (layout) {
    layOut(function, *layout);
  }
  for (unsigned i = 0; i < function.getNumArguments(); ++i) {
    function.removeArgAttr(i, dispatch::kPackable);
  }
  return narrow;
}

SubRegion narrowed(func::FuncOp source, unsigned symbol, const SizeRange &sizes) {
  SubRegion narrow = copyOf(source);
  narrow.function()->setAttr(kIsOfRange, UnitAttr::get(source.getContext()));
  tn::SymbolList symbols(*narrow.module);
  symbols.setRange(symbol, sizes.least, sizes.most);
  symbols.store(*narrow.module);
  return narrow;
}

SmallVector<SubRegion> partsOf(func::FuncOp source, FewBits weights) {
  tn::MatmulOp product = productOf(source);
  Operation *first = product.getA().getDefiningOp();
  bool hasNorm = first && !isa<tn::TransposeOp>(first);
  bool isStored = weights == FewBits::Stored;
  Operation *decode = isStored ? nullptr : product.getB().getDefiningOp<tn::DecodeRowsOp>();
  SmallVector<Operation *> root, followers;
  bool isBehind = false;
  for (Operation &op : source.getBody().front().without_terminator()) {
    if (isa<tn::ConstantOp>(op) || (hasNorm && &op == first) || &op == decode) {
      continue;
    }
    (isBehind ? followers : root).push_back(&op);
    isBehind |= !isStored && &op == product;
  }
  SmallVector<SubRegion> parts;
  if (hasNorm) {
    parts.push_back(functionOf(source, first, first->getResult(0), dispatch::kRows));
  }
  if (decode) {
    parts.push_back(functionOf(source, decode, decode->getResult(0), dispatch::kElementwise));
  }
  Value result = source.getBody().front().getTerminator()->getOperand(0);
  parts.push_back(
      functionOf(source, root, isStored ? result : product.getY(), dispatch::kContraction));
  if (!followers.empty()) {
    parts.push_back(functionOf(source, followers, result, dispatch::kElementwise));
  }
  return parts.size() == 1 ? SmallVector<SubRegion>() : std::move(parts);
}

double predictedMicroseconds(func::FuncOp function, const dispatch::KernelChoice &kernel,
                             const target::Target &gpu) {
  RegionBuilder region(function, "", gpu);
  const KernelFamily &family = *kernelFamilies().find(kernel.family);
  FamilyMatch match = FamilyTable<RegionBuilder>::match(family, region);
  if (!match ||
      (kernel != *match.choice &&
       !llvm::is_contained(FamilyTable<RegionBuilder>::configsOf(family, region, match), kernel))) {
    return std::numeric_limits<double>::infinity();
  }
  llvm::Expected<double> microseconds =
      FamilyTable<RegionBuilder>::microsecondsOf(family, region, match, kernel);
  if (!microseconds) {
    llvm::consumeError(microseconds.takeError());
    return std::numeric_limits<double>::infinity();
  }
  return *microseconds;
}

LogicalResult emitPart(RegionBuilder &region, func::FuncOp part,
                       const dispatch::KernelChoice &choice, ArrayRef<unsigned> buffers) {
  size_t count = region.code.steps.size();
  RegionBuilder own(part, count == 0 ? region.symbol : region.symbol + "_" + std::to_string(count),
                    region.gpu);
  if (failed(kernelFamilies().emit(own, choice))) {
    return failure();
  }
  SmallVector<uint32_t> places(buffers);
  for (Program &bytes : own.code.temporaries) {
    region.code.temporaries.push_back(std::move(bytes));
    places.push_back(region.source.getNumArguments() + region.source.getNumResults() +
                     region.code.temporaries.size() - 1);
  }
  for (RegionStep &step : own.code.steps) {
    for (uint32_t &buffer : step.buffers) {
      buffer = places[buffer];
    }
    region.code.steps.push_back(std::move(step));
  }
  region.kernels->getBody()->getOperations().splice(region.kernels->getBody()->end(),
                                                    own.kernels->getBody()->getOperations());
  return success();
}

} // namespace tenon::codegen::cuda
