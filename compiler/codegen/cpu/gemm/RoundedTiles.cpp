// Multiplies rounded rows by weights of 4 or 8 bits on AMX's tiles. A block has scales of its own,
// so its sums leave the tiles for vectors, which scale and add them as RoundedProduct.cpp does, in
// the same order: the same bits. That is most of the work, and tiles multiply some blocks ahead of
// it. Tiles 0 and 1 hold the sums of 8 rows by 32 columns, 4 the rows, 6 and 7 the weights.
#include "compiler/codegen/cpu/gemm/LowBitEmitter.h"
#include "compiler/codegen/cpu/gemm/TileProduct.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;

namespace tenon::codegen::cpu {
namespace {

/// Rows at a time, whose sums of floats stay in 16 registers.
constexpr int64_t kRowsAtOnce = 8;
/// Numbers of a column that are taken apart at a time: 16 KiB, which stay in the L1 cache.
constexpr int64_t kPartDepth = 512;
/// Blocks that tiles are ahead, and places for their sums.
constexpr int64_t kBlocksAhead = 3, kPlaces = 4;
constexpr int64_t kTileOfA = 4, kTileOfB = 6;
constexpr int64_t kShapeBytes = 64;

class RoundedTiles : public LowBitEmitter {
public:
  using LowBitEmitter::LowBitEmitter;

  void build(StringRef name, StringRef fewRows) {
    shapes = makeShapes();
    Type i64 = builder.getI64Type();
    OpBuilder::InsertionGuard guard(builder);
    func::FuncOp function = func::FuncOp::create(
        builder, loc, name,
        builder.getFunctionType({pointer, i64, pointer, pointer, i64, i64, i64, i64}, {}));
    Block *entry = function.addEntryBlock();
    builder.setInsertionPointToStart(entry);
    ValueRange arguments = entry->getArguments();
    numbers = scratch(kPartDepth / 4 * kPanel);
    products = scratch(kPlaces * kRowsAtOnce * kPanel);
    a = arguments[0], lda = arguments[1], c = arguments[3], ldc = arguments[4];
    depth = arguments[5], size = arguments[6];
    Value rows = arguments[7];
    blockWords = divide(size, 4);
    Value most = constant(kTileWords);
    Value steps = arith::CeilDivUIOp::create(builder, loc, blockWords, most);
    step = arith::DivUIOp::create(builder, loc, blockWords, steps);
    // What tiles take: none where steps do not divide a block, or a block is too large.
    Value isDivided =
        arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::eq, mul(steps, step), blockWords);
    Value isSmall = isLess(size, constant(kPartDepth + 1));
    Value areTaken = arith::AndIOp::create(builder, loc, isDivided, isSmall);
    Value whole = arith::AndIOp::create(builder, loc, rows, constant(-kRowsAtOnce));
    Value taken = arith::SelectOp::create(builder, loc, areTaken, whole, constant(0));
    ifTrue(isLess(constant(0), taken), [&] { multiply(arguments[2], taken); });
    ifTrue(isLess(taken, rows), [&] {
      SmallVector<Value> operands(arguments);
      operands[0] = offset(a, mul(taken, lda));
      operands[3] = offset(c, mul(taken, ldc));
      operands[7] = arith::SubIOp::create(builder, loc, rows, taken);
      func::CallOp::create(builder, loc, fewRows, TypeRange(), operands);
    });
    func::ReturnOp::create(builder, loc);
  }

private:
  /// What ldtilecfg takes for steps of 1 to 16 words: from byte 16 on the bytes of a row of tiles 0
  /// to 7 in 16 bits each, from byte 48 on their rows in 8 bits each.
  LLVM::GlobalOp makeShapes() {
    std::vector<int8_t> table;
    for (int64_t words = 1; words <= kTileWords; ++words) {
      std::array<int8_t, kShapeBytes> shape = {/*palette=*/1};
      auto set = [&](int64_t tile, int64_t rows, int64_t rowWords) {
        shape[16 + 2 * tile] = static_cast<int8_t>(4 * rowWords);
        shape[48 + tile] = static_cast<int8_t>(rows);
      };
      set(kTileOfA, kRowsAtOnce, words);
      for (int64_t half : {0, 1}) {
        set(half, kRowsAtOnce, kTileWords);
        set(kTileOfB + half, words, kTileWords);
      }
      table.insert(table.end(), shape.begin(), shape.end());
    }
    RankedTensorType type =
        RankedTensorType::get({static_cast<int64_t>(table.size())}, builder.getI8Type());
    return LLVM::GlobalOp::create(
        builder, loc, LLVM::LLVMArrayType::get(builder.getI8Type(), table.size()),
        /*isConstant=*/true, LLVM::Linkage::Internal, "tile_shapes",
        DenseElementsAttr::get(type, ArrayRef(table)), /*alignment=*/kShapeBytes);
  }

