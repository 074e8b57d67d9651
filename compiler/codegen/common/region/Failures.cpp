// Relies on LLVM's SROA for the word in the frame: loads and stores of it become values that loops
// carry.
#include "compiler/codegen/common/region/Failures.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/IR/Matchers.h"

using namespace mlir;

namespace tenon::codegen {

Value require(OpBuilder &builder, Location location, Value x, Value condition,
              tn::Failure failure) {
  return matchPattern(condition, m_One())
             ? x
             : tn::RequireOp::create(builder, location, x.getType(), x, condition, failure, "");
}

Value collectFailures(FunctionOpInterface function,
                      llvm::function_ref<OpBuilder(tn::RequireOp)> place) {
  SmallVector<tn::RequireOp> required;
  function->walk([&](tn::RequireOp op) { required.push_back(op); });
  if (required.empty()) {
    return {};
  }
  Location location = function->getLoc();
  OpBuilder entry = OpBuilder::atBlockBegin(&function.getFunctionBody().front());
  Type i32 = entry.getI32Type();
  Value one = LLVM::ConstantOp::create(entry, location, i32, 1);
  Value zero = LLVM::ConstantOp::create(entry, location, i32, 0);
  Value word = LLVM::AllocaOp::create(entry, location,
                                      LLVM::LLVMPointerType::get(entry.getContext()), i32, one);
  LLVM::StoreOp::create(entry, location, zero, word);
  for (tn::RequireOp op : required) {
    OpBuilder builder = place(op);
    Value bit = LLVM::ConstantOp::create(builder, location, i32, failureBit(op.getFailure()));
    Value none = LLVM::ConstantOp::create(builder, location, i32, 0);
    Value failed = arith::SelectOp::create(builder, location, op.getCondition(), none, bit);
    Value before = LLVM::LoadOp::create(builder, location, i32, word);
    Value after = arith::OrIOp::create(builder, location, before, failed);
    LLVM::StoreOp::create(builder, location, after, word);
    op.replaceAllUsesWith(op.getX());
    op.erase();
  }
  return word;
}

} // namespace tenon::codegen
