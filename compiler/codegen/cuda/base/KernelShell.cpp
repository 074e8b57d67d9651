// Arguments are added to the entry block as they are asked for. Relies on nobody calling the
// function before `finish` gives it its type.
#include "compiler/codegen/cuda/base/KernelShell.h"

#include "compiler/codegen/common/region/Programs.h"
#include "compiler/codegen/cuda/base/AsyncCopy.h"
#include "compiler/graph/Shape.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"

using namespace mlir;

namespace tenon::codegen::cuda {

namespace {

LLVM::LLVMFunctionType functionType(ArrayRef<Type> arguments) {
  return LLVM::LLVMFunctionType::get(LLVM::LLVMVoidType::get(arguments.front().getContext()),
                                     arguments);
}

} // namespace

TensorMapArgument tensorMapOf(uint32_t position, AffineExpr rows, AffineExpr columns,
                              AffineExpr rowElements, int64_t boxRows) {
  constexpr uint32_t elementBytes = 2;
  return {position,
          elementBytes,
          programOf(rows),
          programOf(columns),
          programOf(rowElements * elementBytes),
          static_cast<uint32_t>(boxRows),
          static_cast<uint32_t>(kBoxColumns)};
}

void markTensorMap(LLVM::LLVMFuncOp kernel, unsigned argument) {
  Builder builder(kernel.getContext());
  Type bytes = LLVM::LLVMArrayType::get(builder.getI8Type(), kTensorMapBytes);
  kernel.setArgAttr(argument, LLVM::LLVMDialect::getByValAttrName(), TypeAttr::get(bytes));
  kernel.setArgAttr(argument, LLVM::LLVMDialect::getAlignAttrName(),
                    builder.getI64IntegerAttr(kTensorMapAlignment));
  kernel.setArgAttr(argument, NVVM::NVVMDialect::getGridConstantAttrName(), builder.getUnitAttr());
}

void setMinBlocksPerSm(LLVM::LLVMFuncOp kernel, int64_t blocks) {
  kernel->setAttr(NVVM::NVVMDialect::getMinctasmAttrName(),
                  Builder(kernel.getContext()).getI32IntegerAttr(static_cast<int32_t>(blocks)));
}

void setCluster(LLVM::LLVMFuncOp kernel, int64_t blocks) {
  kernel->setAttr(
      NVVM::NVVMDialect::getClusterDimAttrName(),
      Builder(kernel.getContext()).getDenseI32ArrayAttr({static_cast<int32_t>(blocks), 1, 1}));
}

KernelShell::KernelShell(ModuleOp module, StringRef symbol, ArrayRef<uint32_t> buffers,
                         uint32_t reads, uint32_t threads)
    : module(module), builder(module.getContext()), location(module.getLoc()) {
  step.symbol = symbol.str();
  step.buffers.assign(buffers.begin(), buffers.end());
  step.reads = reads;
  step.threads = threads;
  builder.setInsertionPointToEnd(module.getBody());
  SmallVector<Type> types(buffers.size(), code().pointerType(Space::Generic));
  function = LLVM::LLVMFuncOp::create(builder, location, symbol, functionType(types));
  function->setAttr(NVVM::NVVMDialect::getKernelFuncAttrName(), builder.getUnitAttr());
  function->setAttr(NVVM::NVVMDialect::getReqntidAttrName(),
                    builder.getDenseI32ArrayAttr(static_cast<int32_t>(threads)));
  Block *entry = function.addEntryBlock(builder);
  builder.setInsertionPointToEnd(entry);
  for (Value argument : entry->getArguments()) {
    pointers.push_back(code().toGlobal(argument));
  }
}

Value KernelShell::size(AffineExpr expression) {
  AffineExpr normal = tn::simplify(expression);
  expression = normal ? normal : expression;
  if (std::optional<int64_t> constant = tn::constantDim(expression)) {
    return code().i64(*constant);
  }
  Block &entry = function.getBody().front();
  const AffineExpr *known = llvm::find(sizes, expression);
  if (known == sizes.end()) {
    sizes.push_back(expression);
    // In front of the tensor maps.
    return entry.insertArgument(pointers.size() + sizes.size() - 1, builder.getI64Type(), location);
  }
  return entry.getArgument(pointers.size() + (known - sizes.begin()));
}

Value KernelShell::tensorMap(unsigned position, AffineExpr rows, AffineExpr columns,
                             AffineExpr rowElements, int64_t boxRows) {
  step.tensorMaps.push_back(tensorMapOf(position, rows, columns, rowElements, boxRows));
  return function.getBody().front().addArgument(code().pointerType(Space::Generic), location);
}

Value KernelShell::shared(unsigned alignment) {
  std::string name = step.symbol + "_shared";
  LLVM::GlobalOp global = module.lookupSymbol<LLVM::GlobalOp>(name);
  if (!global) {
    OpBuilder outside(module.getBodyRegion());
    global =
        LLVM::GlobalOp::create(outside, location, LLVM::LLVMArrayType::get(builder.getI8Type(), 0),
                               /*isConstant=*/false, LLVM::Linkage::External, name, Attribute(),
                               alignment, static_cast<unsigned>(Space::Shared));
  }
  return LLVM::AddressOfOp::create(builder, location, global);
}

RegionStep KernelShell::finish(AffineExpr blocks, int64_t sharedBytes) {
  LLVM::ReturnOp::create(builder, location, ValueRange());
  function.setFunctionType(
      functionType(SmallVector<Type>(function.getBody().front().getArgumentTypes())));
  for (size_t i = 0; i < step.tensorMaps.size(); ++i) {
    markTensorMap(function, pointers.size() + sizes.size() + i);
  }
  for (AffineExpr size : sizes) {
    step.sizes.push_back(programOf(size));
  }
  step.grid = programOf(blocks);
  if (sharedBytes > 0) {
    step.scratch = programOf(getAffineConstantExpr(sharedBytes, module.getContext()));
  }
  return std::move(step);
}

} // namespace tenon::codegen::cuda
