// Checks each byte of a descriptor before it is taken for the structure: a bool or an enumeration
// of another value would not be one.

#include "engine/validate/ValidateCall.h"

#include "engine/LibraryAbi.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <initializer_list>

namespace tenon::engine {
namespace {

constexpr const char *kBadForm = "its descriptor has invalid values";
constexpr const char *kBadOperands = "it has the wrong number of buffers or sizes for its call";

/// Whether the bytes at all these offsets are at most `most`.
bool areAtMost(std::span<const std::byte> call, std::initializer_list<size_t> offsets,
               uint8_t most) {
  for (size_t offset : offsets) {
    if (static_cast<uint8_t>(call[offset]) > most) {
      return false;
    }
  }
  return true;
}

constexpr uint8_t kLastActivation = static_cast<uint8_t>(LibraryActivation::GeluTanh);

bool isType(std::byte value) { return isDType(static_cast<uint8_t>(value)); }

std::optional<std::string> checkOperands(const Instruction &instruction, size_t buffers,
                                         size_t sizes) {
  bool fits = instruction.buffers.size() == buffers && instruction.reads + 1 == buffers &&
              instruction.sizes.size() == sizes;
  return fits ? std::nullopt : std::optional<std::string>(kBadOperands);
}

std::optional<std::string> faultOfMatmul(const Instruction &instruction) {
  std::span<const std::byte> call = instruction.call;
  if (call.size() != sizeof(MatmulCall) || !isType(call[offsetof(MatmulCall, type)]) ||
      !areAtMost(call,
                 {offsetof(MatmulCall, transposeA), offsetof(MatmulCall, transposeB),
                  offsetof(MatmulCall, hasBias), offsetof(MatmulCall, hasResidual),
                  offsetof(MatmulCall, allowTf32)},
                 1) ||
      !areAtMost(call, {offsetof(MatmulCall, activation)}, kLastActivation)) {
    return kBadForm;
  }
  MatmulCall matmul;
  std::memcpy(&matmul, call.data(), sizeof(matmul));
  const MatmulHint &hint = matmul.hint;
  if (std::min({hint.version, hint.algorithm, hint.tile, hint.splitK, hint.leastRows}) < 0) {
    return kBadForm;
  }
  return checkOperands(instruction, size_t(3) + matmul.hasBias + matmul.hasResidual, kMatmulSizes);
}

std::optional<std::string> faultOfScaledMatmul(const Instruction &instruction) {
  std::span<const std::byte> call = instruction.call;
  if (call.size() != sizeof(ScaledMatmulCall) || !isType(call[offsetof(ScaledMatmulCall, type)]) ||
      !areAtMost(call,
                 {offsetof(ScaledMatmulCall, hasBias), offsetof(ScaledMatmulCall, hasResidual)},
                 1) ||
      !areAtMost(call, {offsetof(ScaledMatmulCall, activation)}, kLastActivation) ||
      !areAtMost(call, {offsetof(ScaledMatmulCall, proposal)}, kMaxProposals - 1)) {
    return kBadForm;
  }
  ScaledMatmulCall matmul;
  std::memcpy(&matmul, call.data(), sizeof(matmul));
  bool isZero = std::all_of(std::begin(matmul.reserved), std::end(matmul.reserved),
                            [](uint8_t byte) { return byte == 0; });
  if (!isZero || !std::isfinite(matmul.factor)) {
    return kBadForm;
  }
  return checkOperands(instruction, size_t(3) + matmul.hasBias + matmul.hasResidual,
                       kScaledMatmulSizes);
}

std::optional<std::string> faultOfConv(const Instruction &instruction) {
  std::span<const std::byte> call = instruction.call;
  if (call.size() != sizeof(ConvCall) || !isType(call[offsetof(ConvCall, type)]) ||
      !areAtMost(call,
                 {offsetof(ConvCall, hasBias), offsetof(ConvCall, hasResidual),
                  offsetof(ConvCall, allowTf32)},
                 1) ||
      !areAtMost(call, {offsetof(ConvCall, activation)}, kLastActivation) ||
      !areAtMost(call, {offsetof(ConvCall, proposal)}, kMaxProposals - 1)) {
    return kBadForm;
  }
  ConvCall conv;
  std::memcpy(&conv, call.data(), sizeof(conv));
  bool isSound = conv.reserved == 0 && conv.groups >= 1;
  for (int dim = 0; dim < 2; ++dim) {
    isSound &= conv.strides[dim] >= 1 && conv.dilations[dim] >= 1 && conv.padBefore[dim] >= 0 &&
               conv.padAfter[dim] >= 0;
  }
  if (!isSound) {
    return kBadForm;
  }
  return checkOperands(instruction, size_t(3) + conv.hasBias + conv.hasResidual, kConvSizes);
}

std::optional<std::string> faultOfAttention(const Instruction &instruction) {
  std::span<const std::byte> call = instruction.call;
  if (call.size() != sizeof(AttentionCall) || !isType(call[offsetof(AttentionCall, type)]) ||
      !areAtMost(call, {offsetof(AttentionCall, isCausal), offsetof(AttentionCall, hasMask)}, 1)) {
    return kBadForm;
  }
  AttentionCall attention;
  std::memcpy(&attention, call.data(), sizeof(attention));
  if (!std::isfinite(attention.scale)) {
    return kBadForm;
  }
  return checkOperands(instruction, size_t(4) + attention.hasMask, kAttentionSizes);
}

} // namespace

std::optional<std::string> faultOfCall(const Instruction &instruction) {
  if (!instruction.call.empty()) {
    switch (static_cast<LibraryOp>(instruction.call[0])) {
    case LibraryOp::Matmul:
      return faultOfMatmul(instruction);
    case LibraryOp::ScaledMatmul:
      return faultOfScaledMatmul(instruction);
    case LibraryOp::Conv:
      return faultOfConv(instruction);
    case LibraryOp::Attention:
      return faultOfAttention(instruction);
    }
  }
  return "its descriptor has an unknown kind";
}

} // namespace tenon::engine
