// Products by the definitions of fragments, tiles and descriptors in the PTX manual. Relies on
// PtxPiece.h for reading what they are written in.
#include "test/unit/codegen/emulator/WarpgroupModel.h"

#include "compiler/reference/LowBits.h"
#include "test/unit/codegen/emulator/PtxPiece.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>

using llvm::StringRef;

namespace tenon::codegen::cuda {
namespace {

constexpr unsigned kRows = 64, kDepth = 16;

/// The float number i of a lane, for each 8 columns in turn those of a product of a warp.
size_t placeOf(unsigned lane, unsigned i, unsigned columns) {
  unsigned row = lane / 32 * 16 + lane % 32 / 4 + i / 2 % 2 * 8;
  return row * columns + i / 4 * 8 + lane % 4 * 2 + i % 2;
}

/// Tokens are numbers of the kind NaN that arithmetic does not make: a set and a float of a lane.
constexpr uint32_t kToken = 0xffc00000, kMaxSets = 0x3fff, kKeptSets = 64;
uint32_t tokenOf(uint32_t set, unsigned i) { return kToken | set << 8 | i; }

/// Bytes of a tile's row, by the swizzle from bit 62 on: of 128 bytes, of 64, of 32.
unsigned rowBytesOf(uint64_t descriptor) { return 256 >> (descriptor >> 62); }

/// The bits of element (row, column) of a tile behind a descriptor. Where there are more columns
/// than a tile's row has, tiles follow each other by the descriptor's first distance.
uint16_t elementAt(const char *shared, uint64_t descriptor, unsigned row, unsigned column) {
  uint64_t distance = (descriptor >> 16 & 0x3fff) * 16, rowBytes = rowBytesOf(descriptor),
           inRow = rowBytes / 2;
  uint64_t address =
      (descriptor & 0x3fff) * 16 + column / inRow * distance + row * rowBytes + column % inRow * 2;
  address ^= (address >> 7 & (rowBytes / 16 - 1)) << 4;
  uint16_t bits;
  memcpy(&bits, shared + address, 2);
  return bits;
}

std::string faultOf(uint64_t descriptor) {
  bool isSwizzled = descriptor >> 62 != 0, hasNoBase = (descriptor >> 49 & 7) == 0;
  bool hasDistance = (descriptor >> 32 & 0x3fff) == 8 * rowBytesOf(descriptor) / 16;
  return isSwizzled && hasNoBase && hasDistance ? "" : "a descriptor of another kind of tile";
}

} // namespace

/// What one run of a piece does.
class PieceRun {
public:
  PieceRun(WarpgroupModel &model, const Piece &piece, const char *shared, Lanes lanes)
      : model(model), piece(piece), shared(shared), lanes(lanes) {}

  std::string run() {
    fault = piece.fault;
    for (const Statement &statement : piece.statements) {
      if (fault.empty()) {
        execute(statement);
      }
    }
    if (fault.empty()) {
      giveOutputs();
    }
    return fault;
  }

private:
  using Sums = WarpgroupModel::Sums;
  using Read = WarpgroupModel::Read;

  uint64_t input(unsigned lane, unsigned operand) {
    if (operand < piece.outputs || operand - piece.outputs >= piece.inputs.size()) {
      fault = "an operand that is no input: $" + std::to_string(operand);
      return 0;
    }
    const Input &from = piece.inputs[operand - piece.outputs];
    uint64_t value = 0;
    memcpy(&value, static_cast<const char *>(lanes(lane).arguments) + from.offset, from.bytes);
    return value;
  }

  /// A number, a name, or an operand that is the same in all lanes.
  uint64_t scalar(StringRef text) {
    uint64_t value = 0;
    if (text.consume_front("$")) {
      unsigned operand = 0;
      text.getAsInteger(10, operand);
      value = input(0, operand);
      for (unsigned lane = 1; lane < kWarpgroupSize; ++lane) {
        fault = input(lane, operand) == value ? fault : "an operand that differs between lanes";
      }
    } else if (text.getAsInteger(0, value)) {
      auto found = names.find(text.str());
      fault = found != names.end() ? fault : "nothing is called " + text.str();
      value = found != names.end() ? found->second : 0;
    }
    return value;
  }

