// By pairs a register holds two rows by two columns of C, a register of A two rows by two words,
// one of B, which two rows of a panel are woven into, two columns by two words; a row without a
// second has itself as such, whose sums are dropped. Word by word registers are those of a row.
// bfmmla adds as two bfdot do, so that a sum is the same in both forms.
#include "compiler/codegen/cpu/gemm/ArmProduct.h"

#include "compiler/codegen/cpu/gemm/DotStep.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;

namespace tenon::codegen::cpu {

namespace {

/// Words of a register; words of the depth that a matrix instruction takes; those of one step.
constexpr int64_t kLanes = 4, kWoven = 2, kStep = 4;
/// Rows from which they are multiplied by pairs: with fewer half of each instruction would be idle,
/// or the weaving of B cost as much as it saves.
constexpr int64_t kMinPairedRows = 3;
/// Most rows by pairs, and the registers of a panel's row that are multiplied at once: 16 of 32
/// registers are sums, 8 hold A and the rest is B's.
constexpr int64_t kMaxPairedRows = 8, kPairedVectors = 2;
/// The same word by word: at most 20 or 24 registers of sums and 5 of A. Up to two rows meet a
/// whole row of a panel.
constexpr int64_t kMaxRows = 5, kVectors = 4, kFewRows = 2, kVectorsOfFew = 8;

class ArmProduct {
public:
  ArmProduct(ModuleOp module, engine::CpuLevel level, ProductType type, int64_t rows,
             int64_t columns)
      : builder(module.getBodyRegion()), loc(builder.getUnknownLoc()), level(level), type(type),
        rows(rows), columns(columns),
        isPaired(multipliesByPairs(level, type) && rows >= kMinPairedRows),
        vectors(isPaired           ? kPairedVectors
                : rows <= kFewRows ? kVectorsOfFew
                                   : kVectors),
        pointer(LLVM::LLVMPointerType::get(builder.getContext())),
        words(VectorType::get(kLanes, type == ProductType::F32 ? Type(builder.getF32Type())
                                                               : Type(builder.getI32Type()))),
        sums(VectorType::get(kLanes, sumsFloats(type) ? Type(builder.getF32Type())
                                                      : Type(builder.getI32Type()))) {
    vectors = std::min(vectors, columns / kLanes);
  }

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
    for (int64_t column = 0; column < columns; column += vectors * kLanes) {
      buildPart(offset(entry->getArgument(2), constant(column)),
                offset(entry->getArgument(4), constant(column)), accumulate);
    }
    func::ReturnOp::create(builder, loc);
  }

private:
  using Values = SmallVector<Value>;

  int64_t pairs() const { return (rows + 1) / 2; }
  /// With a row of zeros behind them where A is taken less 128.
  int64_t summedRows() const { return rows + DotStep::takesLess128(level, type); }

  /// All rows by the columns of some registers.
  void buildPart(Value b, Value c, bool accumulate) {
    Values state{b};
    state.append(isPaired ? pairs() * vectors * 2 : summedRows() * vectors,
                 arith::ConstantOp::create(builder, loc, builder.getZeroAttr(sums)));
    // Loops, as each hands the sums on: the later ones are gone through few times.
    Value begin = constant(0);
    SmallVector<int64_t> counts{kStep, kWoven, 1};
    if (!isPaired) {
      counts.erase(counts.begin() + 1);
    }
    for (int64_t count : counts) {
      Value rest = arith::RemUIOp::create(builder, loc, depth, constant(count));
      Value end = arith::SubIOp::create(builder, loc, depth, rest);
      scf::ForOp loop = scf::ForOp::create(
          builder, loc, begin, end, constant(count), state,
          [&](OpBuilder &, Location, Value word, ValueRange args) {
            Values next(args);
            (this->*(isPaired ? &ArmProduct::addPairs : &ArmProduct::addWords))(word, count, next);
            scf::YieldOp::create(builder, loc, next);
          });
      state = loop.getResults();
      begin = end;
    }
    store(ArrayRef(state).drop_front(), c, accumulate);
  }

  /// So many words of the depth, two at a time. `state` is the address of B, then the sums.
  void addPairs(Value word, int64_t count, Values &state) {
    Value zeros = arith::ConstantOp::create(builder, loc, builder.getZeroAttr(words));
    SmallVector<Values> factors(llvm::divideCeil(count, kWoven));
    VectorType loaded = VectorType::get(count, words.getElementType());
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
    for (const Values &each : factors) {
      Value below = offset(state[0], ldb);
      for (int64_t column = 0; column < vectors; ++column) {
        Value upper = loadOfB(state[0], column);
        Value lower = count == 1 ? zeros : loadOfB(below, column);
        Value woven[] = {shuffle(upper, lower, {0, 4, 1, 5}), shuffle(upper, lower, {2, 6, 3, 7})};
        for (int64_t pair = 0; pair < pairs(); ++pair) {
          for (int64_t half : {0, 1}) {
            Value &sum = state[1 + (pair * vectors + column) * 2 + half];
            sum = multiplyPairs(each[pair], woven[half], sum);
          }
        }
      }
      state[0] = count == 1 ? below : offset(below, ldb);
    }
  }