  /// All of the depth for a multiple of kRowsAtOnce rows.
  void multiply(Value b, Value rows) {
    Value table = LLVM::AddressOfOp::create(builder, loc, shapes);
    Value bytes = mul(subtract(step, 1), constant(kShapeBytes));
    call("llvm.x86.ldtilecfg", {LLVM::GEPOp::create(builder, loc, pointer, builder.getI8Type(),
                                                    table, ArrayRef<LLVM::GEPArg>{bytes})});
    wordsOfA = add(blockWords, constant(RoundedRows::kHeader));
    wordsOfB = add(arith::DivUIOp::create(builder, loc, size, constant(layout.elementsOfWord())),
                   constant(layout.headerWords()));
    Value blocks = arith::CeilDivUIOp::create(builder, loc, depth, size);
    Value ofPart = arith::DivUIOp::create(builder, loc, constant(kPartDepth), size);
    forRange(constant(0), blocks, ofPart, {}, [&](Value first, ValueRange) {
      Value rest = arith::SubIOp::create(builder, loc, blocks, first);
      Value count = arith::MinUIOp::create(builder, loc, rest, ofPart);
      Value panel = offset(b, mul(mul(first, wordsOfB), constant(kPanel)));
      Value left = arith::SubIOp::create(builder, loc, depth, mul(first, size));
      takeApart(panel, count, left);
      forRange(constant(0), rows, constant(kRowsAtOnce), {}, [&](Value row, ValueRange) {
        Value block = offset(offset(a, mul(row, lda)), mul(first, wordsOfA));
        multiplyRows({block, panel, offset(c, mul(row, ldc)), count, first});
        return SmallVector<Value>();
      });
      return SmallVector<Value>();
    });
  }

  /// The numbers of `count` blocks as bytes, four of a column in a word. What a short block lacks
  /// is zeros, which what stands in its place in the rows does not change.
  void takeApart(Value panel, Value count, Value left) {
    int32_t parts = layout.bits == 4 ? 2 : 1;
    Value each = constant(layout.elementsOfWord());
    forRange(constant(0), count, constant(1), {}, [&](Value block, ValueRange) {
      Value from = offset(
          panel, mul(add(mul(block, wordsOfB), constant(layout.headerWords())), constant(kPanel)));
      Value to = offset(numbers, mul(mul(block, blockWords), constant(kPanel)));
      Value rest = arith::SubIOp::create(builder, loc, left, mul(block, size));
      Value there = arith::CeilDivUIOp::create(
          builder, loc, arith::MinSIOp::create(builder, loc, rest, size), each);
      forRange(constant(0), there, constant(1), {}, [&](Value word, ValueRange) {
        for (int64_t column = 0; column < kPanel; column += lanes) {
          Value read = load(words, atWord(from, word, column));
          for (int32_t part = 0; part < parts; ++part) {
            store(parts == 1 ? read : bytesOf(read, part),
                  atWord(to, add(mul(word, constant(parts)), constant(part)), column));
          }
        }
        return SmallVector<Value>();
      });
      forRange(mul(there, constant(parts)), blockWords, constant(1), {},
               [&](Value word, ValueRange) {
                 for (int64_t column = 0; column < kPanel; column += lanes) {
                   store(everyWord(0), atWord(to, word, column));
                 }
                 return SmallVector<Value>();
               });
      return SmallVector<Value>();
    });
  }

