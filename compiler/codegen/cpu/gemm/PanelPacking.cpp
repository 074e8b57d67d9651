// Squares of registers are transposed, rows of narrow elements woven into words; what fills no
// square or word goes element by element.
#include "compiler/codegen/cpu/gemm/PanelPacking.h"

#include "compiler/codegen/cpu/gemm/MicroKernel.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;

namespace tenon::codegen::cpu {

namespace {

constexpr int64_t kPackedWordBits = 32;

/// Rows up to this long are fetched a panel ahead when they are transposed: hardware foresees
/// nothing of short rows far apart, and a panel of longer ones does not fit the L1 cache.
constexpr int64_t kFetchedDepth = 256;

class PackingBuilder {
public:
  PackingBuilder(ModuleOp module, engine::CpuLevel level)
      : builder(module.getBodyRegion()), loc(builder.getUnknownLoc()),
        pointer(LLVM::LLVMPointerType::get(builder.getContext())), element(builder.getF32Type()),
        vector(VectorType::get(floatLanes(level), element)) {}

  /// The function kPackTransposed: squares of as many rows as a register has lanes, then single
  /// elements.
  void buildTransposed() {
    Type i64 = builder.getI64Type();
    Block *entry = startFunction(kPackTransposed, {pointer, i64, pointer, i64, i64});
    Value from = entry->getArgument(0), stride = entry->getArgument(1);
    Value to = entry->getArgument(2), depth = entry->getArgument(3);
    Value count = entry->getArgument(4);
    int64_t width = vector.getDimSize(0);
    Value rest = arith::RemUIOp::create(builder, loc, depth, constant(width));
    Value whole = arith::SubIOp::create(builder, loc, depth, rest);
    auto packWhole = [&](bool fetches) {
      for (int64_t first = 0; first < kPanel; first += width) {
        scf::ForOp::create(builder, loc, constant(0), whole, constant(width), ValueRange(),
                           [&](OpBuilder &, Location, Value i, ValueRange) {
                             packSquare(offset(from, i), stride, count, first,
                                        offset(to, panelElement(i, first)), fetches);
                             scf::YieldOp::create(builder, loc);
                           });
      }
    };
    Value isShort = arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::sle, depth,
                                          constant(kFetchedDepth));
    scf::IfOp choice = scf::IfOp::create(builder, loc, isShort, /*withElseRegion=*/true);
    for (bool fetches : {true, false}) {
      OpBuilder::InsertionGuard inBranch(builder);
      builder.setInsertionPointToStart(fetches ? choice.thenBlock() : choice.elseBlock());
      packWhole(fetches);
    }
    scf::ForOp::create(builder, loc, whole, depth, constant(1), ValueRange(),
                       [&](OpBuilder &, Location, Value i, ValueRange) {
                         for (int64_t j = 0; j < kPanel; ++j) {
                           Value single = loadRow(element, offset(from, i), stride, count, j);
                           LLVM::StoreOp::create(builder, loc, single,
                                                 offset(to, panelElement(i, j)), 4);
                         }
                         scf::YieldOp::create(builder, loc);
                       });
    func::ReturnOp::create(builder, loc);
  }

  /// The function packRowsSymbol(elements): words of whole rows, then of the rows that are left.
  void buildRows(int64_t elements) {
    Type i64 = builder.getI64Type();
    Block *entry = startFunction(packRowsSymbol(elements), {pointer, i64, pointer, i64});
    Value from = entry->getArgument(0), stride = entry->getArgument(1);
    Value to = entry->getArgument(2), depth = entry->getArgument(3);
    Value perWord = constant(elements);
    Value words = arith::DivUIOp::create(builder, loc, depth, perWord);
    scf::ForOp::create(builder, loc, constant(0), words, constant(1), ValueRange(),
                       [&](OpBuilder &, Location, Value word, ValueRange) {
                         packWords(from, stride, to, word, elements, elements);
                         scf::YieldOp::create(builder, loc);
                       });
    Value rest = arith::RemUIOp::create(builder, loc, depth, perWord);
    for (int64_t left = 1; left < elements; ++left) {
      Value isLeft =
          arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::eq, rest, constant(left));
      scf::IfOp::create(builder, loc, isLeft, [&](OpBuilder &, Location) {
        packWords(from, stride, to, words, elements, left);
        scf::YieldOp::create(builder, loc);
      });
    }
    func::ReturnOp::create(builder, loc);
  }

private:
  Block *startFunction(StringRef name, ArrayRef<Type> arguments) {
    func::FuncOp function =
        func::FuncOp::create(builder, loc, name, builder.getFunctionType(arguments, {}));
    Block *entry = function.addEntryBlock();
    builder.setInsertionPointToStart(entry);
    return entry;
  }

  Value panelElement(Value row, int64_t column) {
    Value start = arith::MulIOp::create(builder, loc, row, constant(kPanel));
    return arith::AddIOp::create(builder, loc, start, constant(column));
  }

