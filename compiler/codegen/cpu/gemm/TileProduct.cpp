// Tiles 0 to 3 hold C, row by row, 4 and 5 A, 6 and 7 B. They are named and not left to the
// register allocation, so that what they are configured as is loaded once for all whole blocks of a
// call and not where the allocation would think of it. Rows and words behind the last whole block
// are tiles of their own shape: nothing outside the operands is read.
#include "compiler/codegen/cpu/gemm/TileProduct.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;

namespace tenon::codegen::cpu {

namespace {

/// Rows of a tile; words of one of its rows.
constexpr int64_t kTile = 16;
constexpr int64_t kWordBytes = 4, kTileRowBytes = kTile * kWordBytes;
constexpr int64_t kFirstA = 4, kFirstB = 6;
constexpr int64_t kConfigBytes = 64;

/// Words of the depth for which all rows meet a panel of B before the next: 24 KiB of it, which
/// stay in the L1 cache, for one reading and writing of C.
constexpr int64_t kDepthBlock = 12 * kTile;

/// Blocks of rows over which the fetching of what comes next is spread: it comes from behind the L2
/// cache.
constexpr int64_t kFetchingBlocks = 4;

class TileProduct {
public:
  TileProduct(ModuleOp module, ProductType type)
      : builder(module.getBodyRegion()), loc(builder.getUnknownLoc()), type(type),
        pointer(LLVM::LLVMPointerType::get(builder.getContext())) {}

  void build(StringRef name, StringRef fewRows) {
    Type i64 = builder.getI64Type();
    func::FuncOp function = func::FuncOp::create(
        builder, loc, name,
        builder.getFunctionType({pointer, i64, pointer, i64, pointer, i64, i64, i64, i64}, {}));
    Block *entry = function.addEntryBlock();
    builder.setInsertionPointToStart(entry);
    lda = entry->getArgument(1);
    ldb = entry->getArgument(3);
    ldc = entry->getArgument(5);
    rows = entry->getArgument(7);
    config = LLVM::AllocaOp::create(builder, loc, pointer, builder.getI8Type(),
                                    constant(kConfigBytes), /*alignment=*/kConfigBytes);
    Value areFew = isLess(rows, constant(kLeastTileRows));
    scf::IfOp choice = scf::IfOp::create(builder, loc, areFew, /*withElseRegion=*/true);
    builder.setInsertionPointToStart(choice.thenBlock());
    func::CallOp::create(builder, loc, fewRows, TypeRange(), entry->getArguments());
    builder.setInsertionPointToStart(choice.elseBlock());
    multiply({entry->getArgument(0), entry->getArgument(2), entry->getArgument(4)},
             entry->getArgument(6), entry->getArgument(8));
    call("llvm.x86.tilerelease", {});
    builder.setInsertionPointToEnd(entry);
    func::ReturnOp::create(builder, loc);
  }

private:
  struct Operands {
    Value a, b, c;
  };
  /// Words of the depth: `step` of them are a row of a tile of A.
  struct Depth {
    Value words, step;
    Value accumulates; ///< i1
  };

  /// Blocks of whole steps, almost equal, then the words behind them.
  void multiply(const Operands &operands, Value depth, Value accumulate) {
    Value tile = constant(kTile), zero = constant(0), one = constant(1);
    Value rest = arith::RemUIOp::create(builder, loc, depth, tile);
    Value whole = arith::SubIOp::create(builder, loc, depth, rest);
    Value blocks = arith::CeilDivUIOp::create(builder, loc, whole, constant(kDepthBlock));
    Value length = arith::CeilDivUIOp::create(builder, loc, whole,
                                              arith::MaxUIOp::create(builder, loc, blocks, one));
    Value steps = arith::CeilDivUIOp::create(builder, loc, length, tile);
    Value stride = times(arith::MaxUIOp::create(builder, loc, steps, one), kTile);
    // Of no depth there is one block, which writes zeros.
    Value isNone = arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::eq, depth, zero);
    Value end = arith::SelectOp::create(builder, loc, isNone, one, whole);
    Value accumulates = isLess(zero, accumulate);
    Value added =
        scf::ForOp::create(builder, loc, zero, end, stride, ValueRange{accumulates},
                           [&](OpBuilder &, Location, Value start, ValueRange state) {
                             Value left = arith::SubIOp::create(builder, loc, whole, start);
                             Value words = arith::MinUIOp::create(builder, loc, left, stride);
                             multiplyRows(at(operands, start), {words, tile, state[0]});
                             scf::YieldOp::create(builder, loc, isLess(zero, one));
                           })
            .getResult(0);
    scf::IfOp::create(builder, loc, isLess(zero, rest), [&](OpBuilder &, Location) {
      multiplyRows(at(operands, whole), {rest, rest, added});
      scf::YieldOp::create(builder, loc);
    });
  }