  void execute(const Statement &statement) {
    StringRef name = statement.name;
    llvm::ArrayRef<std::string> operands = statement.operands;
    if (name.starts_with("wgmma.mma_async.sync.aligned.m64n")) {
      multiply(statement);
    } else if (name == "wgmma.fence.sync.aligned") {
      model.isFenced = true;
    } else if (name == "wgmma.commit_group.sync.aligned") {
      ++model.committed;
    } else if (name == "wgmma.wait_group.sync.aligned") {
      wait(scalar(operands[0]));
    } else if (name.starts_with("setp.ne.") || name.starts_with("setp.eq.")) {
      bool isEqual = scalar(operands[1]) == scalar(operands[2]);
      names[operands[0]] = isEqual == name.starts_with("setp.eq.");
    } else if (name == "add.s64" || name == "add.u64") {
      names[operands[0]] = scalar(operands[1]) + scalar(operands[2]);
    } else if (name == "mov.b64" || name == "mov.u64") {
      names[operands[0]] = scalar(operands[1]);
    } else {
      fault = "an instruction that the model does not know: " + statement.name;
    }
  }

  void wait(uint64_t pending) {
    uint64_t all = model.committed;
    model.finished = std::max(model.finished, all - std::min(all, pending));
    std::vector<Read> left;
    for (const Read &read : model.reads) {
      if (read.group >= model.finished) {
        left.push_back(read);
      } else if (digestOf(read) != read.digest) {
        fault = "a tile changed before its product was waited for";
      }
    }
    model.reads = std::move(left);
  }

  uint64_t digestOf(const Read &read) const {
    uint64_t digest = 14695981039346656037u;
    for (unsigned row = 0; row < read.rows; ++row) {
      for (unsigned column = 0; column < read.columns; ++column) {
        digest ^= elementAt(shared, read.descriptor, row, column);
        digest *= 1099511628211u;
      }
    }
    return digest;
  }

  /// The sums that a product adds to, in the group that is open; null, with a fault, if there was
  /// no fence before it or their registers are not as many.
  Sums *begunSums(llvm::ArrayRef<std::string> operands, unsigned columns) {
    std::vector<unsigned> registers = registersOf(operands[0]);
    if (!model.isFenced || registers.size() != columns / 2) {
      fault = "a product without a fence before it, or of other sums";
      return nullptr;
    }
    Sums &sums = sumsOf(registers, columns, scalar(operands[3]) != 0);
    sums.group = model.committed;
    return &sums;
  }

  void multiply(const Statement &statement) {
    // "m64n256k16.f32.f16.f16"
    StringRef shape = StringRef(statement.name).substr(strlen("wgmma.mma_async.sync.aligned.m64n"));
    unsigned columns = 0;
    bool isShape = !shape.consumeInteger(10, columns) && columns % 8 == 0 && columns <= 256;
    bool isBrain = shape == "k16.f32.bf16.bf16", isFloat8 = shape == "k32.f32.e4m3.e4m3";
    bool isUnsigned = shape == "k32.s32.u8.s8";
    llvm::ArrayRef<std::string> operands = statement.operands;
    if (isShape && (isUnsigned || shape == "k32.s32.s8.s8") && operands.size() == 4) {
      multiplyBytes(operands, columns, isUnsigned);
      return;
    }
    bool inRegisters = operands.size() == 7;
    // Operands of 8 bits lie in shared memory here, and have no flags.
    bool hasOperands =
        isFloat8 ? operands.size() == 6 : operands.size() == 7 || operands.size() == 8;
    if (!isShape || !(isBrain || isFloat8 || shape == "k16.f32.f16.f16") || !hasOperands ||
        operands[4] != "1" || operands[5] != "1") {
      fault = "an instruction that the model does not know: " + statement.name;
      return;
    }
    Sums *sums = begunSums(operands, columns);
    if (!sums) {
      return;
    }
    if (isFloat8) {
      Codes a = codes(scalar(operands[1]), kRows), b = codes(scalar(operands[2]), columns);
      // Two products for each unit of 16 bits.
      for (unsigned byte = 0; byte < 2; ++byte) {
        add(*sums, a[byte], b[byte], columns);
      }
      return;
    }
    std::vector<float> a = inRegisters
                               ? lanesOf(registersOf(operands[1]), isBrain)
                               : tile(scalar(operands[1]), kRows, operands[6] == "1", isBrain);
    std::vector<float> b = tile(scalar(operands[2]), columns, operands.back() == "1", isBrain);
    add(*sums, a, b, columns);
  }

