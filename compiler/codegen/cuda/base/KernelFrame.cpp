// Arguments are added to the entry block as they are asked for. Relies on nobody calling the
// function before `finish` gives it its type, and on buffers (views too) starting on 16-byte
// borders.
#include "compiler/codegen/cuda/base/KernelFrame.h"

#include "compiler/codegen/common/region/Programs.h"
#include "compiler/codegen/common/region/RegionSource.h"
#include "compiler/codegen/cuda/base/AsyncCopy.h"
#include "compiler/graph/Shape.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

#include <numeric>

using namespace mlir;

namespace tenon::codegen::cuda {
namespace {

/// What loads and stores move at most at once, and where buffers start.
constexpr int64_t kAlignment = 16;

Type elementOf(Type type) {
  VectorType vector = dyn_cast<VectorType>(type);
  return vector ? vector.getElementType() : type;
}

/// States that an argument is a tensor map: passed by value and only read, so that the kernel needs
/// no copy of its own.
void markTensorMap(LLVM::LLVMFuncOp kernel, unsigned argument) {
  Builder builder(kernel.getContext());
  Type bytes = LLVM::LLVMArrayType::get(builder.getI8Type(), kTensorMapBytes);
  kernel.setArgAttr(argument, LLVM::LLVMDialect::getByValAttrName(), TypeAttr::get(bytes));
  kernel.setArgAttr(argument, LLVM::LLVMDialect::getAlignAttrName(),
                    builder.getI64IntegerAttr(kTensorMapAlignment));
  kernel.setArgAttr(argument, NVVM::NVVMDialect::getGridConstantAttrName(), builder.getUnitAttr());
}

} // namespace

KernelFrame::KernelFrame(RegionBuilder &region, unsigned threads)
    : region(region), builder(region.source.getContext()), location(builder.getUnknownLoc()),
      math(builder), isListed(false) {
  begin({}, 0, threads);
  for (unsigned i = 0; i < region.symbolCount; ++i) {
    Value argument = addSize(getAffineSymbolExpr(i, builder.getContext()));
    Value index = arith::IndexCastOp::create(builder, location, builder.getIndexType(), argument);
    symbolValues.push_back({index, 0, 1, true});
  }
}

KernelFrame::KernelFrame(RegionBuilder &region, ArrayRef<uint32_t> buffers, unsigned reads,
                         unsigned threads)
    : region(region), builder(region.source.getContext()), location(builder.getUnknownLoc()),
      math(builder), isListed(true) {
  begin(buffers, reads, threads);
}

void KernelFrame::begin(ArrayRef<uint32_t> listed, unsigned reads, unsigned threads) {
  step.symbol = region.symbol;
  if (!region.code.steps.empty()) {
    step.symbol += "_" + std::to_string(region.code.steps.size());
  }
  step.reads = reads;
  step.threads = threads;
  builder.setInsertionPointToEnd(region.kernels->getBody());
  LLVM::LLVMFunctionType type =
      LLVM::LLVMFunctionType::get(LLVM::LLVMVoidType::get(builder.getContext()), ArrayRef<Type>());
  function = LLVM::LLVMFuncOp::create(builder, location, step.symbol, type);
  function->setAttr(NVVM::NVVMDialect::getKernelFuncAttrName(), builder.getUnitAttr());
  function->setAttr(NVVM::NVVMDialect::getReqntidAttrName(),
                    builder.getDenseI32ArrayAttr({static_cast<int32_t>(threads)}));
  builder.setInsertionPointToEnd(function.addEntryBlock(builder));
  builder.setInsertionPoint(LLVM::ReturnOp::create(builder, location, ValueRange()));
  for (uint32_t buffer : listed) {
    Value generic = body().addArgument(code().pointerType(Space::Generic), location);
    buffers.push_back({buffer, code().toGlobal(generic), /*isInvariant=*/false});
  }
  if (region.gpu.has(target::Feature::DependentLaunch)) {
    // The launch may be early; the next one may be too as soon as this one has begun.
    step.isDependentLaunch = true;
    wait = NVVM::GriddepcontrolOp::create(builder, location, NVVM::GridDepActionKind::wait);
    launchDependents = NVVM::GriddepcontrolOp::create(builder, location,
                                                      NVVM::GridDepActionKind::launch_dependents);
  }
}

/// In front of the tensor maps.
Value KernelFrame::addSize(AffineExpr expression) {
  passedSizes.push_back(expression);
  unsigned position = buffers.size() + passedSizes.size() - 1;
  return body().insertArgument(position, builder.getI64Type(), location);
}

Value KernelFrame::size64(AffineExpr expression) {
  AffineExpr normal = tn::simplify(expression);
  expression = normal ? normal : expression;
  if (!isListed) {
    return builder.createOrFold<arith::IndexCastOp>(location, builder.getI64Type(),
                                                    math.value(size(expression)));
  }
  if (std::optional<int64_t> constant = tn::constantDim(expression)) {
    return code().i64(*constant);
  }
  const AffineExpr *known = llvm::find(passedSizes, expression);
  return known == passedSizes.end()
             ? addSize(expression)
             : body().getArgument(buffers.size() + (known - passedSizes.begin()));
}

Value KernelFrame::specialRegister(Operation *read) {
  return arith::IndexCastOp::create(builder, location, builder.getIndexType(), read->getResult(0));
}

Index KernelFrame::thread() {
  LLVM::ConstantRangeAttr range = LLVM::ConstantRangeAttr::get(
      builder.getContext(), llvm::APInt(32, 0), llvm::APInt(32, step.threads));
  Operation *read = NVVM::ThreadIdXOp::create(builder, location, builder.getI32Type(), range);
  return {specialRegister(read), 0, 1, true};
}

Index KernelFrame::block() {
  LLVM::ConstantRangeAttr range = LLVM::ConstantRangeAttr::get(
      builder.getContext(), llvm::APInt(32, 0), llvm::APInt(32, 0x7fffffff));
  Operation *read = NVVM::BlockIdXOp::create(builder, location, builder.getI32Type(), range);
  return {specialRegister(read), 0, 1, true};
}

Indices KernelFrame::sizes(ArrayRef<AffineExpr> expressions) {
  Indices result;
  for (AffineExpr expression : expressions) {
    result.push_back(size(expression));
  }
  return result;
}

/// With dependent launch a kernel begins while the one before may still write what this one reads:
/// then only weights keep still. (Plain loads are as fast: 4.10 against 4.10 TB/s for softmax of
/// 1,024, 4.33 for a chain of elementwise ops.)
bool KernelFrame::isInvariant(unsigned buffer) const {
  bool isWeight = buffer < region.source.getNumArguments() &&
                  region.source.getArgAttr(buffer, kConstantArgument);
  return !region.mayAliasOutput(buffer) &&
         (isWeight || !region.gpu.has(target::Feature::DependentLaunch));
}

Value KernelFrame::pointer(unsigned buffer, bool isWritten) {
  for (const Argument &argument : writtens()) {
    if (argument.buffer == buffer) {
      return argument.pointer;
    }
  }
  for (const Argument &argument : reads()) {
    if (argument.buffer == buffer && !isWritten) {
      return argument.pointer;
    }
  }
  unsigned position = isWritten ? buffers.size() : step.reads++;
  Value made = body().insertArgument(position, code().pointerType(Space::Global), location);
  buffers.insert(buffers.begin() + position, {buffer, made, !isWritten && isInvariant(buffer)});
  return made;
}

Value KernelFrame::orderedPointer(unsigned buffer) {
  Value result = pointer(buffer, /*isWritten=*/false);
  for (Argument &argument : buffers) {
    argument.isInvariant &= argument.buffer != buffer;
  }
  return result;
}

bool KernelFrame::writes(unsigned buffer) const {
  return llvm::any_of(writtens(),
                      [&](const Argument &argument) { return argument.buffer == buffer; });
}

unsigned KernelFrame::alignment(Type element, const Index &offset) {
  int64_t bytes = byteSize(elementOf(element)) * offset.commonDivisor();
  return bytes == 0 ? kAlignment : std::gcd(bytes, kAlignment);
}

Value KernelFrame::address(Value pointer, Type element, const Index &offset) {
  Type step = elementOf(element);
  Type integer = builder.getIntegerType(region.indexBits());
  Type type = pointer.getType();
  LLVM::GEPNoWrapFlags inBounds = LLVM::GEPNoWrapFlags::inbounds;
  if (offset.base) {
    Value number = arith::IndexCastOp::create(builder, location, integer, offset.base);
    pointer = LLVM::GEPOp::create(builder, location, type, step, pointer,
                                  ArrayRef<LLVM::GEPArg>{number}, inBounds);
  }
  if (offset.offset != 0) {
    Value number = LLVM::ConstantOp::create(builder, location, builder.getI64Type(),
                                            builder.getI64IntegerAttr(offset.offset));
    pointer =
        LLVM::GEPOp::create(builder, location, type, step, pointer, ArrayRef<LLVM::GEPArg>{number});
  }
  return pointer;
}

Value KernelFrame::copied(Value value) {
  bool isWord = value.getType().isInteger(32);
  return code().assembly(value.getType(), isWord ? "mov.b32 $0, $1;" : "mov.b64 $0, $1;",
                         isWord ? "=r,r" : "=l,l", value);
}

Value KernelFrame::load(unsigned buffer, Type element, const Index &offset) {
  return loadThrough(pointer(buffer, writes(buffer)), buffer, element, offset);
}

Value KernelFrame::loadThrough(Value base, unsigned buffer, Type element, const Index &offset) {
  bool isInvariant = llvm::any_of(reads(), [&](const Argument &argument) {
    return argument.buffer == buffer && argument.isInvariant;
  });
  return LLVM::LoadOp::create(builder, location, element, address(base, element, offset),
                              alignment(element, offset), /*isVolatile=*/false,
                              /*isNonTemporal=*/false, isInvariant && !writes(buffer));
}

void KernelFrame::store(unsigned buffer, Value value, const Index &offset, Value condition) {
  OpBuilder::InsertionGuard guard(builder);
  if (condition) {
    scf::IfOp branch = scf::IfOp::create(builder, location, condition, /*withElseRegion=*/false);
    builder.setInsertionPointToStart(branch.thenBlock());
  }
  Type element = value.getType();
  Value target = address(pointer(buffer, /*isWritten=*/true), element, offset);
  LLVM::StoreOp::create(builder, location, value, target, alignment(element, offset));
}

Value KernelFrame::tensorMap(unsigned buffer, AffineExpr rows, AffineExpr columns,
                             AffineExpr rowElements, int64_t boxRows) {
  constexpr uint32_t elementBytes = 2;
  if (!isListed) {
    pointer(buffer, /*isWritten=*/false);
  }
  const Argument *read =
      llvm::find_if(reads(), [&](const Argument &argument) { return argument.buffer == buffer; });
  step.tensorMaps.push_back({static_cast<uint32_t>(read - reads().begin()), elementBytes,
                             programOf(rows), programOf(columns),
                             programOf(rowElements * elementBytes), static_cast<uint32_t>(boxRows),
                             static_cast<uint32_t>(kBoxColumns)});
  return body().addArgument(code().pointerType(Space::Generic), location);
}

Value KernelFrame::sharedArray(Type type, StringRef suffix, bool isExternal, unsigned alignment) {
  std::string name = step.symbol + "_" + suffix.str();
  OpBuilder::InsertionGuard guard(builder);
  if (!region.kernels->lookupSymbol(name)) {
    builder.setInsertionPointToStart(region.kernels->getBody());
    LLVM::GlobalOp::create(builder, location, type, /*isConstant=*/false,
                           isExternal ? LLVM::Linkage::External : LLVM::Linkage::Internal, name,
                           Attribute(), alignment, static_cast<unsigned>(Space::Shared));
  }
  builder.setInsertionPointToStart(&body());
  return LLVM::AddressOfOp::create(builder, location, code().pointerType(Space::Shared), name);
}

Value KernelFrame::shared(Type element, int64_t count) {
  return sharedArray(LLVM::LLVMArrayType::get(element, count),
                     "shared" + std::to_string(sharedArrays++), /*isExternal=*/false, kAlignment);
}

Value KernelFrame::dynamicShared(unsigned alignment) {
  return sharedArray(LLVM::LLVMArrayType::get(builder.getI8Type(), 0), "dynamic",
                     /*isExternal=*/true, alignment);
}

void KernelFrame::setMinBlocksPerSm(int64_t blocks) {
  function->setAttr(NVVM::NVVMDialect::getMinctasmAttrName(),
                    builder.getI32IntegerAttr(static_cast<int32_t>(blocks)));
}

void KernelFrame::setCluster(int64_t blocks) {
  step.cluster = static_cast<uint32_t>(blocks);
  function->setAttr(NVVM::NVVMDialect::getClusterDimAttrName(),
                    builder.getDenseI32ArrayAttr({static_cast<int32_t>(blocks), 1, 1}));
}

void KernelFrame::setWholeGrid() {
  step.cluster = engine::kWholeGrid;
  step.isDependentLaunch = false;
  holdDependents();
  if (wait) {
    wait->erase();
    wait = nullptr;
  }
}

Value KernelFrame::statusPointer() {
  step.canFail = true;
  return code().toGlobal(body().addArgument(code().pointerType(Space::Generic), location));
}

void KernelFrame::waitHere() {
  if (wait) {
    wait->moveBefore(builder.getInsertionBlock(), builder.getInsertionPoint());
  }
}

void KernelFrame::launchDependentsHere() {
  if (launchDependents) {
    launchDependents->moveBefore(builder.getInsertionBlock(), builder.getInsertionPoint());
  }
}

void KernelFrame::holdDependents() {
  if (launchDependents) {
    launchDependents->erase();
    launchDependents = nullptr;
  }
}

void KernelFrame::finish(AffineExpr grid, int64_t dynamicSharedBytes) {
  function.setFunctionType(LLVM::LLVMFunctionType::get(
      LLVM::LLVMVoidType::get(builder.getContext()), llvm::to_vector(body().getArgumentTypes())));
  step.grid = programOf(grid);
  if (dynamicSharedBytes > 0) {
    step.scratch = programOf(getAffineConstantExpr(dynamicSharedBytes, builder.getContext()));
  }
  for (auto [position, argument] : llvm::enumerate(buffers)) {
    step.buffers.push_back(argument.buffer);
    if (!isListed) {
      function.setArgAttr(position, LLVM::LLVMDialect::getAlignAttrName(),
                          builder.getI64IntegerAttr(kAlignment));
    }
    if (argument.isInvariant) {
      function.setArgAttr(position, LLVM::LLVMDialect::getNoAliasAttrName(), builder.getUnitAttr());
      function.setArgAttr(position, LLVM::LLVMDialect::getReadonlyAttrName(),
                          builder.getUnitAttr());
    }
  }
  for (AffineExpr size : passedSizes) {
    step.sizes.push_back(programOf(size));
  }
  for (size_t i = 0; i < step.tensorMaps.size(); ++i) {
    markTensorMap(function, buffers.size() + passedSizes.size() + i);
  }
  region.code.steps.push_back(std::move(step));
}

} // namespace tenon::codegen::cuda
