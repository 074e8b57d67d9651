// Kernels of the user's: one call of the function that the description names. Its code comes from
// the library when the engine's code is linked.
#include "compiler/codegen/common/math/ScalarBody.h"
#include "compiler/codegen/cpu/base/Emit.h"
#include "compiler/codegen/cpu/base/IndexMath.h"
#include "compiler/codegen/cpu/base/KernelFamily.h"
#include "compiler/kernels/Call.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"

using namespace mlir;

namespace tenon::codegen::cpu {
namespace {

using kernels::Argument;

FamilyMatch matchCustom(Region &region) {
  tn::CustomOp op = onlyOp<tn::CustomOp>(region.source);
  if (!op) {
    return FamilyMatch::refuse("not an operator of the user's alone");
  }
  return kernels::callFor(op, kernels::kCpu)
             ? FamilyMatch::take(op)
             : FamilyMatch::refuse("the user gave no kernel for CPUs");
}

/// Memory of the thread's own.
Value allocate(KernelBuilder &kernel, ArrayRef<AffineExpr> dims, Type element) {
  IndexMath math(kernel.builder, kernel.location);
  SmallVector<int64_t> shape;
  SmallVector<Value> sizes;
  for (AffineExpr dim : dims) {
    std::optional<int64_t> known = tn::constantDim(dim);
    shape.push_back(known.value_or(ShapedType::kDynamic));
    if (!known) {
      sizes.push_back(math.size(kernel, dim));
    }
  }
  return memref::AllocOp::create(kernel.builder, kernel.location, MemRefType::get(shape, element),
                                 sizes);
}

/// The buffers of the operation, inputs before outputs. A result that nobody reads has none in the
/// region.
SmallVector<Value> buffersOf(KernelBuilder &kernel, tn::CustomOp op) {
  SmallVector<Value> buffers;
  for (Value operand : op.getInputs()) {
    buffers.push_back(kernel.input(cast<BlockArgument>(operand).getArgNumber()));
  }
  ValueRange results = op->getBlock()->getTerminator()->getOperands();
  for (Value output : op.getOutputs()) {
    size_t index = llvm::find(results, output) - results.begin();
    Type element = storageType(getElementTypeOrSelf(output.getType()));
    buffers.push_back(index < results.size()
                          ? kernel.output(index)
                          : allocate(kernel, tn::getDims(output.getType()), element));
  }
  return buffers;
}

FailureOr<AffineExpr> lowerCustom(KernelBuilder &kernel, Region &, const tn::CustomOp &matched) {
  tn::CustomOp op = matched;
  kernels::Call call = *kernels::callFor(op, kernels::kCpu);
  OpBuilder &builder = kernel.builder;
  IndexMath math(builder, kernel.location);
  SmallVector<Value> buffers = buffersOf(kernel, op);
  SmallVector<Value> arguments;
  for (const Argument &argument : call.arguments) {
    switch (argument.kind) {
    case Argument::Kind::Buffer:
      arguments.push_back(math.elementPointer(buffers[argument.buffer], math.constant(0)));
      break;
    case Argument::Kind::Size:
      arguments.push_back(math.toI64(math.size(kernel, argument.size)));
      break;
    case Argument::Kind::Attribute:
      arguments.push_back(arith::ConstantOp::create(builder, kernel.location, argument.attribute));
      break;
    case Argument::Kind::Begin:
      arguments.push_back(math.toI64(kernel.begin));
      break;
    case Argument::Kind::End:
      arguments.push_back(math.toI64(kernel.end));
      break;
    case Argument::Kind::Scratch:
      arguments.push_back(math.elementPointer(
          allocate(kernel, call.scratchBytes, builder.getI8Type()), math.constant(0)));
      break;
    }
  }
  callSupport(math, kernel.function(), (kUserPrefix + call.kernel.symbol).str(), arguments);
  return call.grid.front();
}

} // namespace

constexpr KernelFamily kUserKernel = {.name = "user_kernel",
                                      .what = "a kernel of the user's",
                                      .strategies = {dispatch::kSingle},
                                      .needs = {"custom"},
                                      .match = matchCustom,
                                      .emit = emitKernel<lowerCustom>};

} // namespace tenon::codegen::cpu
