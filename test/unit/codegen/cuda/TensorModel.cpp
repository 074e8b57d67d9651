// Products by the definitions of fragments, tiles and descriptors in the PTX manual, all lanes'
// parts at once.
#include "TensorModel.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <map>
#include <sstream>
#include <vector>

namespace tenon::codegen::cuda {

float fromHalf(uint16_t bits, bool isBrain) {
  uint32_t wide = uint32_t(bits) << 16;
  float value;
  if (isBrain) {
    memcpy(&value, &wide, 4);
    return value;
  }
  int exponent = bits >> 10 & 31, mantissa = bits & 1023;
  float magnitude = exponent == 0    ? std::ldexp(float(mantissa), -24)
                    : exponent == 31 ? (mantissa ? NAN : INFINITY)
                                     : std::ldexp(float(mantissa + 1024), exponent - 25);
  return bits >> 15 ? -magnitude : magnitude;
}

uint16_t toHalf(float value, bool isBrain) {
  uint32_t bits;
  memcpy(&bits, &value, 4);
  if (isBrain) {
    return std::isnan(value) ? 0x7fff : uint16_t((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
  }
  uint16_t sign = bits >> 16 & 0x8000;
  float magnitude = std::fabs(value);
  if (std::isnan(value)) {
    return 0x7fff;
  }
  if (magnitude >= 65520) {
    return sign | 0x7c00;
  }
  int exponent = magnitude == 0 ? -14 : std::max(std::ilogb(magnitude), -14);
  uint32_t units = uint32_t(std::nearbyint(std::ldexp(magnitude, 10 - exponent)));
  return sign | uint16_t((uint32_t(exponent + 14) << 10) + units);
}

/// Fragments as TensorCore.h and the manual (section mma.m16n8k16) have them.
void multiplyMatrices(Lanes lanes, bool isBrain) {
  struct Operands {
    uint16_t a[4][2], b[2][2];
    float c[4];
  };
  float a[16][16], b[16][8];
  for (unsigned lane = 0; lane < kWarpSize; ++lane) {
    const Operands &operands = *static_cast<const Operands *>(lanes(lane).arguments);
    unsigned group = lane / 4, pair = lane % 4 * 2;
    for (unsigned i = 0; i < 2; ++i) {
      for (unsigned word = 0; word < 4; ++word) {
        a[group + word % 2 * 8][pair + word / 2 * 8 + i] = fromHalf(operands.a[word][i], isBrain);
      }
      for (unsigned word = 0; word < 2; ++word) {
        b[pair + word * 8 + i][group] = fromHalf(operands.b[word][i], isBrain);
      }
    }
  }
  for (unsigned lane = 0; lane < kWarpSize; ++lane) {
    const Operands &operands = *static_cast<const Operands *>(lanes(lane).arguments);
    for (unsigned i = 0; i < 4; ++i) {
      unsigned row = lane / 4 + i / 2 * 8, column = lane % 4 * 2 + i % 2;
      float sum = operands.c[i];
      for (unsigned k = 0; k < 16; ++k) {
        sum += a[row][k] * b[k][column];
      }
      static_cast<float *>(lanes(lane).result)[i] = sum;
    }
  }
}

namespace {

constexpr unsigned kRows = 64, kColumns = 64, kDepth = 16,
                   kSums = kRows * kColumns / kWarpgroupSize;

/// Operands of the assembly in the order of its constraints: results, then arguments.
struct Operands {
  const std::vector<bool> &isWide; ///< of arguments: 8 bytes, else 4
  const char *arguments;

  uint64_t operator[](unsigned number) const {
    size_t at = 0;
    for (unsigned i = 0;; ++i) {
      size_t size = isWide[i] ? 8 : 4;
      at = (at + size - 1) / size * size;
      if (i + kSums == number) {
        uint64_t value = 0;
        memcpy(&value, arguments + at, size);
        return value;
      }
      at += size;
    }
  }
};

/// A tile of 64 elements a row behind a descriptor, in the swizzle of 128 bytes.
struct Tile {
  const char *shared;
  uint64_t descriptor;

  std::string fault() const {
    bool isSwizzled = descriptor >> 62 == 1, hasNoBase = (descriptor >> 49 & 7) == 0;
    bool hasDistance = (descriptor >> 32 & 0x3fff) == 1024 / 16;
    return isSwizzled && hasNoBase && hasDistance ? "" : "a descriptor of another kind of tile";
  }
  uint16_t at(unsigned row, unsigned column) const {
    uint64_t address = (descriptor & 0x3fff) * 16 + row / 8 * 1024 + row % 8 * 128 + column * 2;
    address ^= (address >> 7 & 7) << 4;
    uint16_t bits;
    memcpy(&bits, shared + address, 2);
    return bits;
  }
};

struct Step {
  bool isBrain = false, isFresh = false, isTransposed = false;
  unsigned firstWord = 0; ///< of A in registers, or 0
  uint64_t a = 0, b = 0;  ///< what is added to the descriptors
  unsigned aDescriptor = 0, bDescriptor = 0;
};

/// "$12" and a comma or not.
unsigned operandNumber(const std::string &text) {
  return std::stoul(text.substr(1 + text.find('$')));
}

/// The instructions that our products are made of; others are a fault.
std::string parse(const std::string &assembly, std::vector<Step> &steps) {
  std::istringstream lines(assembly);
  std::string line;
  Step step;
  bool isFenced = false, isCommitted = false, isFinished = false;
  while (std::getline(lines, line)) {
    std::istringstream words(line);
    std::string name, to, from, by;
    words >> name >> to >> from >> by;
    if (name == "add.s64") {
      (to == "a," ? step.a : step.b) = std::stoull(by);
      (to == "a," ? step.aDescriptor : step.bDescriptor) = operandNumber(from);
    } else if (name.rfind("wgmma.mma_async.sync.aligned.m64n64k16.f32.", 0) == 0) {
      std::string rest = line.substr(line.find('}') + 3);
      step.isBrain = name.find("bf16") != std::string::npos;
      step.isFresh = rest.find("fresh") != std::string::npos;
      bool inRegisters = rest[0] == '{';
      step.firstWord = inRegisters ? operandNumber(rest) : 0;
      step.isTransposed = rest[rest.size() - 2] == '1';
      if (!isFenced || isCommitted || line.find("{$0, $1,") == std::string::npos) {
        return "a product outside of its group, or of other sums";
      }
      steps.push_back(step);
    } else if (name == "wgmma.fence.sync.aligned;") {
      isFenced = true;
    } else if (name == "wgmma.commit_group.sync.aligned;") {
      isCommitted = true;
    } else if (name == "wgmma.wait_group.sync.aligned") {
      isFinished = isCommitted && to == "0;";
    } else if (name != "{" && name != "}" && name != ".reg" && name != "setp.ne.b32" &&
               name != "setp.eq.b32") {
      return "an instruction that the model does not know: " + line;
    }
  }
  return isFinished ? "" : "a product that is not waited for";
}

} // namespace

std::string multiplyInWarpgroup(const std::string &assembly, const char *shared, Lanes lanes) {
  std::vector<Step> steps;
  if (std::string fault = parse(assembly, steps); !fault.empty()) {
    return fault;
  }
  bool accumulates = !steps.front().isFresh;
  // Sums that are added to, words of A, descriptors.
  std::vector<bool> isWide(accumulates ? kSums + 4 * steps.size() : 0, false);
  isWide.insert(isWide.end(), accumulates ? 1 : 2, true);
  auto operands = [&](unsigned lane) {
    return Operands{isWide, static_cast<const char *>(lanes(lane).arguments)};
  };
  std::vector<std::array<float, kColumns>> sums(kRows);
  auto place = [](unsigned lane, unsigned i) {
    unsigned row = lane / 32 * 16 + lane % 32 / 4 + i / 2 % 2 * 8;
    return std::pair(row, i / 4 * 8 + lane % 4 * 2 + i % 2);
  };
  for (unsigned lane = 0; lane < kWarpgroupSize; ++lane) {
    for (unsigned i = 0; i < kSums; ++i) {
      auto [row, column] = place(lane, i);
      uint32_t bits = accumulates ? operands(lane)[kSums + i] : 0;
      memcpy(&sums[row][column], &bits, 4);
    }
  }
  for (const Step &step : steps) {
    float a[kRows][kDepth];
    Tile left{shared, step.firstWord ? 0 : operands(0)[step.aDescriptor] + step.a};
    Tile right{shared, operands(0)[step.bDescriptor] + step.b};
    if (std::string fault = right.fault() + (step.firstWord ? "" : left.fault()); !fault.empty()) {
      return fault;
    }
    for (unsigned lane = 0; lane < kWarpgroupSize; ++lane) {
      for (unsigned i = 0; i < 8; ++i) {
        unsigned row = lane / 32 * 16 + lane % 32 / 4 + i / 2 % 2 * 8;
        unsigned column = lane % 4 * 2 + i / 4 * 8 + i % 2;
        uint16_t bits = step.firstWord ? operands(lane)[step.firstWord + i / 2] >> i % 2 * 16
                                       : left.at(row, column);
        a[row][column] = fromHalf(bits, step.isBrain);
      }
    }
    for (unsigned k = 0; k < kDepth; ++k) {
      for (unsigned column = 0; column < kColumns; ++column) {
        float b =
            fromHalf(step.isTransposed ? right.at(k, column) : right.at(column, k), step.isBrain);
        for (unsigned row = 0; row < kRows; ++row) {
          sums[row][column] += a[row][k] * b;
        }
      }
    }
  }
  for (unsigned lane = 0; lane < kWarpgroupSize; ++lane) {
    for (unsigned i = 0; i < kSums; ++i) {
      auto [row, column] = place(lane, i);
      static_cast<float *>(lanes(lane).result)[i] = sums[row][column];
    }
  }
  return "";
}

} // namespace tenon::codegen::cuda