  /// The operands from `word` of the depth on.
  Operands at(const Operands &operands, Value word) {
    Value row = arith::MulIOp::create(builder, loc, word, ldb);
    return {offset(operands.a, word), offset(operands.b, row), operands.c};
  }

  void multiplyRows(const Operands &operands, const Depth &depth) {
    Value most = constant(2 * kTile);
    scf::ForOp::create(
        builder, loc, constant(0), rows, most, ValueRange(),
        [&](OpBuilder &, Location, Value row, ValueRange) {
          Value left = arith::SubIOp::create(builder, loc, rows, row);
          Value count = arith::MinUIOp::create(builder, loc, left, most);
          Value isFirst =
              arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::eq, row, constant(0));
          Value isNew = arith::OrIOp::create(builder, loc, isFirst, isLess(count, most));
          scf::IfOp::create(builder, loc, isNew, [&](OpBuilder &, Location) {
            configure(count, depth.step);
            scf::YieldOp::create(builder, loc);
          });
          Operands block{offset(operands.a, arith::MulIOp::create(builder, loc, row, lda)),
                         operands.b,
                         offset(operands.c, arith::MulIOp::create(builder, loc, row, ldc))};
          auto multiplyBlock = [&](int64_t tiles) {
            return [&, tiles](OpBuilder &, Location) {
              buildBlock(block, depth, row, tiles);
              scf::YieldOp::create(builder, loc);
            };
          };
          scf::IfOp::create(builder, loc, isLess(constant(kTile), count), multiplyBlock(2),
                            multiplyBlock(1));
          scf::YieldOp::create(builder, loc);
        });
  }

  /// Shapes of the tiles for `count` rows, 1 to 32, and steps of `words`: the bytes of a row of
  /// tiles 0 to 7 in 16 bits each from byte 16 on, their rows in 8 bits each from byte 48 on.
  void configure(Value count, Value words) {
    auto repeated = [](int64_t value, int64_t bits, int64_t first, int64_t tiles) {
      int64_t result = 0;
      for (int64_t i = first; i < first + tiles; ++i) {
        result |= value << (i * bits);
      }
      return result;
    };
    Value upper = arith::MinUIOp::create(builder, loc, count, constant(kTile));
    // Tiles of no rows are refused.
    Value lower = arith::MaxSIOp::create(
        builder, loc, arith::SubIOp::create(builder, loc, count, constant(kTile)), constant(1));
    Value bytes = times(words, kWordBytes * repeated(1, 16, 0, 2));
    bytes = plus(bytes, constant(repeated(kTileRowBytes, 16, 2, 2)));
    Value shape = plus(times(upper, repeated(1, 8, 0, 2) | repeated(1, 8, kFirstA, 1)),
                       times(lower, repeated(1, 8, 2, 2) | repeated(1, 8, kFirstA + 1, 1)));
    shape = plus(shape, times(words, repeated(1, 8, kFirstB, 2)));
    Value zero = constant(0);
    Value content[] = {constant(/*palette=*/1),
                       zero,
                       constant(repeated(kTileRowBytes, 16, 0, 4)),
                       bytes,
                       zero,
                       zero,
                       shape,
                       zero};
    for (auto [i, word] : llvm::enumerate(content)) {
      Value to = LLVM::GEPOp::create(builder, loc, pointer, builder.getI64Type(), config,
                                     ArrayRef<LLVM::GEPArg>{static_cast<int32_t>(i)});
      LLVM::StoreOp::create(builder, loc, word, to);
    }
    call("llvm.x86.ldtilecfg", {config});
  }

  /// The rows of B one block of the depth behind those of a step, which are the next panel's behind
  /// the last block: a part of them for each of kFetchingBlocks blocks of rows.
  void fetchAhead(Value b, const Depth &depth, Value row) {
    Value block = arith::DivUIOp::create(builder, loc, row, constant(2 * kTile));
    Value part = arith::RemUIOp::create(builder, loc, block, constant(kFetchingBlocks));
    constexpr int64_t rowsOfPart = kTile / kFetchingBlocks;
    Value ahead = plus(depth.words, times(part, rowsOfPart));
    Value first = offset(b, arith::MulIOp::create(builder, loc, ahead, ldb));
    for (int64_t i = 0; i < 2 * rowsOfPart; ++i) {
      Value line = offset(offset(first, times(ldb, i / 2)), constant(i % 2 * kTile));
      LLVM::Prefetch::create(builder, loc, line, /*rw=*/0, /*hint=*/2, /*cache=*/1);
    }
  }

