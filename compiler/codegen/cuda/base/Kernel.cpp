// Relies on the NVVM dialect for the registers and barriers of a thread, and on buffers (views too)
// starting on 16-byte borders.
#include "compiler/codegen/cuda/base/Kernel.h"

#include "compiler/codegen/common/region/Programs.h"
#include "compiler/codegen/common/region/RegionSource.h"
#include "compiler/codegen/cuda/base/KernelShell.h"
#include "compiler/codegen/cuda/base/ThreadBuilder.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

#include <numeric>

using namespace mlir;

namespace tenon::codegen::cuda {
namespace {

/// What loads and stores move at most at once, and where buffers start.
constexpr int64_t kAlignment = 16;
constexpr unsigned kGlobal = 1, kShared = 3;

Type elementOf(Type type) {
  VectorType vector = dyn_cast<VectorType>(type);
  return vector ? vector.getElementType() : type;
}

} // namespace

Kernel::Kernel(RegionBuilder &region, unsigned threads)
    : region(region), builder(region.source.getContext()), location(builder.getUnknownLoc()),
      math(builder), threads(threads) {
  std::string name = region.symbol;
  if (!region.code.steps.empty()) {
    name += "_" + std::to_string(region.code.steps.size());
  }
  builder.setInsertionPointToEnd(region.kernels->getBody());
  MLIRContext *context = builder.getContext();
  LLVM::LLVMFunctionType type =
      LLVM::LLVMFunctionType::get(LLVM::LLVMVoidType::get(context), ArrayRef<Type>());
  function = LLVM::LLVMFuncOp::create(builder, location, name, type);
  function->setAttr(NVVM::NVVMDialect::getKernelFuncAttrName(), builder.getUnitAttr());
  function->setAttr(NVVM::NVVMDialect::getReqntidAttrName(),
                    builder.getDenseI32ArrayAttr({static_cast<int32_t>(threads)}));
  Block *entry = function.addEntryBlock(builder);
  builder.setInsertionPointToEnd(entry);
  LLVM::ReturnOp exit = LLVM::ReturnOp::create(builder, location, ValueRange());
  builder.setInsertionPoint(exit);
  if (region.gpu.has(target::Feature::DependentLaunch)) {
    // The launch may be early; the next one may be too as soon as this one has begun.
    wait = NVVM::GriddepcontrolOp::create(builder, location, NVVM::GridDepActionKind::wait);
    launchDependents = NVVM::GriddepcontrolOp::create(builder, location,
                                                      NVVM::GridDepActionKind::launch_dependents);
  }
  for (unsigned i = 0; i < region.symbolCount; ++i) {
    Value argument = entry->addArgument(builder.getI64Type(), location);
    Value index = arith::IndexCastOp::create(builder, location, builder.getIndexType(), argument);
    symbolValues.push_back({index, 0, 1, true});
  }
}

Value Kernel::specialRegister(Operation *read) {
  return arith::IndexCastOp::create(builder, location, builder.getIndexType(), read->getResult(0));
}

Index Kernel::thread() {
  LLVM::ConstantRangeAttr range = LLVM::ConstantRangeAttr::get(
      builder.getContext(), llvm::APInt(32, 0), llvm::APInt(32, threads));
  Operation *read = NVVM::ThreadIdXOp::create(builder, location, builder.getI32Type(), range);
  return {specialRegister(read), 0, 1, true};
}

Index Kernel::block() {
  LLVM::ConstantRangeAttr range = LLVM::ConstantRangeAttr::get(
      builder.getContext(), llvm::APInt(32, 0), llvm::APInt(32, 0x7fffffff));
  Operation *read = NVVM::BlockIdXOp::create(builder, location, builder.getI32Type(), range);
  return {specialRegister(read), 0, 1, true};
}

Indices Kernel::sizes(ArrayRef<AffineExpr> expressions) {
  Indices result;
  for (AffineExpr expression : expressions) {
    result.push_back(size(expression));
  }
  return result;
}

/// With dependent launch a kernel begins while the one before may still write what this one reads:
/// then only weights keep still. (Plain loads are as fast: 4.10 against 4.10 TB/s for softmax of
/// 1,024, 4.33 for a chain of elementwise ops.)
bool Kernel::isInvariant(unsigned buffer) const {
  bool isWeight = buffer < region.source.getNumArguments() &&
                  region.source.getArgAttr(buffer, kConstantArgument);
  return !region.mayAliasOutput(buffer) &&
         (isWeight || !region.gpu.has(target::Feature::DependentLaunch));
}

Value Kernel::pointer(unsigned buffer, bool isWritten) {
  for (const Argument &argument : writtens) {
    if (argument.buffer == buffer) {
      return argument.pointer;
    }
  }
  for (const Argument &argument : reads) {
    if (argument.buffer == buffer && !isWritten) {
      return argument.pointer;
    }
  }
  llvm::SmallVector<Argument> &group = isWritten ? writtens : reads;
  unsigned position = reads.size() + (isWritten ? writtens.size() : 0);
  Type type = LLVM::LLVMPointerType::get(builder.getContext(), kGlobal);
  BlockArgument made = function.getBody().front().insertArgument(position, type, location);
  group.push_back({buffer, made, !isWritten && isInvariant(buffer)});
  return made;
}

Value Kernel::orderedPointer(unsigned buffer) {
  Value result = pointer(buffer, /*isWritten=*/false);
  for (Argument &argument : reads) {
    argument.isInvariant &= argument.buffer != buffer;
  }
  return result;
}

bool Kernel::writes(unsigned buffer) const {
  return llvm::any_of(writtens,
                      [&](const Argument &argument) { return argument.buffer == buffer; });
}

unsigned Kernel::alignment(Type element, const Index &offset) {
  int64_t bytes = byteSize(elementOf(element)) * offset.commonDivisor();
  return bytes == 0 ? kAlignment : std::gcd(bytes, kAlignment);
}

Value Kernel::address(Value pointer, Type element, const Index &offset) {
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

Value Kernel::copied(Value value) {
  bool isWord = value.getType().isInteger(32);
  return ThreadBuilder(builder, location)
      .assembly(value.getType(), isWord ? "mov.b32 $0, $1;" : "mov.b64 $0, $1;",
                isWord ? "=r,r" : "=l,l", value);
}

Value Kernel::load(unsigned buffer, Type element, const Index &offset) {
  return loadThrough(pointer(buffer, writes(buffer)), buffer, element, offset);
}

Value Kernel::loadThrough(Value base, unsigned buffer, Type element, const Index &offset) {
  bool isInvariant = llvm::any_of(reads, [&](const Argument &argument) {
    return argument.buffer == buffer && argument.isInvariant;
  });
  return LLVM::LoadOp::create(builder, location, element, address(base, element, offset),
                              alignment(element, offset), /*isVolatile=*/false,
                              /*isNonTemporal=*/false, isInvariant && !writes(buffer));
}

void Kernel::store(unsigned buffer, Value value, const Index &offset, Value condition) {
  OpBuilder::InsertionGuard guard(builder);
  if (condition) {
    scf::IfOp branch = scf::IfOp::create(builder, location, condition, /*withElseRegion=*/false);
    builder.setInsertionPointToStart(branch.thenBlock());
  }
  Type element = value.getType();
  Value target = address(pointer(buffer, /*isWritten=*/true), element, offset);
  LLVM::StoreOp::create(builder, location, value, target, alignment(element, offset));
}

Value Kernel::tensorMap(unsigned buffer, AffineExpr rows, AffineExpr columns,
                        AffineExpr rowElements, int64_t boxRows) {
  pointer(buffer, /*isWritten=*/false);
  auto position =
      llvm::find_if(reads, [&](const Argument &argument) { return argument.buffer == buffer; });
  tensorMaps.push_back(tensorMapOf(position - reads.begin(), rows, columns, rowElements, boxRows));
  return function.getBody().front().addArgument(LLVM::LLVMPointerType::get(builder.getContext()),
                                                location);
}

Value Kernel::sharedArray(Type type, StringRef suffix, bool isExternal, unsigned alignment) {
  StringRef kernel = function.getSymName();
  std::string name = (kernel + "_" + suffix).str();
  OpBuilder::InsertionGuard guard(builder);
  if (!region.kernels->lookupSymbol(name)) {
    builder.setInsertionPointToStart(region.kernels->getBody());
    LLVM::GlobalOp::create(builder, location, type, /*isConstant=*/false,
                           isExternal ? LLVM::Linkage::External : LLVM::Linkage::Internal, name,
                           Attribute(), alignment, kShared);
  }
  builder.setInsertionPointToStart(&function.getBody().front());
  Type pointerType = LLVM::LLVMPointerType::get(builder.getContext(), kShared);
  return LLVM::AddressOfOp::create(builder, location, pointerType, name);
}

Value Kernel::shared(Type element, int64_t count) {
  return sharedArray(LLVM::LLVMArrayType::get(element, count),
                     "shared" + std::to_string(sharedArrays++), /*isExternal=*/false, kAlignment);
}

Value Kernel::dynamicShared(unsigned alignment) {
  return sharedArray(LLVM::LLVMArrayType::get(builder.getI8Type(), 0), "dynamic",
                     /*isExternal=*/true, alignment);
}

void Kernel::barrier() { NVVM::BarrierOp::create(builder, location); }

void Kernel::setMinBlocksPerSm(int64_t blocks) { cuda::setMinBlocksPerSm(function, blocks); }

void Kernel::setCluster(int64_t blocks) { cuda::setCluster(function, blocks); }

void Kernel::waitLater() {
  if (wait) {
    wait->erase();
    wait = nullptr;
  }
}

void Kernel::holdDependents() {
  if (launchDependents) {
    launchDependents->moveBefore(function.getBody().back().getTerminator());
  }
}

void Kernel::finish(AffineExpr grid, AffineExpr dynamicSharedBytes) {
  MLIRContext *context = builder.getContext();
  Block &entry = function.getBody().front();
  function.setFunctionType(LLVM::LLVMFunctionType::get(LLVM::LLVMVoidType::get(context),
                                                       llvm::to_vector(entry.getArgumentTypes())));
  RegionStep step;
  step.symbol = function.getSymName().str();
  step.reads = reads.size();
  step.threads = threads;
  step.grid = programOf(grid);
  if (dynamicSharedBytes) {
    step.scratch = programOf(dynamicSharedBytes);
  }
  for (const Argument &argument : llvm::concat<const Argument>(reads, writtens)) {
    unsigned position = argument.pointer.getArgNumber();
    step.buffers.push_back(argument.buffer);
    function.setArgAttr(position, LLVM::LLVMDialect::getAlignAttrName(),
                        builder.getI64IntegerAttr(kAlignment));
    if (argument.isInvariant) {
      function.setArgAttr(position, LLVM::LLVMDialect::getNoAliasAttrName(), builder.getUnitAttr());
      function.setArgAttr(position, LLVM::LLVMDialect::getReadonlyAttrName(),
                          builder.getUnitAttr());
    }
  }
  for (unsigned i = 0; i < region.symbolCount; ++i) {
    step.sizes.push_back({{engine::ExprOp::Symbol, i}});
  }
  unsigned firstMap = reads.size() + writtens.size() + region.symbolCount;
  for (size_t i = 0; i < tensorMaps.size(); ++i) {
    markTensorMap(function, firstMap + i);
  }
  step.tensorMaps.assign(tensorMaps.begin(), tensorMaps.end());
  region.code.steps.push_back(std::move(step));
}

} // namespace tenon::codegen::cuda
