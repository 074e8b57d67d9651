// Relies on Lowering for the linalg form and on upstream's CSE to join what is computed twice.
#include "compiler/codegen/cuda/base/Region.h"

#include "compiler/codegen/common/lower/Lowering.h"
#include "compiler/codegen/common/math/LowBits.h"
#include "compiler/codegen/common/math/ScalarBody.h"
#include "compiler/codegen/common/region/Programs.h"
#include "compiler/dispatch/Strategy.h"
#include "compiler/graph/Steps.h"
#include "compiler/graph/TnRare.h"
#include "compiler/target/Float8.h"
#include "mlir/Dialect/Affine/IR/AffineOps.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/TypeUtilities.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Transforms/Passes.h"

using namespace mlir;

namespace tenon::codegen::cuda {
namespace {

/// Where the size of a dim varies and says nothing better.
constexpr int64_t kGuess = 64;
/// Products of sizes below this leave room for the arithmetic around them.
constexpr int64_t kSmall = int64_t(1) << 30;

RankedTensorType storageTensor(Type type) {
  RankedTensorType tensor = cast<RankedTensorType>(type);
  return RankedTensorType::get(tensor.getShape(), storageType(tensor.getElementType()));
}

} // namespace

int64_t byteSize(Type storage) { return (storage.getIntOrFloatBitWidth() + 7) / 8; }

RegionBuilder::RegionBuilder(func::FuncOp source, StringRef symbol, const target::Target &gpu,
                             KernelLibraries libraries)
    : source(source), gpu(gpu), symbol(symbol.str()), libraries(std::move(libraries)),
      kernels(ModuleOp::create(UnknownLoc::get(source.getContext()))) {
  tn::SymbolList declared(source->getParentOfType<ModuleOp>());
  symbolCount = declared.symbols().size();
  for (const auto &declaration : declared.symbols()) {
    guesses.push_back(std::clamp(kGuess, declaration.min, declaration.max));
  }
}

StringRef RegionBuilder::strategy() {
  StringAttr name = source->getAttrOfType<StringAttr>("tn.strategy");
  return name ? name.getValue() : StringRef();
}

FailureOr<func::FuncOp> RegionBuilder::linalg() {
  if (function) {
    return function;
  }
  MLIRContext *context = source.getContext();
  OpBuilder builder(context);
  Location location = builder.getUnknownLoc();
  lowered = ModuleOp::create(location);
  builder.setInsertionPointToEnd(lowered->getBody());
  SmallVector<Type> arguments, results;
  for (Type type : source.getArgumentTypes()) {
    arguments.push_back(storageTensor(type));
  }
  arguments.append(symbolCount, builder.getIndexType());
  for (Type type : source.getResultTypes()) {
    results.push_back(storageTensor(type));
  }
  func::FuncOp made = func::FuncOp::create(builder, location, "region",
                                           builder.getFunctionType(arguments, results));
  Block *entry = made.addEntryBlock();
  builder.setInsertionPointToEnd(entry);
  if (target::hasFloat8(gpu)) {
    source.walk([&](tn::EncodeOp encode) {
      if (encode.getSaturate() && isa<Float8E4M3FNType>(getElementTypeOrSelf(encode.getY()))) {
        encode->setAttr(kEncodesByInstruction, builder.getUnitAttr());
      }
    });
  }
  Lowering lowering(builder, location, entry->getArguments().drop_front(source.getNumArguments()));
  for (auto [i, argument] : llvm::enumerate(source.getArguments())) {
    lowering.bind(argument, entry->getArgument(i));
  }
  SmallVector<Value> values;
  for (Value value : source.getBody().front().getTerminator()->getOperands()) {
    values.push_back(lowering.materialize(value));
    if (!values.back()) {
      return failure();
    }
  }
  func::ReturnOp::create(builder, location, values);
  PassManager passes(context, ModuleOp::getOperationName(), OpPassManager::Nesting::Implicit);
  // No canonicalization: what it makes of loops that run once is not a loop nest any more.
  passes.addPass(createCSEPass());
  if (failed(passes.run(*lowered))) {
    return failure();
  }
  function = made;
  for (unsigned i = 0; i < source.getNumArguments(); ++i) {
    setBuffer(function.getArgument(i), input(i));
  }
  bits = isBelow32Bits() ? 32 : 64;
  return function;
}

/// Of sizes that a program computes nothing is known.
bool RegionBuilder::isBelow32Bits() {
  bool fits = true;
  tn::SymbolList declared(source->getParentOfType<ModuleOp>());
  auto check = [&](ArrayRef<AffineExpr> dims) {
    int64_t product = 1;
    for (AffineExpr dim : dims) {
      int64_t size = declared.bounds(dim).max;
      fits &= !tn::hasWideStep(dim) && size < kSmall &&
              (product *= std::max<int64_t>(size, 1)) < kSmall;
      if (!fits) {
        return;
      }
    }
  };
  for (unsigned i = 0; i < source.getNumArguments(); ++i) {
    check(dims(function.getArgument(i)));
  }
  function.walk([&](linalg::LinalgOp op) { check(loopSizes(op)); });
  function.walk([&](tensor::EmptyOp op) { check(dims(op)); });
  source.walk([&](tn::SizesOp) { fits = false; });
  source.walk([&](tn::SliceOp slice) {
    fits &= llvm::none_of(slice.getStarts().getResults(), tn::hasWideStep);
  });
  return fits;
}

AffineExpr RegionBuilder::expressionOf(Value index) {
  MLIRContext *context = index.getContext();
  if (std::optional<int64_t> constant = getConstantIntValue(index)) {
    return getAffineConstantExpr(*constant, context);
  }
  if (BlockArgument argument = dyn_cast<BlockArgument>(index)) {
    bool isSymbol = argument.getOwner()->isEntryBlock() && argument.getType().isIndex() &&
                    isa<func::FuncOp>(argument.getOwner()->getParentOp());
    return isSymbol
               ? getAffineSymbolExpr(argument.getArgNumber() - source.getNumArguments(), context)
               : AffineExpr();
  }
  if (tensor::DimOp dim = index.getDefiningOp<tensor::DimOp>()) {
    std::optional<int64_t> position = dim.getConstantIndex();
    return position ? dims(dim.getSource())[*position] : AffineExpr();
  }
  affine::AffineApplyOp apply = index.getDefiningOp<affine::AffineApplyOp>();
  if (!apply) {
    return {};
  }
  SmallVector<AffineExpr> replacements;
  for (Value operand : apply.getMapOperands()) {
    replacements.push_back(expressionOf(operand));
    if (!replacements.back()) {
      return {};
    }
  }
  AffineMap map = apply.getAffineMap();
  ArrayRef<AffineExpr> all(replacements);
  return map.getResult(0).replaceDimsAndSymbols(all.take_front(map.getNumDims()),
                                                all.drop_front(map.getNumDims()));
}

tn::Dims RegionBuilder::dims(Value tensor) {
  RankedTensorType type = cast<RankedTensorType>(tensor.getType());
  MLIRContext *context = tensor.getContext();
  if (type.hasStaticShape()) {
    tn::Dims result;
    for (int64_t size : type.getShape()) {
      result.push_back(getAffineConstantExpr(size, context));
    }
    return result;
  }
  if (BlockArgument argument = dyn_cast<BlockArgument>(tensor)) {
    if (scf::ForOp loop = dyn_cast<scf::ForOp>(argument.getOwner()->getParentOp())) {
      return dims(loop.getTiedLoopInit(argument)->get());
    }
    return tn::getDims(source.getArgument(argument.getArgNumber()).getType());
  }
  OpResult result = cast<OpResult>(tensor);
  Operation *op = result.getOwner();
  if (tensor::EmptyOp empty = dyn_cast<tensor::EmptyOp>(op)) {
    tn::Dims sizes;
    for (OpFoldResult size : empty.getMixedSizes()) {
      std::optional<int64_t> constant = getConstantIntValue(size);
      sizes.push_back(constant ? getAffineConstantExpr(*constant, context)
                               : tn::simplify(expressionOf(cast<Value>(size))));
    }
    return sizes;
  }
  if (scf::ForOp loop = dyn_cast<scf::ForOp>(op)) {
    return dims(loop.getInits()[result.getResultNumber()]);
  }
  if (tensor::CastOp cast = dyn_cast<tensor::CastOp>(op)) {
    return dims(cast.getSource());
  }
  if (tensor::InsertOp insert = dyn_cast<tensor::InsertOp>(op)) {
    return dims(insert.getDest());
  }
  return dims(cast<linalg::LinalgOp>(op).getDpsInits()[result.getResultNumber()]);
}

tn::Dims RegionBuilder::loopSizes(linalg::LinalgOp op) {
  tn::Dims sizes(op.getNumLoops());
  for (OpOperand &operand : op->getOpOperands()) {
    if (!isa<RankedTensorType>(operand.get().getType())) {
      continue;
    }
    tn::Dims operandDims = dims(operand.get());
    for (auto [i, expression] : llvm::enumerate(op.getMatchingIndexingMap(&operand).getResults())) {
      AffineDimExpr dim = dyn_cast<AffineDimExpr>(expression);
      if (dim && !sizes[dim.getPosition()]) {
        sizes[dim.getPosition()] = operandDims[i];
      }
    }
  }
  return sizes;
}

int64_t RegionBuilder::estimate(AffineExpr expression) {
  return tn::evaluate(expression, guesses).value_or(kGuess);
}

int64_t RegionBuilder::estimate(ArrayRef<AffineExpr> dims) {
  int64_t product = 1;
  for (AffineExpr dim : dims) {
    product *= std::clamp<int64_t>(estimate(dim), 1, kSmall);
    product = std::min(product, kSmall * 8);
  }
  return product;
}

unsigned RegionBuilder::addTemporary(AffineExpr bytes) {
  code.temporaries.push_back(programOf(bytes));
  return source.getNumArguments() + source.getNumResults() + code.temporaries.size() - 1;
}

std::optional<unsigned> RegionBuilder::bufferOf(Value tensor) {
  auto entry = buffers.find(tensor);
  return entry == buffers.end() ? std::nullopt : std::optional<unsigned>(entry->second);
}

bool RegionBuilder::mayAliasOutput(unsigned buffer) {
  if (strategy() != dispatch::kElementwise || source.getNumResults() != 1 ||
      buffer >= source.getNumArguments()) {
    return false;
  }
  Type input = source.getArgumentTypes()[buffer], output = source.getResultTypes()[0];
  return byteSize(storageType(getElementTypeOrSelf(input))) ==
             byteSize(storageType(getElementTypeOrSelf(output))) &&
         tn::sameDims(tn::getDims(input), tn::getDims(output));
}

} // namespace tenon::codegen::cuda