  /// What row `j` holds at `from`; zero from row `count` on.
  Value loadRow(Type type, Value from, Value stride, Value count, int64_t j) {
    Value isRow =
        arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::slt, constant(j), count);
    Value row = arith::SelectOp::create(builder, loc, isRow, constant(j), constant(0));
    Value value = LLVM::LoadOp::create(
        builder, loc, type, offset(from, arith::MulIOp::create(builder, loc, row, stride)),
        /*alignment=*/4);
    Value zero = arith::ConstantOp::create(builder, loc, builder.getZeroAttr(type));
    return arith::SelectOp::create(builder, loc, isRow, value, zero);
  }

  void packSquare(Value from, Value stride, Value count, int64_t first, Value to, bool fetches) {
    int64_t width = vector.getDimSize(0);
    SmallVector<Value> square;
    for (int64_t j = 0; j < width; ++j) {
      square.push_back(loadRow(vector, from, stride, count, first + j));
      if (fetches) {
        // It may lie behind the last row, which a prefetch may.
        Value next = arith::MulIOp::create(builder, loc, stride, constant(first + j + kPanel));
        LLVM::Prefetch::create(builder, loc, offset(from, next), /*rw=*/0, /*hint=*/3, /*cache=*/1);
      }
    }
    square = transposeSquare(builder, loc, std::move(square));
    for (int64_t i = 0; i < width; ++i) {
      LLVM::StoreOp::create(builder, loc, square[i], offset(to, constant(i * kPanel)), 4);
    }
  }

  /// Word number `word` of all columns, of its first `rows` elements.
  void packWords(Value from, Value stride, Value to, Value word, int64_t elements, int64_t rows) {
    int64_t width = vector.getDimSize(0), bits = kPackedWordBits / elements;
    Type narrow = builder.getIntegerType(bits);
    VectorType stored = VectorType::get(width, narrow);
    VectorType words = VectorType::get(width, builder.getI32Type());
    Value firstRow = arith::MulIOp::create(builder, loc, word, constant(elements));
    for (int64_t column = 0; column < kPanel; column += width) {
      Value woven;
      for (int64_t i = 0; i < rows; ++i) {
        Value row = arith::AddIOp::create(builder, loc, firstRow, constant(i));
        Value start = arith::AddIOp::create(
            builder, loc, arith::MulIOp::create(builder, loc, row, stride), constant(column));
        Value address =
            LLVM::GEPOp::create(builder, loc, pointer, narrow, from, ArrayRef<LLVM::GEPArg>{start});
        Value part = arith::ExtUIOp::create(builder, loc, words,
                                            LLVM::LoadOp::create(builder, loc, stored, address, 1));
        Value shift = arith::ConstantOp::create(
            builder, loc, DenseElementsAttr::get(words, builder.getI32IntegerAttr(i * bits)));
        part = arith::ShLIOp::create(builder, loc, part, shift);
        woven = woven ? Value(arith::OrIOp::create(builder, loc, woven, part)) : part;
      }
      LLVM::StoreOp::create(builder, loc, woven, offset(to, panelElement(word, column)), 4);
    }
  }

  Value constant(int64_t value) {
    return arith::ConstantOp::create(builder, loc, builder.getI64IntegerAttr(value));
  }
  Value offset(Value base, Value elements) {
    return LLVM::GEPOp::create(builder, loc, pointer, element, base,
                               ArrayRef<LLVM::GEPArg>{elements});
  }

  OpBuilder builder;
  Location loc;
  Type pointer;
  Type element; ///< a word
  VectorType vector;
};

} // namespace

std::string packRowsSymbol(int64_t elements) {
  return "tenon_product_pack_rows_b" + std::to_string(kPackedWordBits / elements);
}

/// Interleaving the two halves log2(lanes) times does it.
SmallVector<Value> transposeSquare(OpBuilder &builder, Location location,
                                   SmallVector<Value> square) {
  int64_t lanes = square.size();
  SmallVector<int64_t> low, high;
  for (int64_t lane = 0; lane < lanes / 2; ++lane) {
    low.append({lane, lane + lanes});
    high.append({lane + lanes / 2, lane + lanes / 2 + lanes});
  }
  for (int64_t step = 1; step < lanes; step *= 2) {
    SmallVector<Value> next;
    for (int64_t row = 0; row < lanes / 2; ++row) {
      Value a = square[row], b = square[row + lanes / 2];
      next.push_back(vector::ShuffleOp::create(builder, location, a, b, low));
      next.push_back(vector::ShuffleOp::create(builder, location, a, b, high));
    }
    square = std::move(next);
  }
  return square;
}

bool buildPanelPacking(ModuleOp module, engine::CpuLevel level, StringRef name) {
  if (name == kPackTransposed) {
    PackingBuilder(module, level).buildTransposed();
    return true;
  }
  for (int64_t elements : kPackedWords) {
    if (name == packRowsSymbol(elements)) {
      PackingBuilder(module, level).buildRows(elements);
      return true;
    }
  }
  return false;
}

} // namespace tenon::codegen::cpu