  /// kRowsAtOnce rows by a part of a panel.
  struct Part {
    Value rows, panel, c;
    Value count; ///< of blocks
    Value first; ///< of them, in the depth
  };

  void multiplyRows(const Part &part) {
    Value zero = constant(0), ahead = constant(kBlocksAhead);
    forRange(zero, arith::MinUIOp::create(builder, loc, part.count, ahead), constant(1), {},
             [&](Value block, ValueRange) {
               multiplyBlock(part, block);
               return SmallVector<Value>();
             });
    SmallVector<Value> sums =
        forRange(zero, part.count, constant(1), sumsBefore(part), [&](Value block, ValueRange now) {
          Value next = add(block, ahead);
          ifTrue(isLess(next, part.count), [&] { multiplyBlock(part, next); });
          return scaleBlock(part, block, now);
        });
    for (auto [i, sum] : llvm::enumerate(sums)) {
      store(sum, placeOfC(part, i));
    }
  }

  /// Those of the parts before.
  SmallVector<Value> sumsBefore(const Part &part) {
    SmallVector<Type> types(kRowsAtOnce * vectors(), floats);
    Value isFirst =
        arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::eq, part.first, constant(0));
    scf::IfOp chosen = scf::IfOp::create(builder, loc, types, isFirst, /*withElseRegion=*/true);
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPointToStart(chosen.thenBlock());
    Value nothing = arith::ConstantOp::create(builder, loc, builder.getZeroAttr(floats));
    scf::YieldOp::create(builder, loc, SmallVector<Value>(types.size(), nothing));
    builder.setInsertionPointToStart(chosen.elseBlock());
    SmallVector<Value> sums;
    for (size_t i = 0; i < types.size(); ++i) {
      sums.push_back(load(floats, placeOfC(part, i)));
    }
    scf::YieldOp::create(builder, loc, sums);
    return SmallVector<Value>(chosen.getResults());
  }

  int64_t vectors() const { return kPanel / lanes; }
  Value placeOfC(const Part &part, int64_t index) {
    Value row = offset(part.c, mul(ldc, constant(index / vectors())));
    return offset(row, constant(index % vectors() * lanes));
  }
  Value placeOf(Value block) {
    Value place = arith::AndIOp::create(builder, loc, block, constant(kPlaces - 1));
    return offset(products, mul(place, constant(kRowsAtOnce * kPanel)));
  }
  Value rowsOf(const Part &part, Value block) { return offset(part.rows, mul(block, wordsOfA)); }

  /// The sums of integers of a block, into their place.
  void multiplyBlock(const Part &part, Value block) {
    Value strideOfA = mul(lda, constant(4)), stride = constant(4 * kPanel);
    Value ofRows = offset(rowsOf(part, block), constant(RoundedRows::kHeader));
    Value ofPanel = offset(numbers, mul(mul(block, blockWords), constant(kPanel)));
    for (int64_t half : {0, 1}) {
      call("llvm.x86.tilezero", {tile(half)});
    }
    forRange(constant(0), blockWords, step, {}, [&](Value word, ValueRange) {
      call("llvm.x86.tileloadd64", {tile(kTileOfA), offset(ofRows, word), strideOfA});
      for (int64_t half : {0, 1}) {
        Value from = atWord(ofPanel, word, half * kTileWords);
        call("llvm.x86.tileloadd64", {tile(kTileOfB + half), from, stride});
        call("llvm.x86.tdpbsud", {tile(half), tile(kTileOfA), tile(kTileOfB + half)});
      }
      return SmallVector<Value>();
    });
    for (int64_t half : {0, 1}) {
      Value to = offset(placeOf(block), constant(half * kTileWords));
      call("llvm.x86.tilestored64", {tile(half), to, stride});
    }
  }

