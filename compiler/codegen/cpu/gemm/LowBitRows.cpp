// Builds the micro-kernel that makes rows of A ready for low-bit weights: each element divided by
// what its number is shifted by in the weights' words, and sums by blocks behind the row.
#include "compiler/codegen/cpu/gemm/LowBitEmitter.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

#include <cmath>

using namespace mlir;

namespace tenon::codegen::cpu {
namespace {

class RowsBuilder : public LowBitEmitter {
public:
  using LowBitEmitter::LowBitEmitter;

  void buildScale() {
    Type i64 = builder.getI64Type();
    OpBuilder::InsertionGuard guard(builder);
    func::FuncOp function = func::FuncOp::create(
        builder, loc, scaleSymbol(layout),
        builder.getFunctionType({pointer, i64, pointer, i64, i64, i64, i64}, {}));
    Block *entry = function.addEntryBlock();
    builder.setInsertionPointToStart(entry);
    ValueRange arguments = entry->getArguments();
    Value depth = arguments[4], size = arguments[5];
    scf::ForOp::create(builder, loc, constant(0), arguments[6], constant(1), ValueRange(),
                       [&](OpBuilder &, Location, Value row, ValueRange) {
                         Value from = offset(arguments[0], mul(row, arguments[1]));
                         Value to = offset(arguments[2], mul(row, arguments[3]));
                         Value sums = offset(to, sumsOf(depth));
                         scf::ForOp::create(
                             builder, loc, constant(0), depth, size, ValueRange(),
                             [&](OpBuilder &, Location, Value first, ValueRange) {
                               Value rest = arith::SubIOp::create(builder, loc, depth, first);
                               Value count = arith::MinSIOp::create(builder, loc, rest, size);
                               Value sum =
                                   scaleBlock(offset(from, first), offset(to, first), count);
                               Value index = arith::DivUIOp::create(builder, loc, first, size);
                               LLVM::StoreOp::create(builder, loc, sum, offset(sums, index), 4);
                               scf::YieldOp::create(builder, loc);
                             });
                         scf::YieldOp::create(builder, loc);
                       });
    func::ReturnOp::create(builder, loc);
  }

private:
  /// What an element of A at number `index` of a word is multiplied by.
  float factor(int64_t index) const {
    bool isLast = index == layout.elementsOfWord() - 1;
    return isLast ? 1.0F : std::ldexp(1.0F, static_cast<int>(-index * layout.bits));
  }

  /// Elements [first, first + count) of a row, from the beginning of a block on, and their sum.
  Value scaleBlock(Value from, Value to, Value count) {
    int64_t step = std::max(lanes, layout.elementsOfWord());
    Value nothing = arith::ConstantOp::create(builder, loc, builder.getZeroAttr(floats));
    Value rest = arith::RemUIOp::create(builder, loc, count, constant(step));
    Value whole = arith::SubIOp::create(builder, loc, count, rest);
    scf::ForOp vectorLoop = scf::ForOp::create(
        builder, loc, constant(0), whole, constant(step), ValueRange{nothing},
        [&](OpBuilder &, Location, Value at, ValueRange args) {
          Value sum = args[0];
          for (int64_t i = 0; i < step; i += lanes) {
            SmallVector<float> factors;
            for (int64_t lane = 0; lane < lanes; ++lane) {
              factors.push_back(factor((i + lane) % layout.elementsOfWord()));
            }
            Value place = add(at, constant(i));
            Value elements = load(floats, offset(from, place));
            Value scaled = arith::MulFOp::create(
                builder, loc, elements,
                arith::ConstantOp::create(
                    builder, loc, DenseElementsAttr::get(floats, ArrayRef<float>(factors))));
            LLVM::StoreOp::create(builder, loc, scaled, offset(to, place), 4);
            sum = arith::AddFOp::create(builder, loc, sum, elements);
          }
          scf::YieldOp::create(builder, loc, sum);
        });
    Value sum = vector::ReductionOp::create(builder, loc, vector::CombiningKind::ADD,
                                            vectorLoop.getResult(0));
    // The last elements one by one, of which each word begins with the factor 1.
    Value one = arith::ConstantOp::create(builder, loc, builder.getF32FloatAttr(1));
    Value next = arith::ConstantOp::create(
        builder, loc, builder.getF32FloatAttr(std::ldexp(1.0F, static_cast<int>(-layout.bits))));
    Value each = constant(layout.elementsOfWord());
    scf::ForOp single = scf::ForOp::create(
        builder, loc, whole, count, constant(1), ValueRange{sum, one},
        [&](OpBuilder &, Location, Value at, ValueRange args) {
          Value index = arith::RemUIOp::create(builder, loc, at, each);
          auto is = [&](int64_t value) {
            return arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::eq, index,
                                         constant(value));
          };
          Value own = arith::SelectOp::create(builder, loc, is(0), one, args[1]);
          Value used =
              arith::SelectOp::create(builder, loc, is(layout.elementsOfWord() - 1), one, own);
          Value element = load(f32, offset(from, at));
          LLVM::StoreOp::create(builder, loc, arith::MulFOp::create(builder, loc, element, used),
                                offset(to, at), 4);
          scf::YieldOp::create(builder, loc,
                               ValueRange{arith::AddFOp::create(builder, loc, args[0], element),
                                          arith::MulFOp::create(builder, loc, own, next)});
        });
    return single.getResult(0);
  }
};

} // namespace

void buildScaleRows(ModuleOp module, engine::CpuLevel level, const tn::BlockRows &layout) {
  RowsBuilder(module, level, layout).buildScale();
}

} // namespace tenon::codegen::cpu