  /// So many words of the depth, one at a time.
  void addWords(Value word, int64_t count, Values &state) {
    DotStep step(builder, loc, level, type);
    Value zeros = arith::ConstantOp::create(builder, loc, builder.getZeroAttr(words));
    Values factors;
    for (int64_t row = 0; row < summedRows(); ++row) {
      Value factor = zeros;
      if (row < rows) {
        Value address = offset(rowsOfA[row], word);
        factor = count == 1 ? vector::BroadcastOp::create(builder, loc, words,
                                                          load(words.getElementType(), address))
                                  .getResult()
                            : load(words, address);
      }
      factors.push_back(step.ofA(factor)[0]);
    }
    for (int64_t lane = 0; lane < count; ++lane) {
      Values ofB;
      for (int64_t column = 0; column < vectors; ++column) {
        ofB.push_back(loadOfB(state[0], column));
      }
      for (int64_t row = 0; row < summedRows(); ++row) {
        Value factor = count == 1 || row >= rows
                           ? factors[row]
                           : shuffle(factors[row], factors[row], {lane, lane, lane, lane});
        for (int64_t column = 0; column < vectors; ++column) {
          Value &sum = state[1 + row * vectors + column];
          sum = step.multiplyAdd({factor}, {ofB[column]}, sum);
        }
      }
      state[0] = offset(state[0], ldb);
    }
  }

  Value multiplyPairs(Value a, Value b, Value sum) {
    bool isBf16 = type == ProductType::BF16;
    VectorType elements = isBf16 ? VectorType::get(2 * kLanes, builder.getBF16Type())
                                 : VectorType::get(4 * kLanes, builder.getI8Type());
    StringRef name = isBf16 ? "llvm.aarch64.neon.bfmmla" : "llvm.aarch64.neon.usmmla";
    Value operands[] = {sum, vector::BitCastOp::create(builder, loc, elements, a),
                        vector::BitCastOp::create(builder, loc, elements, b)};
    return LLVM::CallIntrinsicOp::create(builder, loc, sums, builder.getStringAttr(name), operands)
        .getResult(0);
  }

  /// The sum of a row and a register of columns, of those of all rows.
  Value sumOf(ArrayRef<Value> values, int64_t row, int64_t column) {
    if (isPaired) {
      size_t first = (row / 2 * vectors + column) * 2;
      int64_t half = row % 2 * 2;
      return shuffle(values[first], values[first + 1], {half, half + 1, half + 4, half + 5});
    }
    Value sum = values[row * vectors + column];
    return summedRows() == rows
               ? sum
               : arith::SubIOp::create(builder, loc, sum, values[rows * vectors + column])
                     .getResult();
  }

  void store(ArrayRef<Value> values, Value c, bool accumulate) {
    for (int64_t row = 0; row < rows; ++row) {
      Value line = offset(c, arith::MulIOp::create(builder, loc, ldc, constant(row)));
      for (int64_t column = 0; column < vectors; ++column) {
        Value sum = sumOf(values, row, column);
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
  Value loadOfB(Value row, int64_t column) {
    return load(words, offset(row, constant(column * kLanes)));
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
  engine::CpuLevel level;
  ProductType type;
  int64_t rows, columns;
  bool isPaired;
  int64_t vectors; ///< registers of a panel's row that are multiplied at once
  Type pointer;
  VectorType words, sums;
  Values rowsOfA;
  Value ldb, ldc, depth;
};

} // namespace

bool hasArmProduct(engine::CpuLevel level, ProductType type) {
  return engine::rowOf(level).architecture == engine::Architecture::AArch64 &&
         type != ProductType::I32 && DotStep::isOneInstruction(level, type);
}

bool multipliesByPairs(engine::CpuLevel level, ProductType type) {
  uint32_t feature = type == ProductType::U8S8   ? engine::arm::kI8mm
                     : type == ProductType::BF16 ? engine::arm::kBf16
                                                 : 0;
  return hasArmProduct(level, type) && (engine::rowOf(level).features & feature) != 0;
}

int64_t mostArmRows(engine::CpuLevel level, ProductType type) {
  return multipliesByPairs(level, type) ? kMaxPairedRows : kMaxRows;
}

void buildArmProduct(ModuleOp module, engine::CpuLevel level, ProductType type, int64_t rows,
                     bool accumulate, int64_t columns) {
  ArmProduct(module, level, type, rows, columns).build(accumulate);
}

} // namespace tenon::codegen::cpu
