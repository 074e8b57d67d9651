// Each part of 128 bits of a register multiplies as in ArmProduct.cpp: of bytes and bf16 two rows
// by two columns over two words, of f32 a row by four columns. Of A the same words are in all
// parts. The lower and the upper half of a register's columns are woven into two of B.
#include "compiler/codegen/cpu/gemm/ScalableProduct.h"

#include "compiler/codegen/cpu/gemm/ArmProduct.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;

namespace tenon::codegen::cpu {

namespace {

/// Words of a part; words of the depth that a matrix instruction takes; those of one step.
constexpr int64_t kPartWords = 4, kWordsOfPair = 2, kStepWords = 4;
/// Registers of a panel's row that are multiplied at once: of eight rows 16 registers are sums.
constexpr int64_t kRegisters = 2;

class ScalableProduct {
public:
  ScalableProduct(ModuleOp module, ProductType type, int64_t rows, int64_t columns)
      : builder(module.getBodyRegion()), loc(builder.getUnknownLoc()), type(type), rows(rows),
        columns(columns), isPaired(type != ProductType::F32),
        pointer(LLVM::LLVMPointerType::get(builder.getContext())),
        sums(scalable(4, sumsFloats(type) ? Type(builder.getF32Type()) : builder.getI32Type())),
        words(scalable(4, isPaired ? Type(builder.getI32Type()) : builder.getF32Type())),
        doubles(scalable(2, builder.getI64Type())) {}

  void build(bool accumulate) {
    Type i64 = builder.getI64Type();
    func::FuncOp function = func::FuncOp::create(
        builder, loc, productSymbol(rows, accumulate, type, columns) + kScalable.str(),
        builder.getFunctionType({pointer, i64, pointer, i64, pointer, i64, i64, pointer, i64}, {}));
    Block *entry = function.addEntryBlock();
    builder.setInsertionPointToStart(entry);
    ldb = entry->getArgument(3);
    ldc = entry->getArgument(5);
    depth = entry->getArgument(6);
    for (int64_t row = 0; row < rows; ++row) {
      Value start = arith::MulIOp::create(builder, loc, entry->getArgument(1), constant(row));
      rowsOfA.push_back(offset(entry->getArgument(0), start));
    }
    Value scale = call("llvm.vscale", i64, {});
    lanes = arith::MulIOp::create(builder, loc, scale, constant(kPartWords));
    Value step = arith::MulIOp::create(builder, loc, lanes, constant(kRegisters));
    scf::ForOp::create(builder, loc, constant(0), constant(columns), step, ValueRange(),
                       [&](OpBuilder &, Location, Value column, ValueRange) {
                         buildColumns(offset(entry->getArgument(2), column),
                                      offset(entry->getArgument(4), column), accumulate);
                         scf::YieldOp::create(builder, loc);
                       });
    func::ReturnOp::create(builder, loc);
  }

private:
  using Values = SmallVector<Value>;

  static VectorType scalable(int64_t lanes, Type element) {
    return VectorType::get({lanes}, element, {true});
  }
  int64_t pairs() const { return (rows + 1) / 2; }

  void buildColumns(Value b, Value c, bool accumulate) {
    Values state{b};
    state.append(isPaired ? pairs() * kRegisters * 2 : rows * kRegisters, zero(sums));
    Value begin = constant(0);
    SmallVector<int64_t> counts{kStepWords, kWordsOfPair, 1};
    for (int64_t count : counts) {
      Value rest = arith::RemUIOp::create(builder, loc, depth, constant(count));
      Value end = arith::SubIOp::create(builder, loc, depth, rest);
      scf::ForOp loop =
          scf::ForOp::create(builder, loc, begin, end, constant(count), state,
                             [&](OpBuilder &, Location, Value word, ValueRange args) {
                               Values next(args);
                               isPaired ? addPairs(word, count, next) : addRows(word, count, next);
                               scf::YieldOp::create(builder, loc, next);
                             });
      state = loop.getResults();
      begin = end;
    }
    store(ArrayRef(state).drop_front(), c, accumulate);
  }

