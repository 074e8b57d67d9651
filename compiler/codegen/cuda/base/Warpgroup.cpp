// A product is one piece of assembly from its fence to its end, so that no access to its registers
// can be moved into it. Relies on the descriptor of a swizzled tile (PTX manual, matrix-descriptor
// format).
#include "compiler/codegen/cuda/base/Warpgroup.h"

#include "compiler/codegen/cuda/base/TensorCore.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"

using namespace mlir;

namespace tenon::codegen::cuda {
namespace {

constexpr int64_t accumulatorsOf(int64_t columns) { return kGroupRows * columns / kWarpgroup; }
constexpr int64_t kRowBytes = kTileColumns * 2;
/// Depth of a tile with depth along its rows.
constexpr int64_t kStepsOfTile = kTileColumns / kMmaDepth;

/// Start / 16, the distance / 16 of tiles that lie side by side (from bit 16; any where there is
/// one), that of groups of 8 rows (from bit 32) and the swizzle (from bit 62 on: 1 for rows of 128
/// bytes, 2 for 64, 3 for 32).
Value descriptor(const ThreadBuilder &t, Value tile, int64_t tileBytes = 16,
                 int64_t columns = kTileColumns) {
  uint64_t swizzle = columns == 64 ? 1 : columns == 32 ? 2 : 3;
  int64_t fixed =
      tileBytes / 16 << 16 | 8 * columns * 2 / 16 << 32 | static_cast<int64_t>(swizzle << 62);
  Value address = LLVM::PtrToIntOp::create(t.builder, t.location, t.i32Type(), tile);
  Value start = t.div(t.bitAnd(address, t.i32(0x3ffff)), 16);
  start = arith::ExtUIOp::create(t.builder, t.location, t.i64Type(), start);
  return t.builder.createOrFold<arith::OrIOp>(t.location, start, t.i64(fixed));
}

/// "{$first, ..., $last}".
std::string registers(int64_t first, int64_t count) {
  std::string list = "{";
  for (int64_t i = 0; i < count; ++i) {
    list += (i ? ", $" : "$") + std::to_string(first + i);
  }
  return list + "}";
}

/// One piece of assembly whose first operands are `columns` columns of accumulators.
struct Assembly {
  int64_t columns;
  std::string text = "{\n.reg .pred first, more;\n.reg .b64 a, b;\nsetp.ne.b32 first, 0, 0;\n"
                     "setp.eq.b32 more, 0, 0;\nwgmma.fence.sync.aligned;\n";
  std::string types; ///< depth, and types of the sums, A and B
  bool isOfBytes, isOfIntegers;

  explicit Assembly(Type element, int64_t columns = kTileColumns)
      : columns(columns), types(typesOf(element)), isOfBytes(element.getIntOrFloatBitWidth() == 8),
        isOfIntegers(element.isInteger()) {}

  static const char *typesOf(Type element) {
    if (element.isInteger()) {
      return element.isUnsignedInteger() ? "k32.s32.u8.s8" : "k32.s32.s8.s8";
    }
    return element.isBF16()                       ? "k16.f32.bf16.bf16"
           : element.getIntOrFloatBitWidth() == 8 ? "k32.f32.e4m3.e4m3"
                                                  : "k16.f32.f16.f16";
  }

  int64_t accumulators() const { return accumulatorsOf(columns); }

