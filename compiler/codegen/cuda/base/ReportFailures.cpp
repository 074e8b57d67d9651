// Relies on a kernel having one way out, at the end of its only block.
#include "compiler/codegen/cuda/base/ReportFailures.h"

#include "compiler/codegen/common/region/Failures.h"
#include "compiler/codegen/cuda/base/ThreadBuilder.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"

using namespace mlir;

namespace tenon::codegen::cuda {
namespace {

/// A kernel returns nothing, which FunctionOpInterface takes for a type that cannot be extended.
Value addPointer(LLVM::LLVMFuncOp kernel, Type pointer) {
  LLVM::LLVMFunctionType type = kernel.getFunctionType();
  SmallVector<Type> parameters(type.getParams());
  parameters.push_back(pointer);
  SmallVector<DictionaryAttr> attributes;
  kernel.getAllArgAttrs(attributes);
  attributes.push_back(DictionaryAttr::get(kernel.getContext()));
  kernel.setFunctionType(LLVM::LLVMFunctionType::get(type.getReturnType(), parameters));
  kernel.setAllArgAttrs(attributes);
  return kernel.getBody().addArgument(pointer, kernel.getLoc());
}

/// At the end a thread in which something failed sets a byte for each kind of failure.
bool reportAtEnd(LLVM::LLVMFuncOp kernel) {
  Value word = collectFailures(kernel, [](tn::RequireOp op) { return OpBuilder(op); });
  if (!word) {
    return false;
  }
  OpBuilder builder(kernel.getBody().back().getTerminator());
  ThreadBuilder code(builder, kernel.getLoc());
  Value status = code.toGlobal(addPointer(kernel, code.pointerType(Space::Generic)));
  Value bits = code.load(code.i32Type(), word, 4);
  code.when(code.isLess(code.i32(0), bits), [&](const ThreadBuilder &failed) {
    for (tn::Failure failure :
         {tn::Failure::index, tn::Failure::arithmetic, tn::Failure::constraint}) {
      Value bit = failed.i32(failureBit(failure));
      Value isSet = failed.isEqual(failed.bitAnd(bits, bit), bit);
      failed.when(isSet, [&](const ThreadBuilder &set) {
        Type byte = set.builder.getI8Type();
        Value one = LLVM::ConstantOp::create(set.builder, set.location, byte, 1);
        set.store(one, set.offset(status, byte, static_cast<int64_t>(failure)), 1);
      });
    }
  });
  return true;
}

} // namespace

void reportFailures(RegionBuilder &region) {
  for (LLVM::LLVMFuncOp kernel : region.kernels->getOps<LLVM::LLVMFuncOp>()) {
    if (kernel.isDeclaration() || !reportAtEnd(kernel)) {
      continue;
    }
    for (RegionStep &step : region.code.steps) {
      step.canFail |= step.symbol == kernel.getSymName();
    }
  }
}

} // namespace tenon::codegen::cuda
