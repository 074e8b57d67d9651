// Tiles 0 to 3 hold C, row by row, 4 and 5 A, 6 and 7 B. They are named and not left to the
// register allocation, so that what they are configured as is loaded once for all whole blocks of a
// call and not where the allocation would think of it. Rows and words behind the last whole block
// are tiles of their own shape: nothing outside the operands is read.
#include "compiler/codegen/cpu/gemm/TileProduct.h"

#include "compiler/codegen/cpu/gemm/LowBitKernels.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;

namespace tenon::codegen::cpu {

namespace {

/// Rows of a tile; words of one of its rows.
constexpr int64_t kTile = kTileWords;
constexpr int64_t kWordBytes = 4;
constexpr int64_t kFirstA = 4, kFirstB = 6;
constexpr int64_t kConfigBytes = 64;

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
    shapes = makeShapes();
    func::FuncOp function = func::FuncOp::create(
        builder, loc, name,
        builder.getFunctionType({pointer, i64, pointer, i64, pointer, i64, i64, i64, i64}, {}));
    Block *entry = function.addEntryBlock();
    builder.setInsertionPointToStart(entry);
    lda = entry->getArgument(1);
    ldb = entry->getArgument(3);
    ldc = entry->getArgument(5);
    rows = entry->getArgument(7);
    if (!fewRows.empty()) {
      Value areFew = isLess(rows, constant(kMinTileRows));
      scf::IfOp choice = scf::IfOp::create(builder, loc, areFew, /*withElseRegion=*/true);
      builder.setInsertionPointToStart(choice.thenBlock());
      func::CallOp::create(builder, loc, fewRows, TypeRange(), entry->getArguments());
      builder.setInsertionPointToStart(choice.elseBlock());
    }
    multiply({entry->getArgument(0), entry->getArgument(2), entry->getArgument(4)},
             entry->getArgument(6), entry->getArgument(8));
    builder.setInsertionPointToEnd(entry);
    func::ReturnOp::create(builder, loc);
  }

private:
  /// What ldtilecfg takes, for each number of words of a step and of rows of a block: from byte 16
  /// on the bytes of a row of tiles 0 to 7 in 16 bits each, from byte 48 on their rows in 8 bits
  /// each.
  LLVM::GlobalOp makeShapes() {
    std::vector<int8_t> table;
    for (int64_t words = 1; words <= kTile; ++words) {
      for (int64_t rows = 1; rows <= kTileBlockRows; ++rows) {
        std::array<int8_t, kConfigBytes> shape = {/*palette=*/1};
        auto set = [&](int64_t tile, int64_t tileRows, int64_t rowWords) {
          shape[16 + 2 * tile] = static_cast<int8_t>(rowWords * kWordBytes);
          shape[48 + tile] = static_cast<int8_t>(tileRows);
        };
        // Tiles of no rows are refused.
        int64_t upper = std::min(rows, kTile), lower = std::max<int64_t>(rows - kTile, 1);
        for (int64_t i : {0, 1}) {
          set(i, upper, kTile);
          set(2 + i, lower, kTile);
          set(kFirstA + i, i == 0 ? upper : lower, words);
          set(kFirstB + i, words, kTile);
        }
        table.insert(table.end(), shape.begin(), shape.end());
      }
    }
    RankedTensorType type =
        RankedTensorType::get({static_cast<int64_t>(table.size())}, builder.getI8Type());
    return LLVM::GlobalOp::create(
        builder, loc, LLVM::LLVMArrayType::get(builder.getI8Type(), table.size()),
        /*isConstant=*/true, LLVM::Linkage::Internal, "tile_shapes",
        DenseElementsAttr::get(type, ArrayRef(table)), /*alignment=*/kConfigBytes);
  }

  struct Operands {
    Value a, b, c;
  };
  /// The depth in words: steps of so many, which are a row of a tile of A, and what is left.
  struct Depth {
    Value whole, step, rest;
    Value accumulates; ///< i1
  };
  /// A part of it of whole steps.
  struct DepthBlock {
    Value words, step;
    Value accumulates; ///< i1
  };
  /// Rows in blocks of `count`, of one or two tiles.
  struct Rows {
    Value first, end, count;
    int64_t tiles;
  };