  void advance(const char *which, int64_t operand, int64_t bytes) {
    text += std::string("add.s64 ") + which + ", $" + std::to_string(operand) + ", " +
            std::to_string(bytes / 16) + ";\n";
  }
  /// `flags` says of operands in shared memory whether they are transposed, as 8-bit ones never
  /// are. Of floats both operands are multiplied by 1.
  void multiply(const std::string &a, const char *predicate, const char *flags) {
    text += "wgmma.mma_async.sync.aligned.m64n" + std::to_string(columns) + types + " " +
            registers(0, accumulators()) + ", " + a + ", b, " + predicate +
            (isOfIntegers ? "" : ", 1, 1") +
            (isOfBytes ? std::string() : std::string(", ") + flags) + ";\n";
  }
  /// Lets the first product begin new accumulators where this operand (i32) is 0.
  void addFirst(int64_t operand) {
    text += "setp.ne.b32 first, $" + std::to_string(operand) + ", 0;\n";
  }
  /// The products of A and B, whose descriptors are operands `a` and the one behind it; both have
  /// depth along their rows.
  void multiplyDepth(int64_t a, int64_t depth, const char *first) {
    int64_t inTile = tileColumnsOf(depth);
    for (int64_t at = 0; at < depth; at += kMmaDepth) {
      int64_t tile = at / inTile, ofRow = at % inTile * 2;
      advance("a", a, tile * kGroupRows * inTile * 2 + ofRow);
      advance("b", a + 1, tile * columns * inTile * 2 + ofRow);
      multiply("a", at ? "more" : first, "0, 0");
    }
  }
  /// The products of `words` words of A, which are operands behind the accumulators, with B, whose
  /// descriptor follows them. Returns the constraints of accumulators and words.
  std::string addWords(int64_t words, const char *first) {
    std::string inputs = tied(accumulators());
    for (int64_t word = 0; word < words; word += 4) {
      advance("b", 2 * accumulators() + words, word / 4 * kMmaDepth * tileColumnsOf(columns) * 2);
      multiply(registers(2 * accumulators() + word, 4), word ? "more" : first, "1");
      inputs += "r,r,r,r,";
    }
    return inputs;
  }
  ThreadBuilder::Values begin(const ThreadBuilder &t, const std::string &inputs,
                              ValueRange operands) {
    text += "wgmma.commit_group.sync.aligned;\n}";
    return give(t, text, accumulators(), sumType(t), inputs, operands);
  }
  /// Waits until all products but those of so many pieces are done.
  ThreadBuilder::Values finish(const ThreadBuilder &t, const std::string &inputs,
                               ValueRange operands, int64_t underWay = 0) {
    text += "wgmma.commit_group.sync.aligned;\nwgmma.wait_group.sync.aligned " +
            std::to_string(underWay) + ";\n}";
    return give(t, text, accumulators(), sumType(t), inputs, operands);
  }
  Type sumType(const ThreadBuilder &t) const { return isOfIntegers ? t.i32Type() : t.f32Type(); }

  /// What a piece of assembly makes of `count` accumulators.
  static ThreadBuilder::Values give(const ThreadBuilder &t, const std::string &text, int64_t count,
                                    Type sum, const std::string &inputs, ValueRange operands) {
    std::string constraints;
    for (int64_t i = 0; i < count; ++i) {
      constraints += sum.isInteger() ? "=r," : "=f,";
    }
    Type result =
        LLVM::LLVMStructType::getLiteral(t.builder.getContext(), SmallVector<Type>(count, sum));
    Value product = t.assembly(result, text, constraints + inputs + "~{memory}", operands);
    ThreadBuilder::Values values;
    for (int64_t i = 0; i < count; ++i) {
      values.push_back(t.member(product, i));
    }
    return values;
  }