  /// Rows of A in all parts: four words, two words twice, or one word with zeros behind it.
  Value wordsOfA(int64_t row, Value word, int64_t count) {
    Value address = offset(rowsOfA[row], word);
    if (count == kStepWords) {
      return call("llvm.aarch64.sve.ld1rq", doubles,
                  {allTrue(scalable(2, builder.getI1Type())), address});
    }
    Value bits = load(count == 1 ? builder.getI32Type() : builder.getI64Type(), address);
    if (count == 1) {
      bits = arith::ExtUIOp::create(builder, loc, builder.getI64Type(), bits);
    }
    return vector::BroadcastOp::create(builder, loc, doubles, bits);
  }

  void addPairs(Value word, int64_t count, Values &state) {
    SmallVector<Values, 2> factors(llvm::divideCeil(count, kWordsOfPair));
    for (int64_t pair = 0; pair < pairs(); ++pair) {
      Value first = wordsOfA(2 * pair, word, count);
      Value second = 2 * pair + 1 < rows ? wordsOfA(2 * pair + 1, word, count) : first;
      factors[0].push_back(call("llvm.aarch64.sve.trn1", doubles, {first, second}));
      if (count == kStepWords) {
        factors[1].push_back(call("llvm.aarch64.sve.trn2", doubles, {first, second}));
      }
    }
    for (const Values &each : factors) {
      Value below = offset(state[0], ldb);
      for (int64_t column = 0; column < kRegisters; ++column) {
        Value upper = loadOfB(state[0], column);
        Value lower = count == 1 ? zero(words) : loadOfB(below, column);
        Value woven[] = {call("llvm.aarch64.sve.zip1", words, {upper, lower}),
                         call("llvm.aarch64.sve.zip2", words, {upper, lower})};
        for (int64_t pair = 0; pair < pairs(); ++pair) {
          for (int64_t half : {0, 1}) {
            Value &sum = state[1 + (pair * kRegisters + column) * 2 + half];
            sum = multiplyPairs(each[pair], woven[half], sum);
          }
        }
      }
      state[0] = count == 1 ? below : offset(below, ldb);
    }
  }

  void addRows(Value word, int64_t count, Values &state) {
    Values factors;
    for (int64_t row = 0; row < rows; ++row) {
      Value address = offset(rowsOfA[row], word);
      factors.push_back(count == kStepWords
                            ? call("llvm.aarch64.sve.ld1rq", words,
                                   {allTrue(scalable(4, builder.getI1Type())), address})
                            : Value());
    }
    for (int64_t lane = 0; lane < count; ++lane) {
      Values ofB;
      for (int64_t column = 0; column < kRegisters; ++column) {
        ofB.push_back(loadOfB(state[0], column));
      }
      for (int64_t row = 0; row < rows; ++row) {
        Value single;
        if (!factors[row]) {
          Value address = offset(offset(rowsOfA[row], word), constant(lane));
          single =
              vector::BroadcastOp::create(builder, loc, words, load(builder.getF32Type(), address));
        }
        for (int64_t column = 0; column < kRegisters; ++column) {
          Value &sum = state[1 + row * kRegisters + column];
          if (single) {
            sum = vector::FMAOp::create(builder, loc, single, ofB[column], sum);
            continue;
          }
          Value number = LLVM::ConstantOp::create(builder, loc, builder.getI32IntegerAttr(lane));
          sum = call("llvm.aarch64.sve.fmla.lane", sums, {sum, ofB[column], factors[row], number});
        }
      }
      state[0] = offset(state[0], ldb);
    }
  }

  Value multiplyPairs(Value a, Value b, Value sum) {
    bool isBf16 = type == ProductType::BF16;
    VectorType elements =
        isBf16 ? scalable(8, builder.getBF16Type()) : scalable(16, builder.getI8Type());
    return call(isBf16 ? "llvm.aarch64.sve.bfmmla" : "llvm.aarch64.sve.usmmla", sums,
                {sum, cast(elements, a), cast(elements, b)});
  }

  /// The sum of a row and a register of columns, of those of all rows.
  Value sumOf(ArrayRef<Value> values, int64_t row, int64_t column) {
    if (!isPaired) {
      return values[row * kRegisters + column];
    }
    size_t first = (row / 2 * kRegisters + column) * 2;
    Value taken = call(row % 2 ? "llvm.aarch64.sve.uzp2" : "llvm.aarch64.sve.uzp1", doubles,
                       {cast(doubles, values[first]), cast(doubles, values[first + 1])});
    return cast(sums, taken);
  }

