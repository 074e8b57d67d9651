// Values of 64 bits go through the warp as two halves. Relies on NVVM's intrinsics for what is not
// an operation of the dialect.
#include "compiler/codegen/cuda/base/WarpOps.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;

namespace tenon::codegen::cuda {
namespace {

using Values = ThreadBuilder::Values;

/// `move` of each 32 bits.
Value byWords(const ThreadBuilder &t, Value value, llvm::function_ref<Value(Value)> move) {
  Type type = value.getType();
  if (type.getIntOrFloatBitWidth() == 32) {
    return move(value);
  }
  Value words = t.bitcast(t.vectorType(2, t.i32Type()), value);
  return t.bitcast(type, t.pack({move(t.extract(words, 0)), move(t.extract(words, 1))}));
}

Value compare(const ThreadBuilder &t, arith::CmpIPredicate predicate, Value a, Value b) {
  return t.builder.createOrFold<arith::CmpIOp>(t.location, predicate, a, b);
}

} // namespace

Value shuffleXor(const ThreadBuilder &t, Value value, int64_t mask) {
  return byWords(t, value, [&](Value word) { return t.shuffleXor(word, mask); });
}

Value shuffleUp(const ThreadBuilder &t, Value value, int64_t distance) {
  return byWords(t, value, [&](Value word) -> Value {
    return NVVM::ShflOp::create(t.builder, t.location, word.getType(), t.i32(-1), word,
                                t.i32(distance), t.i32(0), NVVM::ShflKind::up, UnitAttr());
  });
}

Value ballot(const ThreadBuilder &t, Value condition) {
  return t.intrinsic("llvm.nvvm.vote.ballot.sync", t.i32Type(), {t.i32(-1), condition});
}

Value lanesOfSame(const ThreadBuilder &t, Value value) {
  return t.intrinsic("llvm.nvvm.match.any.sync.i32", t.i32Type(), {t.i32(-1), value});
}

Value sumOfWarp(const ThreadBuilder &t, Value value) {
  return t.intrinsic("llvm.nvvm.redux.sync.add", t.i32Type(), {value, t.i32(-1)});
}

Value either(const ThreadBuilder &t, Value a, Value b) {
  return t.builder.createOrFold<arith::OrIOp>(t.location, a, b);
}
Value both(const ThreadBuilder &t, Value a, Value b) {
  return t.builder.createOrFold<arith::AndIOp>(t.location, a, b);
}
Value isNot(const ThreadBuilder &t, Value a, Value b) {
  return compare(t, arith::CmpIPredicate::ne, a, b);
}
Value bitOr(const ThreadBuilder &t, Value a, Value b) { return either(t, a, b); }
Value bitXor(const ThreadBuilder &t, Value a, Value b) {
  return t.builder.createOrFold<arith::XOrIOp>(t.location, a, b);
}
Value shiftLeft(const ThreadBuilder &t, Value a, Value count) {
  return t.builder.createOrFold<arith::ShLIOp>(t.location, a, count);
}
Value shiftRight(const ThreadBuilder &t, Value a, Value count) {
  return t.builder.createOrFold<arith::ShRUIOp>(t.location, a, count);
}
Value bitCount(const ThreadBuilder &t, Value a) {
  return LLVM::CtPopOp::create(t.builder, t.location, a.getType(), a);
}
Value isAbove(const ThreadBuilder &t, Value a, Value b) {
  return compare(t, arith::CmpIPredicate::ugt, a, b);
}
Value isAtLeast(const ThreadBuilder &t, Value a, Value b) {
  return compare(t, arith::CmpIPredicate::uge, a, b);
}

Values loopWhile(const ThreadBuilder &t, ValueRange inits,
                 llvm::function_ref<Value(const ThreadBuilder &, ValueRange)> goesOn,
                 llvm::function_ref<Values(const ThreadBuilder &, ValueRange)> body) {
  scf::WhileOp loop = scf::WhileOp::create(
      t.builder, t.location, inits.getTypes(), inits,
      [&](OpBuilder &builder, Location at, ValueRange now) {
        scf::ConditionOp::create(builder, at, goesOn(ThreadBuilder(builder, at), now), now);
      },
      [&](OpBuilder &builder, Location at, ValueRange now) {
        scf::YieldOp::create(builder, at, body(ThreadBuilder(builder, at), now));
      });
  return Values(loop.getResults());
}

} // namespace tenon::codegen::cuda
