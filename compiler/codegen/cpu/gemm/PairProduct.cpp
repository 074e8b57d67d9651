// A register holds two rows by two columns of C, a register of A two rows by two words, one of B,
// which two rows of a panel are woven into, two columns by two words. Four words of each row of A
// are loaded at once; what is left of the depth goes word by word with zeros behind it. A row
// without a second has itself as such, whose sums are dropped.
#include "compiler/codegen/cpu/gemm/PairProduct.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;

namespace tenon::codegen::cpu {

namespace {

/// Words of a register; words of the depth that an instruction takes; those of one step.
constexpr int64_t kLanes = 4, kWoven = 2, kStep = 4;
/// Registers of a panel's row that are multiplied at once: with four pairs of rows 16 of 32
/// registers are sums, 8 hold A and the rest is B's.
constexpr int64_t kPartVectors = 2;

class PairProduct {
public:
  PairProduct(ModuleOp module, ProductType type, int64_t rows, int64_t columns)
      : builder(module.getBodyRegion()), loc(builder.getUnknownLoc()), type(type), rows(rows),
        columns(columns), pointer(LLVM::LLVMPointerType::get(builder.getContext())),
        words(VectorType::get(kLanes, builder.getI32Type())),
        sums(VectorType::get(kLanes, sumsFloats(type) ? Type(builder.getF32Type())
                                                      : Type(builder.getI32Type()))) {}

  void build(bool accumulate) {
    Type i64 = builder.getI64Type();
    func::FuncOp function = func::FuncOp::create(
        builder, loc, productSymbol(rows, accumulate, type, columns),
        builder.getFunctionType({pointer, i64, pointer, i64, pointer, i64, i64, pointer, i64}, {}));
    Block *entry = function.addEntryBlock();
    builder.setInsertionPointToStart(entry);
    ldb = entry->getArgument(3);
    ldc = entry->getArgument(5);
    depth = entry->getArgument(6);
    for (int64_t row = 0; row < rows; ++row) {
      Value start = arith::MulIOp::create(builder, loc, entry->getArgument(1), constant(row));
      rowsOfA.push_back(hide(offset(entry->getArgument(0), start)));
    }
    for (int64_t column = 0; column < columns; column += kPartVectors * kLanes) {
      buildPart(offset(entry->getArgument(2), constant(column)),
                offset(entry->getArgument(4), constant(column)), accumulate);
    }
    func::ReturnOp::create(builder, loc);
  }

private:
  using Values = SmallVector<Value>;

  int64_t pairs() const { return (rows + 1) / 2; }

  /// All rows by the columns of some registers.
  void buildPart(Value b, Value c, bool accumulate) {
    Values state{b};
    state.append(pairs() * kPartVectors * 2,
                 arith::ConstantOp::create(builder, loc, builder.getZeroAttr(sums)));
    // Loops, as each hands the sums on: the later two are gone through once at most.
    Value begin = constant(0);
    for (int64_t count : {kStep, kWoven, int64_t(1)}) {
      Value rest = arith::RemUIOp::create(builder, loc, depth, constant(count));
      Value end = arith::SubIOp::create(builder, loc, depth, rest);
      scf::ForOp loop = scf::ForOp::create(builder, loc, begin, end, constant(count), state,
                                           [&](OpBuilder &, Location, Value word, ValueRange args) {
                                             buildStep(word, count, args);
                                           });
      state = loop.getResults();
      begin = end;
    }
    store(ArrayRef(state).drop_front(), c, accumulate);
  }

  /// So many words of the depth, two at a time.
  void buildStep(Value word, int64_t count, ValueRange args) {
    Value zeros = arith::ConstantOp::create(builder, loc, builder.getZeroAttr(words));
    SmallVector<Values> factors(llvm::divideCeil(count, kWoven));
    VectorType loaded = VectorType::get(count, builder.getI32Type());
    for (int64_t row = 0; row < 2 * pairs(); row += 2) {
      Value first = load(loaded, offset(rowsOfA[row], word));
      Value second = row + 1 < rows ? load(loaded, offset(rowsOfA[row + 1], word)) : first;
      if (count == 1) {
        // An infinity times zero is not zero: the words behind are zeros on both sides.
        Value both = shuffle(first, second, {0, 1, 0, 1});
        factors[0].push_back(shuffle(both, zeros, {0, 4, 1, 5}));
      }
      for (int64_t part = 0; part < count / kWoven; ++part) {
        int64_t at = part * kWoven;
        factors[part].push_back(shuffle(first, second, {at, at + 1, at + count, at + count + 1}));
      }
    }
    Values next(args.drop_front());
    Value b = args[0];
    for (const Values &each : factors) {
      Value below = offset(b, ldb);
      multiply(each, next, [&](int64_t column) {
        Value lanes = constant(column * kLanes);
        return std::pair(load(words, offset(b, lanes)),
                         count == 1 ? zeros : load(words, offset(below, lanes)));
      });
      b = count == 1 ? below : offset(below, ldb);
    }
    next.insert(next.begin(), b);
    scf::YieldOp::create(builder, loc, next);
  }