  void store(ArrayRef<Value> values, Value c, bool accumulate) {
    for (int64_t row = 0; row < rows; ++row) {
      Value line = offset(c, arith::MulIOp::create(builder, loc, ldc, constant(row)));
      for (int64_t column = 0; column < kRegisters; ++column) {
        Value sum = sumOf(values, row, column);
        Value address = registerOf(line, column);
        if (accumulate) {
          Value before = load(sums, address);
          sum = sumsFloats(type) ? Value(arith::AddFOp::create(builder, loc, before, sum))
                                 : Value(arith::AddIOp::create(builder, loc, before, sum));
        }
        LLVM::StoreOp::create(builder, loc, sum, address, /*alignment=*/4);
      }
    }
  }

  Value call(StringRef intrinsic, Type result, ValueRange operands) {
    return LLVM::CallIntrinsicOp::create(builder, loc, result, builder.getStringAttr(intrinsic),
                                         operands)
        .getResult(0);
  }
  Value allTrue(VectorType predicate) {
    Value all = LLVM::ConstantOp::create(builder, loc, builder.getI32IntegerAttr(/*SV_ALL=*/31));
    return call("llvm.aarch64.sve.ptrue", predicate, all);
  }
  Value zero(VectorType vector) { return LLVM::ZeroOp::create(builder, loc, vector); }
  Value cast(VectorType to, Value from) { return LLVM::BitcastOp::create(builder, loc, to, from); }
  Value load(Type loaded, Value address) {
    return LLVM::LoadOp::create(builder, loc, loaded, address, /*alignment=*/4);
  }
  Value registerOf(Value row, int64_t column) {
    return offset(row, arith::MulIOp::create(builder, loc, lanes, constant(column)));
  }
  Value loadOfB(Value row, int64_t column) { return load(words, registerOf(row, column)); }
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
  bool isPaired;
  Type pointer;
  VectorType sums, words, doubles;
  Values rowsOfA;
  Value ldb, ldc, depth;
  Value lanes; ///< words of a register
};

} // namespace

bool hasScalableProduct(engine::CpuLevel level, ProductType type) {
  const engine::CpuLevelRow &row = engine::rowOf(level);
  return (row.features & engine::arm::kSve) != 0 && hasArmProduct(level, type) &&
         (type == ProductType::F32 || multipliesByPairs(level, type));
}

void buildScalableProduct(ModuleOp module, ProductType type, int64_t rows, bool accumulate,
                          int64_t columns) {
  ScalableProduct(module, type, rows, columns).build(accumulate);
}

void buildByLength(ModuleOp module, StringRef name, StringRef scalable, StringRef fixed) {
  OpBuilder builder(module.getBodyRegion());
  Location loc = builder.getUnknownLoc();
  func::FuncOp callee = module.lookupSymbol<func::FuncOp>(fixed);
  func::FuncOp function = func::FuncOp::create(builder, loc, name, callee.getFunctionType());
  Block *entry = function.addEntryBlock();
  builder.setInsertionPointToStart(entry);
  Type i64 = builder.getI64Type();
  Value scale = LLVM::CallIntrinsicOp::create(builder, loc, i64,
                                              builder.getStringAttr("llvm.vscale"), ValueRange())
                    .getResult(0);
  auto is = [&](int64_t parts) -> Value {
    Value wanted = arith::ConstantOp::create(builder, loc, builder.getI64IntegerAttr(parts));
    return arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::eq, scale, wanted);
  };
  Value either = arith::OrIOp::create(builder, loc, is(2), is(4));
  scf::IfOp::create(
      builder, loc, either,
      [&](OpBuilder &then, Location) {
        func::CallOp::create(then, loc, scalable, TypeRange(), entry->getArguments());
        scf::YieldOp::create(then, loc);
      },
      [&](OpBuilder &otherwise, Location) {
        func::CallOp::create(otherwise, loc, fixed, TypeRange(), entry->getArguments());
        scf::YieldOp::create(otherwise, loc);
      });
  func::ReturnOp::create(builder, loc);
}

} // namespace tenon::codegen::cpu