  /// Sums of integers, in the places of floats.
  void multiplyBytes(llvm::ArrayRef<std::string> operands, unsigned columns, bool isUnsigned) {
    Sums *sums = begunSums(operands, columns);
    if (!sums) {
      return;
    }
    std::vector<uint16_t> a = bitsOfTile(scalar(operands[1]), kRows, /*isTransposed=*/false);
    std::vector<uint16_t> b = bitsOfTile(scalar(operands[2]), columns, /*isTransposed=*/false);
    auto number = [](uint16_t both, unsigned byte, bool isUnsigned) -> int32_t {
      uint8_t bits = static_cast<uint8_t>(both >> 8 * byte);
      return isUnsigned ? bits : static_cast<int8_t>(bits);
    };
    for (unsigned row = 0; row < kRows && fault.empty(); ++row) {
      for (unsigned column = 0; column < columns; ++column) {
        int32_t sum;
        memcpy(&sum, &sums->values[row * columns + column], sizeof sum);
        for (unsigned k = 0; k < kDepth; ++k) {
          for (unsigned byte = 0; byte < 2; ++byte) {
            sum += number(a[k * kRows + row], byte, isUnsigned) *
                   number(b[k * columns + column], byte, false);
          }
        }
        memcpy(&sums->values[row * columns + column], &sum, sizeof sum);
      }
    }
  }

  void add(Sums &sums, const std::vector<float> &a, const std::vector<float> &b, unsigned columns) {
    for (unsigned row = 0; row < kRows && fault.empty(); ++row) {
      for (unsigned k = 0; k < kDepth; ++k) {
        for (unsigned column = 0; column < columns; ++column) {
          sums.values[row * columns + column] += a[k * kRows + row] * b[k * columns + column];
        }
      }
    }
  }

  /// What the registers hold, or zeros for a fresh sum.
  Sums &sumsOf(const std::vector<unsigned> &registers, unsigned columns, bool isAddedTo) {
    auto known = made.find(registers.front());
    Sums &sums = made[registers.front()];
    if (known == made.end() || !isAddedTo) {
      sums.columns = columns;
      sums.values.assign(kRows * columns, 0);
    }
    for (unsigned i = 0; known == made.end() && i < registers.size(); ++i) {
      fault = registers[i] == registers[0] + i ? fault : "sums in registers out of order";
      if (!isAddedTo) {
        continue;
      }
      const Input *from = inputOf(registers[i]);
      fault = from ? fault : "sums that are added to but not taken in";
      for (unsigned lane = 0; from && lane < kWarpgroupSize; ++lane) {
        uint32_t bits = valueOf(bitsOf(lane, *from), lane, i, /*isDone=*/false);
        memcpy(&sums.values[placeOf(lane, i, columns)], &bits, 4);
      }
    }
    return sums;
  }

  const Input *inputOf(unsigned output) const {
    for (const Input &from : piece.inputs) {
      if (from.tied == output) {
        return &from;
      }
    }
    return nullptr;
  }

  uint32_t bitsOf(unsigned lane, const Input &from) const {
    uint32_t bits;
    memcpy(&bits, static_cast<const char *>(lanes(lane).arguments) + from.offset, 4);
    return bits;
  }

  /// What a token stands for, if it need not be `isDone` or is; everything else stands for itself.
  /// `expected` is the number of the float that the token must be of, if given.
  uint32_t valueOf(uint32_t bits, unsigned lane, std::optional<unsigned> expected, bool isDone) {
    auto set = model.sets.find(bits >> 8 & kMaxSets);
    if ((bits & kToken) != kToken || set == model.sets.end() ||
        (isDone && set->second.group >= model.finished)) {
      return bits;
    }
    unsigned i = bits & 0xff;
    if (expected && i != *expected) {
      fault = "sums that changed their places before they were waited for";
      return bits;
    }
    uint32_t value;
    memcpy(&value, &set->second.values[placeOf(lane, i, set->second.columns)], 4);
    return value;
  }

  /// A [depth][64] of the words in registers.
  std::vector<float> lanesOf(const std::vector<unsigned> &words, bool isBrain) {
    std::vector<float> a(kDepth * kRows);
    for (unsigned lane = 0; lane < kWarpgroupSize; ++lane) {
      for (unsigned i = 0; i < 8; ++i) {
        unsigned row = lane / 32 * 16 + lane % 32 / 4 + i / 2 % 2 * 8;
        unsigned k = lane % 4 * 2 + i / 4 * 8 + i % 2;
        uint16_t bits = input(lane, words[i / 2]) >> i % 2 * 16;
        a[k * kRows + row] = fromHalf(bits, isBrain);
      }
    }
    return a;
  }