  /// The constraints by which accumulators come in where they go out.
  static std::string tied(int64_t count) {
    std::string inputs;
    for (int64_t i = 0; i < count; ++i) {
      inputs += std::to_string(i) + ",";
    }
    return inputs;
  }
};

int64_t columnsOf(ArrayRef<Value> accumulators) {
  return static_cast<int64_t>(accumulators.size()) * kWarpgroup / kGroupRows;
}

/// The descriptor of B stored [depth][columns], of a depth of 4 for each word of A.
Value sideBySide(const ThreadBuilder &t, Value b, size_t words, int64_t columns) {
  int64_t inTile = tileColumnsOf(columns), depth = static_cast<int64_t>(words) / 4 * kMmaDepth;
  return descriptor(t, b, depth * inTile * 2, inTile);
}

} // namespace

int64_t tileColumnsOf(int64_t width) { return width % 64 == 0 ? 64 : width % 32 == 0 ? 32 : 16; }

Value tileOffset(const ThreadBuilder &t, Value row, Value chunk, int64_t columns) {
  // Rows whose chunks are in the same banks have them in different places.
  Value turn = t.rem(t.div(row, kTileColumns / columns), columns / 8);
  Value place = t.builder.createOrFold<arith::XOrIOp>(t.location, chunk, turn);
  return t.add(t.mul(row, columns), t.mul(place, 8));
}

void releaseTiles(const ThreadBuilder &t) {
  t.assembly(Type(), "fence.proxy.async.shared::cta;", "~{memory}", {});
}

ThreadBuilder::Values multiplyTiles(const ThreadBuilder &t, Type element, Value a, Value b,
                                    int64_t depth, int64_t columns) {
  Assembly assembly(element, columns);
  assembly.multiplyDepth(assembly.accumulators(), depth, "first");
  int64_t inTile = tileColumnsOf(depth);
  return assembly.finish(t, "l,l,", {descriptor(t, a, 16, inTile), descriptor(t, b, 16, inTile)});
}

ThreadBuilder::Values addProduct(const ThreadBuilder &t, Type element, ArrayRef<Value> a, Value b,
                                 ArrayRef<Value> accumulators) {
  Assembly assembly(element, columnsOf(accumulators));
  std::string inputs = assembly.addWords(a.size(), "more");
  ThreadBuilder::Values operands(accumulators);
  operands.append(a.begin(), a.end());
  operands.push_back(sideBySide(t, b, a.size(), assembly.columns));
  return assembly.finish(t, inputs + "l,", operands);
}

ThreadBuilder::Values beginTiles(const ThreadBuilder &t, Type element, Value a, Value b,
                                 int64_t depth, Value number, ArrayRef<Value> accumulators) {
  int64_t left = 2 * accumulators.size(), inTile = tileColumnsOf(depth);
  Assembly assembly(element, columnsOf(accumulators));
  assembly.addFirst(left + 2);
  assembly.multiplyDepth(left, depth, "first");
  ThreadBuilder::Values operands(accumulators);
  operands.append({descriptor(t, a, 16, inTile), descriptor(t, b, 16, inTile), number});
  return assembly.begin(t, Assembly::tied(accumulators.size()) + "l,l,r,", operands);
}

ThreadBuilder::Values beginProduct(const ThreadBuilder &t, Type element, ArrayRef<Value> a, Value b,
                                   Value number, ArrayRef<Value> accumulators) {
  Assembly assembly(element, columnsOf(accumulators));
  assembly.addFirst(2 * accumulators.size() + a.size() + 1);
  std::string inputs = assembly.addWords(a.size(), "first");
  ThreadBuilder::Values operands(accumulators);
  operands.append(a.begin(), a.end());
  operands.append({sideBySide(t, b, a.size(), assembly.columns), number});
  return assembly.begin(t, inputs + "l,r,", operands);
}

ThreadBuilder::Values waitForProducts(const ThreadBuilder &t, ArrayRef<Value> accumulators,
                                      int64_t underWay) {
  int64_t count = accumulators.size();
  return Assembly::give(t, "wgmma.wait_group.sync.aligned " + std::to_string(underWay) + ";", count,
                        accumulators.front().getType(), Assembly::tied(count), accumulators);
}

ThreadBuilder::Values exchangeWords(const ThreadBuilder &t, ArrayRef<Value> words) {
  ThreadBuilder::Values now(words);
  for (int64_t mask : {1, 2}) {
    Value isUpper = t.isLess(t.i32(0), t.bitAnd(t.thread(), t.i32(mask)));
    ThreadBuilder::Values after(now);
    for (int64_t low = 0; low < 4; ++low) {
      int64_t high = low + mask;
      if (low & mask) {
        continue;
      }
      Value got = t.shuffleXor(t.select(isUpper, now[low], now[high]), mask);
      after[low] = t.select(isUpper, got, now[low]);
      after[high] = t.select(isUpper, now[high], got);
    }
    now = after;
  }
  return now;
}

ThreadBuilder::Values addStage(const ThreadBuilder &t, Type element, Value a, Value b,
                               RightOrder order, int64_t columns, Value number,
                               ArrayRef<Value> accumulators) {
  bool depthInner = order == RightOrder::DepthInner;
  Assembly assembly(element, columns);
  int64_t left = 2 * assembly.accumulators();
  assembly.addFirst(left + 2);
  for (int64_t step = 0; step < kStepsOfTile; ++step) {
    assembly.advance("a", left, step * kMmaDepth * 2);
    assembly.advance("b", left + 1, step * kMmaDepth * (depthInner ? 2 : kRowBytes));
    assembly.multiply("a", step ? "more" : "first", depthInner ? "0, 0" : "0, 1");
  }
  ThreadBuilder::Values operands(accumulators);
  operands.push_back(descriptor(t, a));
  operands.push_back(descriptor(t, b, depthInner ? 16 : kTileColumns * kRowBytes));
  operands.push_back(number);
  return assembly.finish(t, Assembly::tied(assembly.accumulators()) + "l,l,r,", operands,
                         /*underWay=*/1);
}

ThreadBuilder::Values finishStages(const ThreadBuilder &t, ArrayRef<Value> accumulators) {
  return waitForProducts(t, accumulators, 0);
}

} // namespace tenon::codegen::cuda