  /// All whole blocks of rows, then the rows behind them: tiles are shaped once for each.
  void multiply(const Operands &operands, Value depth, Value accumulate) {
    Value zero = constant(0), block = constant(kTileBlockRows);
    Value tail = arith::RemUIOp::create(builder, loc, rows, block);
    Value whole = arith::SubIOp::create(builder, loc, rows, tail);
    Depth all = stepsOf(depth, accumulate);
    scf::IfOp::create(builder, loc, isLess(zero, whole), [&](OpBuilder &, Location) {
      multiplyRows(operands, all, {zero, whole, block, 2});
      scf::YieldOp::create(builder, loc);
    });
    auto last = [&](int64_t tiles) {
      return [&, tiles](OpBuilder &, Location) {
        multiplyRows(operands, all, {whole, rows, tail, tiles});
        scf::YieldOp::create(builder, loc);
      };
    };
    scf::IfOp::create(builder, loc, isLess(zero, tail), [&](OpBuilder &, Location) {
      scf::IfOp::create(builder, loc, isLess(constant(kTile), tail), last(2), last(1));
      scf::YieldOp::create(builder, loc);
    });
  }

  /// Steps of 16 words, then the words behind them; shorter ones that leave none if as many do.
  Depth stepsOf(Value words, Value accumulate) {
    Value zero = constant(0), one = constant(1);
    Value count = arith::MaxUIOp::create(
        builder, loc, arith::CeilDivUIOp::create(builder, loc, words, constant(kTile)), one);
    Value isEven = arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::eq,
                                         arith::RemUIOp::create(builder, loc, words, count), zero);
    Value even = arith::MaxUIOp::create(builder, loc,
                                        arith::DivUIOp::create(builder, loc, words, count), one);
    Value step = arith::SelectOp::create(builder, loc, isEven, even, constant(kTile));
    Value rest = arith::RemUIOp::create(builder, loc, words, step);
    return {arith::SubIOp::create(builder, loc, words, rest), step, rest, isLess(zero, accumulate)};
  }

  /// Blocks of whole steps, almost equal, then the words behind them.
  void multiplyRows(const Operands &operands, const Depth &depth, const Rows &block) {
    Value zero = constant(0), one = constant(1);
    Value blocks = arith::MaxUIOp::create(
        builder, loc, arith::CeilDivUIOp::create(builder, loc, depth.whole, constant(kTileDepth)),
        one);
    Value length = arith::CeilDivUIOp::create(builder, loc, depth.whole, blocks);
    Value steps = arith::CeilDivUIOp::create(builder, loc, length, depth.step);
    Value stride = arith::MulIOp::create(
        builder, loc, arith::MaxUIOp::create(builder, loc, steps, one), depth.step);
    // Of no depth there is one block, which writes zeros.
    Value isNone = arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::eq,
                                         plus(depth.whole, depth.rest), zero);
    Value end = arith::SelectOp::create(builder, loc, isNone, one, depth.whole);
    configure(block.count, depth.step);
    Value added =
        scf::ForOp::create(builder, loc, zero, end, stride, ValueRange{depth.accumulates},
                           [&](OpBuilder &, Location, Value start, ValueRange state) {
                             Value left = arith::SubIOp::create(builder, loc, depth.whole, start);
                             Value words = arith::MinUIOp::create(builder, loc, left, stride);
                             buildBlocks(at(operands, start), {words, depth.step, state[0]}, block);
                             scf::YieldOp::create(builder, loc, isLess(zero, one));
                           })
            .getResult(0);
    scf::IfOp::create(builder, loc, isLess(zero, depth.rest), [&](OpBuilder &, Location) {
      configure(block.count, depth.rest);
      buildBlocks(at(operands, depth.whole), {depth.rest, depth.rest, added}, block);
      scf::YieldOp::create(builder, loc);
    });
  }

  /// The operands from `word` of the depth on.
  Operands at(const Operands &operands, Value word) {
    Value row = arith::MulIOp::create(builder, loc, word, ldb);
    return {offset(operands.a, word), offset(operands.b, row), operands.c};
  }

  void buildBlocks(const Operands &operands, const DepthBlock &depth, const Rows &rows) {
    scf::ForOp::create(builder, loc, rows.first, rows.end, constant(kTileBlockRows), ValueRange(),
                       [&](OpBuilder &, Location, Value row, ValueRange) {
                         Operands block{
                             offset(operands.a, arith::MulIOp::create(builder, loc, row, lda)),
                             operands.b,
                             offset(operands.c, arith::MulIOp::create(builder, loc, row, ldc))};
                         buildBlock(block, depth, row, rows.tiles);
                         scf::YieldOp::create(builder, loc);
                       });
  }

  /// Shapes of the tiles for `count` rows, 1 to 32, and steps of `words`. They come from a table:
  /// loading what was just stored would wait for all stores before it.
  void configure(Value count, Value words) {
    Value one = constant(1);
    Value number = plus(arith::SubIOp::create(builder, loc, count, one),
                        times(arith::SubIOp::create(builder, loc, words, one), kTileBlockRows));
    Value table = LLVM::AddressOfOp::create(builder, loc, shapes);
    Value shape = LLVM::GEPOp::create(builder, loc, pointer, builder.getI8Type(), table,
                                      ArrayRef<LLVM::GEPArg>{times(number, kConfigBytes)});
    call("llvm.x86.ldtilecfg", {shape});
  }

  /// The rows of B one block of the depth behind those of a step, which are the next panel's behind
  /// the last block: a part of them for each of kFetchingBlocks blocks of rows.
  void fetchAhead(Value b, const DepthBlock &depth, Value row) {
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
  void buildBlock(const Operands &operands, const DepthBlock &depth, Value row, int64_t rowTiles) {
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
  LLVM::GlobalOp shapes;
};

} // namespace

