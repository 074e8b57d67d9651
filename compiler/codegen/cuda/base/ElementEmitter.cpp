// Relies on the outputs of a generic being permuted projections of its loops, as Lowering makes
// them.
#include "compiler/codegen/cuda/base/ElementEmitter.h"

#include "mlir/Dialect/Affine/IR/AffineOps.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

using namespace mlir;

namespace tenon::codegen::cuda {
namespace {

/// Steps of a reduction that are written out instead of looped over.
constexpr int64_t kUnrolled = 32;

} // namespace

bool isReduction(linalg::GenericOp op) { return op.getNumReductionLoops() > 0; }

void ElementEmitter::openScope() {
  known.open();
  scalars.open();
  linearPlaces.open();
  math.openScope();
}

void ElementEmitter::closeScope() {
  known.close();
  scalars.close();
  linearPlaces.close();
  math.closeScope();
}

void ElementEmitter::when(Value condition, llvm::function_ref<void()> body) {
  if (!condition) {
    return body();
  }
  OpBuilder &builder = kernel.builder;
  scf::IfOp branch =
      scf::IfOp::create(builder, kernel.location, condition, /*withElseRegion=*/false);
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPointToStart(branch.thenBlock());
  openScope();
  body();
  closeScope();
}

void ElementEmitter::hold(Value tensor, Source source) { held[tensor] = std::move(source); }

void ElementEmitter::setLinear(ArrayRef<AffineExpr> dims, ArrayRef<Index> indices,
                               const Index &linear) {
  linearPlaces.insert(keyOf(indices), {tn::Dims(dims), linear});
}

Value ElementEmitter::fail(Value tensor, StringRef what) {
  failed = true;
  kernel.region.source.emitError("has a tensor that no kernel can read: ") << what;
  Type type = getElementTypeOrSelf(tensor);
  return arith::ConstantOp::create(kernel.builder, kernel.location,
                                   kernel.builder.getZeroAttr(type));
}

Value ElementEmitter::element(Value tensor, ArrayRef<Index> place) {
  return elements(tensor, Indices(place)).front();
}

SmallVector<Value> ElementEmitter::elements(Value tensor, ArrayRef<Indices> places) {
  auto source = held.find(tensor);
  if (source != held.end()) {
    Source read = source->second;
    return llvm::map_to_vector(places, [&](const Indices &place) { return read(place); });
  }
  const void *id = tensor.getAsOpaquePointer();
  std::map<IndicesKey, size_t> asked;
  SmallVector<Indices> missing;
  for (const Indices &place : places) {
    IndicesKey key = keyOf(place);
    if (!known.find({id, key}) && asked.try_emplace(key, missing.size()).second) {
      missing.push_back(place);
    }
  }
  if (!missing.empty()) {
    SmallVector<Value> values = compute(tensor, missing);
    for (auto [place, value] : llvm::zip(missing, values)) {
      known.insert({id, keyOf(place)}, value);
    }
  }
  return llvm::map_to_vector(places,
                             [&](const Indices &place) { return *known.find({id, keyOf(place)}); });
}

SmallVector<Value> ElementEmitter::compute(Value tensor, ArrayRef<Indices> places) {
  if (std::optional<unsigned> buffer = kernel.region.bufferOf(tensor)) {
    return loads(tensor, *buffer, places);
  }
  Operation *op = tensor.getDefiningOp();
  if (isa_and_nonnull<linalg::GenericOp>(op)) {
    return generic(cast<OpResult>(tensor), places);
  }
  auto one = [&](const Indices &place) -> Value {
    if (linalg::FillOp fill = dyn_cast_or_null<linalg::FillOp>(op)) {
      return scalar(fill.value());
    }
    if (tensor::CastOp cast = dyn_cast_or_null<tensor::CastOp>(op)) {
      return element(cast.getSource(), place);
    }
    if (isa_and_nonnull<tensor::EmptyOp>(op)) {
      TypedAttr zero = kernel.builder.getZeroAttr(getElementTypeOrSelf(tensor));
      return arith::ConstantOp::create(kernel.builder, kernel.location, zero);
    }
    if (arith::ConstantOp constant = dyn_cast_or_null<arith::ConstantOp>(op)) {
      return constantElement(cast<DenseElementsAttr>(constant.getValue()), tensor, place);
    }
    return fail(tensor, op ? op->getName().getStringRef() : StringRef("an argument"));
  };
  return llvm::map_to_vector(places, one);
}

Index ElementEmitter::linear(Value tensor, ArrayRef<Index> place) {
  tn::Dims dims = kernel.region.dims(tensor);
  if (const LinearPlace *found = linearPlaces.find(keyOf(place))) {
    if (tn::sameDims(found->dims, dims)) {
      return found->linear;
    }
  }
  return math.linearize(place, kernel.sizes(dims));
}

/// As many of the first places as follow each other from a border of as many on: 8, 4, 2 or 1. LLVM
/// joins wider elements by itself, of bytes not all.
static int64_t neighboursOf(ArrayRef<Index> at) {
  constexpr int64_t kMax = 8;
  int64_t width = 1;
  while (width < kMax && 2 * width <= static_cast<int64_t>(at.size()) &&
         at.front().commonDivisor() % (2 * width) == 0) {
    width *= 2;
  }
  for (int64_t i = 1; i < width; ++i) {
    if (at[i].base != at.front().base || at[i].offset != at.front().offset + i) {
      return 1;
    }
  }
  return width;
}

SmallVector<Value> ElementEmitter::loads(Value tensor, unsigned buffer, ArrayRef<Indices> places) {
  Type type = getElementTypeOrSelf(tensor);
  SmallVector<Index> at =
      llvm::map_to_vector(places, [&](const Indices &place) { return linear(tensor, place); });
  SmallVector<Value> elements;
  while (elements.size() < at.size()) {
    ArrayRef<Index> rest = ArrayRef(at).drop_front(elements.size());
    int64_t width = byteSize(type) == 1 ? neighboursOf(rest) : 1;
    if (width == 1) {
      elements.push_back(kernel.load(buffer, type, rest.front()));
      continue;
    }
    Value loaded = kernel.load(buffer, VectorType::get(width, type), rest.front());
    for (int64_t i = 0; i < width; ++i) {
      elements.push_back(kernel.code().extract(loaded, i));
    }
  }
  return elements;
}

/// An array in constant memory.
Value ElementEmitter::constantElement(DenseElementsAttr elements, Value tensor,
                                      ArrayRef<Index> place) {
  OpBuilder &builder = kernel.builder;
  Type type = elements.getElementType();
  if (elements.isSplat()) {
    TypedAttr value = cast<TypedAttr>(elements.getSplatValue<Attribute>());
    return arith::ConstantOp::create(builder, kernel.location, value);
  }
  std::string name;
  for (LLVM::GlobalOp global : kernel.region.kernels->getOps<LLVM::GlobalOp>()) {
    if (global.getValueOrNull() == elements) {
      name = global.getSymName().str();
    }
  }
  if (name.empty()) {
    size_t count = llvm::range_size(kernel.region.kernels->getOps<LLVM::GlobalOp>());
    name = kernel.region.symbol + "_table" + std::to_string(count);
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPointToStart(kernel.region.kernels->getBody());
    LLVM::GlobalOp::create(builder, kernel.location,
                           LLVM::LLVMArrayType::get(type, elements.getNumElements()),
                           /*isConstant=*/true, LLVM::Linkage::Internal, name,
                           elements.reshape(RankedTensorType::get(elements.getNumElements(), type)),
                           /*alignment=*/16, /*addrSpace=*/1);
  }
  Type pointer = LLVM::LLVMPointerType::get(builder.getContext(), 1);
  Value base = LLVM::AddressOfOp::create(builder, kernel.location, pointer, name);
  Index offset = linear(tensor, place);
  return LLVM::LoadOp::create(builder, kernel.location, type, kernel.address(base, type, offset),
                              KernelFrame::alignment(type, offset), /*isVolatile=*/false,
                              /*isNonTemporal=*/false, /*isInvariant=*/true);
}

Indices ElementEmitter::mapped(AffineMap map, ArrayRef<Index> loops) {
  return llvm::map_to_vector<6>(map.getResults(), [&](AffineExpr expression) {
    return math.evaluate(expression, loops, kernel.symbols());
  });
}

SmallVector<Value> ElementEmitter::generic(OpResult result, ArrayRef<Indices> places) {
  linalg::GenericOp op = cast<linalg::GenericOp>(result.getOwner());
  unsigned number = result.getResultNumber();
  AffineMap map = op.getMatchingIndexingMap(op.getDpsInitOperand(number));
  SmallVector<unsigned> reductions;
  op.getReductionDims(reductions);
  SmallVector<Indices> loops;
  SmallVector<SmallVector<Value>> accumulators;
  for (const Indices &place : places) {
    Indices indices(op.getNumLoops(), Index::constant(0));
    for (auto [i, expression] : llvm::enumerate(map.getResults())) {
      indices[cast<AffineDimExpr>(expression).getPosition()] = place[i];
    }
    loops.push_back(indices);
    accumulators.push_back(reductions.empty() ? SmallVector<Value>() : initial(op, place));
  }
  SmallVector<SmallVector<Value>> results = reductions.empty()
                                                ? steps(op, loops, accumulators)
                                                : reduce(op, reductions, loops, accumulators);
  // The other results at the same loops are known by the way.
  for (OpResult other : op->getResults()) {
    unsigned i = other.getResultNumber();
    if (i == number || op.getMatchingIndexingMap(op.getDpsInitOperand(i)) != map) {
      continue;
    }
    for (auto [place, values] : llvm::zip(places, results)) {
      known.insert({Value(other).getAsOpaquePointer(), keyOf(place)}, values[i]);
    }
  }
  return llvm::map_to_vector(results,
                             [&](const SmallVector<Value> &values) { return values[number]; });
}

SmallVector<Value> ElementEmitter::initial(linalg::GenericOp op, ArrayRef<Index> place) {
  return llvm::map_to_vector(op.getOutputs(), [&](Value output) { return element(output, place); });
}

/// All accumulators of all places go through one nest of loops.
SmallVector<SmallVector<Value>>
ElementEmitter::reduce(linalg::GenericOp op, ArrayRef<unsigned> reductions,
                       SmallVector<Indices> loops, SmallVector<SmallVector<Value>> accumulators) {
  if (reductions.empty()) {
    return steps(op, loops, accumulators);
  }
  OpBuilder &builder = kernel.builder;
  unsigned loop = reductions.front();
  Index size = kernel.size(kernel.region.loopSizes(op)[loop]);
  int64_t copies = loops.size();
  if (size.isConstant() && reductions.size() == 1 && size.offset * copies <= kUnrolled) {
    for (int64_t i = 0; i < size.offset; ++i) {
      for (Indices &indices : loops) {
        indices[loop] = Index::constant(i);
      }
      accumulators = steps(op, loops, accumulators);
    }
    return accumulators;
  }
  SmallVector<Value> carried;
  for (const SmallVector<Value> &values : accumulators) {
    llvm::append_range(carried, values);
  }
  scf::ForOp made = scf::ForOp::create(builder, kernel.location, math.constant(0), math.value(size),
                                       math.constant(1), carried);
  unsigned results = op.getNumResults();
  auto unflatten = [&](ValueRange flat) {
    for (size_t i = 0; i < accumulators.size(); ++i) {
      accumulators[i] = llvm::to_vector(flat.slice(i * results, results));
    }
  };
  {
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPointToStart(made.getBody());
    openScope();
    for (Indices &indices : loops) {
      indices[loop] = {made.getInductionVar(), 0, 1, true};
    }
    unflatten(made.getRegionIterArgs());
    accumulators = reduce(op, reductions.drop_front(), loops, accumulators);
    SmallVector<Value> yielded;
    for (const SmallVector<Value> &values : accumulators) {
      llvm::append_range(yielded, values);
    }
    scf::YieldOp::create(builder, kernel.location, yielded);
    closeScope();
  }
  unflatten(made.getResults());
  return accumulators;
}

SmallVector<SmallVector<Value>> ElementEmitter::steps(linalg::GenericOp op, ArrayRef<Indices> loops,
                                                      ArrayRef<SmallVector<Value>> accumulators) {
  SmallVector<Lane> lanes(loops.size());
  for (auto [lane, indices] : llvm::zip(lanes, loops)) {
    lane.loops = indices;
  }
  bindOperands(op, lanes, accumulators);
  Block &body = op.getRegion().front();
  for (Operation &inner : body.without_terminator()) {
    emit(inner, lanes);
  }
  SmallVector<SmallVector<Value>> results;
  for (const Lane &lane : lanes) {
    results.push_back(llvm::map_to_vector(body.getTerminator()->getOperands(),
                                          [&](Value value) { return valueOf(value, lane); }));
  }
  return results;
}

void ElementEmitter::bindOperands(linalg::GenericOp op, MutableArrayRef<Lane> lanes,
                                  ArrayRef<SmallVector<Value>> accumulators) {
  for (OpOperand &operand : op->getOpOperands()) {
    BlockArgument argument = op.getMatchingBlockArgument(&operand);
    if (argument.use_empty()) {
      continue;
    }
    if (op.isDpsInit(&operand) && !accumulators.empty() && !accumulators.front().empty()) {
      unsigned number = operand.getOperandNumber() - op.getNumDpsInputs();
      for (auto [i, lane] : llvm::enumerate(lanes)) {
        lane.values[argument] = accumulators[i][number];
      }
      continue;
    }
    AffineMap map = op.getMatchingIndexingMap(&operand);
    SmallVector<Indices> places;
    for (const Lane &lane : lanes) {
      places.push_back(mapped(map, lane.loops));
    }
    SmallVector<Value> values = elements(operand.get(), places);
    for (auto [lane, value] : llvm::zip(lanes, values)) {
      lane.values[argument] = value;
    }
  }
}

} // namespace tenon::codegen::cuda