  /// As `tile` of one stored [extent][depth], of the lower and of the upper bytes of its elements.
  using Codes = std::array<std::vector<float>, 2>;
  Codes codes(uint64_t descriptor, unsigned extent) {
    Codes numbers;
    std::vector<uint16_t> bits = bitsOfTile(descriptor, extent, /*isTransposed=*/false);
    for (uint16_t both : bits) {
      for (unsigned byte = 0; byte < 2; ++byte) {
        uint8_t code = static_cast<uint8_t>(both >> 8 * byte);
        numbers[byte].push_back(static_cast<float>(reference::lowBitNumber(DType::F8E4M3FN, code)));
      }
    }
    return numbers;
  }

  /// [depth][extent] of a tile that is stored [extent][depth], or as it is if transposed.
  std::vector<float> tile(uint64_t descriptor, unsigned extent, bool isTransposed, bool isBrain) {
    std::vector<float> elements;
    for (uint16_t bits : bitsOfTile(descriptor, extent, isTransposed)) {
      elements.push_back(fromHalf(bits, isBrain));
    }
    return elements;
  }

  std::vector<uint16_t> bitsOfTile(uint64_t descriptor, unsigned extent, bool isTransposed) {
    Read read{.descriptor = descriptor,
              .rows = isTransposed ? kDepth : extent,
              .columns = isTransposed ? extent : kDepth,
              .group = model.committed};
    std::vector<uint16_t> elements(kDepth * extent);
    std::string wrong = faultOf(descriptor);
    if (!wrong.empty()) {
      fault = fault.empty() ? wrong : fault;
      return elements;
    }
    for (unsigned i = 0; i < extent; ++i) {
      for (unsigned k = 0; k < kDepth; ++k) {
        elements[k * extent + i] = isTransposed ? elementAt(shared, descriptor, k, i)
                                                : elementAt(shared, descriptor, i, k);
      }
    }
    read.digest = digestOf(read);
    model.reads.push_back(read);
    return elements;
  }

  void giveOutputs() {
    std::vector<bool> isGiven(piece.outputs);
    for (auto &[first, sums] : made) {
      bool isDone = sums.group < model.finished;
      model.isFenced &= !isDone;
      uint32_t set = model.nextSet++ % kMaxSets;
      for (unsigned i = 0; i < sums.columns / 2; ++i) {
        isGiven[first + i] = true;
        for (unsigned lane = 0; lane < kWarpgroupSize; ++lane) {
          float *to = static_cast<float *>(lanes(lane).result) + first + i;
          uint32_t token = tokenOf(set, i);
          memcpy(to, isDone ? (void *)&sums.values[placeOf(lane, i, sums.columns)] : &token, 4);
        }
      }
      if (!isDone) {
        model.sets[set] = std::move(sums);
        model.sets.erase((set + kMaxSets - kKeptSets) % kMaxSets);
      }
    }
    for (unsigned output = 0; output < piece.outputs; ++output) {
      if (!isGiven[output]) {
        passThrough(output);
      }
    }
  }

  void passThrough(unsigned output) {
    const Input *from = inputOf(output);
    fault = from ? fault : "an output that nothing is written to: $" + std::to_string(output);
    for (unsigned lane = 0; from && lane < kWarpgroupSize; ++lane) {
      uint32_t bits = bitsOf(lane, *from), value = valueOf(bits, lane, std::nullopt, true);
      model.isFenced &= value == bits;
      memcpy(static_cast<float *>(lanes(lane).result) + output, &value, 4);
    }
  }

  WarpgroupModel &model;
  const Piece &piece;
  const char *shared;
  Lanes lanes;
  std::map<std::string, uint64_t> names;
  std::map<unsigned, Sums> made; ///< by first register
  std::string fault;
};

std::string WarpgroupModel::run(const std::string &assembly, const char *shared, Lanes lanes) {
  return PieceRun(*this, pieceOf(assembly), shared, lanes).run();
}

std::string WarpgroupModel::endFault() const {
  return reads.empty() ? "" : "a product that is not waited for";
}

} // namespace tenon::codegen::cuda