bool multipliesOnTiles(engine::CpuLevel level, ProductType type) {
  const engine::CpuLevelRow &row = engine::rowOf(level);
  uint32_t feature = type == ProductType::U8S8   ? engine::x86::kAmxInt8
                     : type == ProductType::BF16 ? engine::x86::kAmxBf16
                                                 : 0;
  return row.architecture == engine::Architecture::X86_64 && (row.features & feature) != 0;
}

engine::CpuLevel withoutTiles(engine::CpuLevel level) {
  constexpr uint32_t kTiles = engine::x86::kAmxBf16 | engine::x86::kAmxInt8;
  const engine::CpuLevelRow &own = engine::rowOf(level);
  if (own.architecture != engine::Architecture::X86_64 || (own.features & kTiles) == 0) {
    return level;
  }
  for (const engine::CpuLevelRow &row : engine::kCpuLevels) {
    bool isBelow =
        row.architecture == own.architecture && (row.features & ~(own.features & ~kTiles)) == 0;
    level = isBelow ? row.level : level; // better ones are later
  }
  return level;
}

void buildTileProduct(ModuleOp module, ProductType type, StringRef name, StringRef fewRows) {
  TileProduct(module, type).build(name, fewRows);
}

void releaseTiles(func::FuncOp kernel, engine::CpuLevel level) {
  std::vector<std::string> onTiles;
  for (ProductType type : {ProductType::U8S8, ProductType::BF16}) {
    if (multipliesOnTiles(level, type)) {
      onTiles.push_back(anyRowsSymbol(type));
      onTiles.push_back(invariantSymbol(type));
    }
  }
  if (multipliesOnTiles(level, ProductType::U8S8)) {
    llvm::append_range(onTiles, integerSymbols());
  }
  bool usesTiles = false;
  kernel.walk([&](CallOpInterface call) {
    SymbolRefAttr callee = dyn_cast<SymbolRefAttr>(call.getCallableForCallee());
    usesTiles |= callee && llvm::is_contained(onTiles, callee.getLeafReference());
  });
  if (usesTiles) {
    OpBuilder builder(kernel.getBody().back().getTerminator());
    LLVM::CallIntrinsicOp::create(builder, kernel.getLoc(),
                                  builder.getStringAttr("llvm.x86.tilerelease"), ValueRange());
  }
}

} // namespace tenon::codegen::cpu