  /// Adds to the sums the products with two rows of B, whose registers `rowsOfB` loads.
  void multiply(ArrayRef<Value> factors, Values &added,
                llvm::function_ref<std::pair<Value, Value>(int64_t)> rowsOfB) {
    for (int64_t column = 0; column < kPartVectors; ++column) {
      auto [upper, lower] = rowsOfB(column);
      Value woven[] = {shuffle(upper, lower, {0, 4, 1, 5}), shuffle(upper, lower, {2, 6, 3, 7})};
      for (int64_t pair = 0; pair < pairs(); ++pair) {
        for (int64_t half : {0, 1}) {
          Value &sum = added[(pair * kPartVectors + column) * 2 + half];
          sum = multiplyAdd(factors[pair], woven[half], sum);
        }
      }
    }
  }

  Value multiplyAdd(Value a, Value b, Value sum) {
    VectorType elements = type == ProductType::BF16
                              ? VectorType::get(2 * kLanes, builder.getBF16Type())
                              : VectorType::get(4 * kLanes, builder.getI8Type());
    StringRef name =
        type == ProductType::BF16 ? "llvm.aarch64.neon.bfmmla" : "llvm.aarch64.neon.usmmla";
    Value operands[] = {sum, vector::BitCastOp::create(builder, loc, elements, a),
                        vector::BitCastOp::create(builder, loc, elements, b)};
    return LLVM::CallIntrinsicOp::create(builder, loc, sums, builder.getStringAttr(name), operands)
        .getResult(0);
  }

  void store(ValueRange values, Value c, bool accumulate) {
    for (int64_t row = 0; row < rows; ++row) {
      Value line = offset(c, arith::MulIOp::create(builder, loc, ldc, constant(row)));
      for (int64_t column = 0; column < kPartVectors; ++column) {
        size_t first = (row / 2 * kPartVectors + column) * 2;
        int64_t half = row % 2 * 2;
        Value sum = shuffle(values[first], values[first + 1], {half, half + 1, half + 4, half + 5});
        Value address = offset(line, constant(column * kLanes));
        if (accumulate) {
          Value before = load(sums, address);
          sum = sumsFloats(type) ? Value(arith::AddFOp::create(builder, loc, before, sum))
                                 : Value(arith::AddIOp::create(builder, loc, before, sum));
        }
        LLVM::StoreOp::create(builder, loc, sum, address, /*alignment=*/4);
      }
    }
  }

  /// The same address as one of which nothing is known: rows that are known to be equally far apart
  /// become a chain of additions in each step.
  Value hide(Value address) {
    return LLVM::InlineAsmOp::create(builder, loc, TypeRange(pointer), ValueRange(address),
                                     /*asm_string=*/"", /*constraints=*/"=r,0",
                                     /*has_side_effects=*/false, /*is_align_stack=*/false,
                                     LLVM::TailCallKind::None, LLVM::AsmDialectAttr(),
                                     /*operand_attrs=*/ArrayAttr())
        .getResult(0);
  }
  Value shuffle(Value a, Value b, ArrayRef<int64_t> lanes) {
    return vector::ShuffleOp::create(builder, loc, a, b, lanes);
  }
  Value load(Type loaded, Value address) {
    return LLVM::LoadOp::create(builder, loc, loaded, address, /*alignment=*/4);
  }
  Value constant(int64_t value) {
    return arith::ConstantOp::create(builder, loc, builder.getI64IntegerAttr(value));
  }
  Value offset(Value base, Value count) {
    return LLVM::GEPOp::create(builder, loc, pointer, builder.getI32Type(), base,
                               ArrayRef<LLVM::GEPArg>{count});
  }

  OpBuilder builder;
  Location loc;
  ProductType type;
  int64_t rows, columns;
  Type pointer;
  VectorType words, sums;
  Values rowsOfA;
  Value ldb, ldc, depth;
};

} // namespace

bool multipliesByPairs(engine::CpuLevel level, ProductType type) {
  const engine::CpuLevelRow &row = engine::rowOf(level);
  uint32_t feature = type == ProductType::U8S8   ? engine::arm::kI8mm
                     : type == ProductType::BF16 ? engine::arm::kBf16
                                                 : 0;
  return row.architecture == engine::Architecture::AArch64 && (row.features & feature) != 0;
}

void buildPairProduct(ModuleOp module, ProductType type, int64_t rows, bool accumulate,
                      int64_t columns) {
  PairProduct(module, type, rows, columns).build(accumulate);
}

} // namespace tenon::codegen::cpu
