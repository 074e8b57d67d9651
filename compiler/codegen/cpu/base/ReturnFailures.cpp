// Relies on loops being scf.for and on every buffer having one memref that all views come from.
#include "compiler/codegen/cpu/base/ReturnFailures.h"

#include "compiler/codegen/common/region/Failures.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/Interfaces/ViewLikeInterface.h"
#include "llvm/ADT/SetVector.h"

using namespace mlir;

namespace tenon::codegen::cpu {
namespace {

/// Whether the kernel only reads the memory behind a memref, through whatever views.
bool isOnlyRead(Value memref) {
  return llvm::all_of(memref.getUsers(), [](Operation *user) {
    return isa<ViewLikeOpInterface>(user) ? isOnlyRead(user->getResult(0))
                                          : isa<memref::LoadOp, memref::DimOp, vector::LoadOp,
                                                vector::MaskedLoadOp, vector::GatherOp>(user);
  });
}

bool readsConstantMemory(Operation *op) {
  memref::LoadOp load = dyn_cast<memref::LoadOp>(op);
  if (!load) {
    return false;
  }
  Value memref = load.getMemRef();
  while (ViewLikeOpInterface view = memref.getDefiningOp<ViewLikeOpInterface>()) {
    memref = view.getViewSource();
  }
  return isOnlyRead(memref);
}

/// Adds what `value` is computed from inside of the loop, in order; false if a step of the loop
/// changes it.
bool addComputation(Value value, scf::ForOp loop, llvm::SetVector<Operation *> &computation) {
  if (loop.isDefinedOutsideOfLoop(value)) {
    return true;
  }
  Operation *op = value.getDefiningOp();
  if (!op || op->getNumRegions() > 0 || !(isPure(op) || readsConstantMemory(op))) {
    return false;
  }
  for (Value operand : op->getOperands()) {
    if (!addComputation(operand, loop, computation)) {
      return false;
    }
  }
  computation.insert(op);
  return true;
}

/// Moves the condition out of the loops that do not change it.
OpBuilder placeOf(tn::RequireOp required) {
  Operation *place = required;
  while (scf::ForOp loop = dyn_cast<scf::ForOp>(place->getParentOp())) {
    llvm::SetVector<Operation *> computation;
    if (!addComputation(required.getCondition(), loop, computation)) {
      break;
    }
    for (Operation *op : computation) {
      op->moveBefore(loop);
    }
    place = loop;
  }
  return OpBuilder(place);
}

/// The number of the highest bit.
Value codeOf(OpBuilder &builder, Location location, Value bits) {
  Value code = arith::ConstantIntOp::create(builder, location, 0, 32);
  for (tn::Failure failure :
       {tn::Failure::index, tn::Failure::arithmetic, tn::Failure::constraint}) {
    Value bit = arith::ConstantIntOp::create(builder, location, failureBit(failure), 32);
    Value number =
        arith::ConstantIntOp::create(builder, location, static_cast<int64_t>(failure), 32);
    Value isOver = arith::CmpIOp::create(builder, location, arith::CmpIPredicate::uge, bits, bit);
    code = arith::SelectOp::create(builder, location, isOver, number, code);
  }
  return code;
}

} // namespace

void returnFailures(func::FuncOp kernel) {
  Value word = collectFailures(kernel, placeOf);
  if (!word) {
    return;
  }
  Operation *exit = kernel.getBody().back().getTerminator();
  OpBuilder builder(exit);
  Value bits = LLVM::LoadOp::create(builder, kernel.getLoc(), builder.getI32Type(), word);
  exit->setOperand(0, codeOf(builder, kernel.getLoc(), bits));
}

} // namespace tenon::codegen::cpu