  /// C[rows x 32] of one or two tiles of rows from `row` on.
  void buildBlock(const Operands &operands, const Depth &depth, Value row, int64_t rowTiles) {
    Value lineOfA = times(lda, kWordBytes), lineOfB = times(ldb, kWordBytes);
    Value lineOfC = times(ldc, kWordBytes);
    auto forC = [&](llvm::function_ref<void(int64_t, Value)> body) {
      for (int64_t tile = 0; tile < 2 * rowTiles; ++tile) {
        Value row = offset(operands.c, times(ldc, tile / 2 * kTile));
        body(tile, offset(row, constant(tile % 2 * kTile)));
      }
    };
    scf::IfOp::create(
        builder, loc, depth.accumulates,
        [&](OpBuilder &, Location) {
          forC([&](int64_t tile, Value from) { load(tile, from, lineOfC); });
          scf::YieldOp::create(builder, loc);
        },
        [&](OpBuilder &, Location) {
          forC([&](int64_t tile, Value) { call("llvm.x86.tilezero", {number(tile)}); });
          scf::YieldOp::create(builder, loc);
        });
    scf::ForOp::create(
        builder, loc, constant(0), depth.words, depth.step, ValueRange(),
        [&](OpBuilder &, Location, Value word, ValueRange) {
          Operands step = at(operands, word);
          fetchAhead(step.b, depth, row);
          for (int64_t tile = 0; tile < rowTiles; ++tile) {
            load(kFirstA + tile, offset(step.a, times(lda, tile * kTile)), lineOfA);
            for (int64_t column = 0; column < 2; ++column) {
              if (tile == 0) {
                load(kFirstB + column, offset(step.b, constant(column * kTile)), lineOfB);
              }
              call(type == ProductType::BF16 ? "llvm.x86.tdpbf16ps" : "llvm.x86.tdpbusd",
                   {number(2 * tile + column), number(kFirstA + tile), number(kFirstB + column)});
            }
          }
          scf::YieldOp::create(builder, loc);
        });
    forC([&](int64_t tile, Value to) {
      call("llvm.x86.tilestored64", {number(tile), to, lineOfC});
    });
  }

  void load(int64_t tile, Value from, Value stride) {
    call("llvm.x86.tileloadd64", {number(tile), from, stride});
  }
  void call(StringRef intrinsic, ValueRange operands) {
    LLVM::CallIntrinsicOp::create(builder, loc, builder.getStringAttr(intrinsic), operands);
  }
  Value constant(int64_t value) {
    return arith::ConstantOp::create(builder, loc, builder.getI64IntegerAttr(value));
  }
  /// The number of a tile, which must be an immediate operand.
  Value number(int64_t tile) {
    return LLVM::ConstantOp::create(builder, loc, builder.getI8IntegerAttr(tile));
  }
  Value plus(Value a, Value b) { return arith::AddIOp::create(builder, loc, a, b); }
  Value times(Value a, int64_t factor) {
    return arith::MulIOp::create(builder, loc, a, constant(factor));
  }
  Value isLess(Value a, Value b) {
    return arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::slt, a, b);
  }
  Value offset(Value base, Value words) {
    return LLVM::GEPOp::create(builder, loc, pointer, builder.getI32Type(), base,
                               ArrayRef<LLVM::GEPArg>{words});
  }

  OpBuilder builder;
  Location loc;
  ProductType type;
  Type pointer;
  Value lda, ldb, ldc, rows;
  Value config; ///< scratch of kConfigBytes
};

} // namespace

bool multipliesOnTiles(engine::CpuLevel level, ProductType type) {
  const engine::CpuLevelRow &row = engine::rowOf(level);
  uint32_t feature = type == ProductType::U8S8   ? engine::x86::kAmxInt8
                     : type == ProductType::BF16 ? engine::x86::kAmxBf16
                                                 : 0;
  return row.architecture == engine::Architecture::X86_64 && (row.features & feature) != 0;
}

void buildTileProduct(ModuleOp module, ProductType type, StringRef name, StringRef fewRows) {
  TileProduct(module, type).build(name, fewRows);
}

} // namespace tenon::codegen::cpu