  /// The sums of floats with those of a block.
  SmallVector<Value> scaleBlock(const Part &part, Value block, ValueRange sums) {
    Value header = rowsOf(part, block), place = placeOf(block);
    Value ofPanel = offset(part.panel, mul(mul(block, wordsOfB), constant(kPanel)));
    SmallVector<Header> headers;
    for (int64_t column = 0; column < kPanel; column += lanes) {
      headers.push_back(headerOf(offset(ofPanel, constant(column))));
    }
    SmallVector<Value> next;
    for (int64_t i = 0; i < kRowsAtOnce * vectors(); ++i) {
      int64_t row = i / vectors(), column = i % vectors() * lanes;
      Value ofRow = offset(header, mul(lda, constant(row)));
      Value integers = load(words, offset(place, constant(row * kPanel + column)));
      if (!layout.hasZeroPoints) {
        Value common =
            vector::BroadcastOp::create(builder, loc, words, load(i32, offset(ofRow, constant(1))));
        integers = arith::AddIOp::create(builder, loc, integers, common);
      }
      next.push_back(inOrder(addScaled(integers, ofRow, headers[i % vectors()], sums[i])));
    }
    return next;
  }

  /// Holds the compiler from loading what all rows need before it adds the first, which takes more
  /// registers than there are.
  Value inOrder(Value sum) {
    return LLVM::InlineAsmOp::create(builder, loc, floats, sum, /*asm_string=*/"", "=v,0,~{memory}",
                                     /*has_side_effects=*/true, /*is_align_stack=*/false,
                                     LLVM::tailcallkind::TailCallKind::None,
                                     /*asm_dialect=*/LLVM::AsmDialectAttr(),
                                     /*operand_attrs=*/ArrayAttr())
        .getResult(0);
  }

  Value atWord(Value base, Value word, int64_t column) {
    return offset(base, add(mul(word, constant(kPanel)), constant(column)));
  }
  void store(Value value, Value to) { LLVM::StoreOp::create(builder, loc, value, to, 4); }
  Value divide(Value value, int64_t by) {
    return arith::DivUIOp::create(builder, loc, value, constant(by));
  }
  Value subtract(Value value, int64_t by) {
    return arith::SubIOp::create(builder, loc, value, constant(by));
  }
  Value isLess(Value left, Value right) {
    return arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::slt, left, right);
  }
  Value scratch(int64_t count) {
    return LLVM::AllocaOp::create(builder, loc, pointer, i32, constant(count), kShapeBytes);
  }
  void ifTrue(Value condition, llvm::function_ref<void()> body) {
    scf::IfOp chosen = scf::IfOp::create(builder, loc, condition, /*withElseRegion=*/false);
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPointToStart(chosen.thenBlock());
    body();
  }
  void call(StringRef intrinsic, ValueRange operands) {
    LLVM::CallIntrinsicOp::create(builder, loc, builder.getStringAttr(intrinsic), operands);
  }
  /// The number of a tile, which must be an immediate operand.
  Value tile(int64_t number) {
    return LLVM::ConstantOp::create(builder, loc, builder.getI8IntegerAttr(number));
  }

  LLVM::GlobalOp shapes;
  Value numbers;  ///< those of a part of a panel as bytes, [word, column]
  Value products; ///< sums of integers of kPlaces blocks, [row, column]
  Value a, lda, c, ldc, depth, size;
  Value blockWords, step;   ///< of a block's numbers as bytes, and of one product of tiles
  Value wordsOfA, wordsOfB; ///< of a block with its header
};

} // namespace

void buildRoundedTiles(ModuleOp module, engine::CpuLevel level, const tn::BlockRows &layout,
                       StringRef fewRows) {
  RoundedTiles(module, level, layout).build(integerSymbol(layout), fewRows);
}

} // namespace tenon::codegen::cpu
