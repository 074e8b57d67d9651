// Halves of the height meet until one is left. Relies on the height being a power of two.
#include "compiler/codegen/cuda/rows/RowsReductionColumns.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;

namespace tenon::codegen::cuda {

void combineColumns(KernelFrame &kernel, const Combiner &combiner, const Spread &spread,
                    const Index &thread, SmallVector<Accumulators> &own) {
  OpBuilder &builder = kernel.builder;
  Location location = kernel.location;
  IndexMath &math = kernel.math;
  int64_t row = spread.width * spread.lanes;
  SmallVector<Value> arrays;
  for (Value value : own.front()) {
    arrays.push_back(kernel.shared(value.getType(), row * spread.height));
  }
  auto address = [&](size_t array, Type type, int64_t lane, int64_t below) {
    Index place = math.add(math.multiply(thread, Index::constant(spread.lanes)),
                           Index::constant(below * row + lane));
    return kernel.address(arrays[array], type, place);
  };
  for (auto [lane, values] : llvm::enumerate(own)) {
    for (auto [i, value] : llvm::enumerate(values)) {
      LLVM::StoreOp::create(builder, location, value, address(i, value.getType(), lane, 0),
                            byteSize(value.getType()));
    }
  }
  for (int64_t half = spread.height / 2; half > 0; half /= 2) {
    kernel.barrier();
    Value isUpper = arith::CmpIOp::create(builder, location, arith::CmpIPredicate::ult,
                                          math.value(thread), math.constant(half * spread.width));
    SmallVector<Type> types;
    for (const Accumulators &values : own) {
      llvm::append_range(types, ValueRange(values).getTypes());
    }
    scf::IfOp branch = scf::IfOp::create(builder, location, isUpper, /*withElseRegion=*/false);
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPointToStart(branch.thenBlock());
    math.openScope();
    for (size_t lane = 0; lane < own.size(); ++lane) {
      Accumulators a, b;
      for (auto [i, value] : llvm::enumerate(own[lane])) {
        Type type = value.getType();
        a.push_back(LLVM::LoadOp::create(builder, location, type, address(i, type, lane, 0)));
        b.push_back(LLVM::LoadOp::create(builder, location, type, address(i, type, lane, half)));
      }
      Accumulators both = combiner.combine(builder, location, a, b);
      for (auto [i, value] : llvm::enumerate(both)) {
        LLVM::StoreOp::create(builder, location, value, address(i, value.getType(), lane, 0),
                              byteSize(value.getType()));
      }
    }
    math.closeScope();
  }
  // The threads at the top wrote these themselves.
  for (auto [lane, values] : llvm::enumerate(own)) {
    for (auto [i, value] : llvm::enumerate(values)) {
      value = LLVM::LoadOp::create(builder, location, value.getType(),
                                   address(i, value.getType(), lane, 0));
    }
  }
}

} // namespace tenon::codegen::cuda
