// What tensor cores do for a warp (WarpgroupModel.h: for a warpgroup), and the 16-bit floats they
// do it with.
#pragma once

#include "llvm/ADT/STLFunctionalExtras.h"

#include <cstdint>
#include <string>

namespace tenon::codegen::cuda {

inline constexpr unsigned kWarpSize = 32, kWarpgroupSize = 128;

/// A lane's operands and result, laid out as structs.
struct Slot {
  void *result;
  const void *arguments;
};
using Lanes = llvm::function_ref<Slot &(unsigned)>;

/// A float16, or a bfloat16 if `isBrain`, and back, rounded to nearest.
float fromHalf(uint16_t bits, bool isBrain);
uint16_t toHalf(float value, bool isBrain);

/// mma.m16n8k16.
void multiplyMatrices(Lanes lanes, bool isBrain);
/// The same of bytes (A is uint8_t or int8_t) by signed ones, of twice the depth.
template <typename A> void multiplyBytes(Lanes lanes);

} // namespace tenon::codegen::cuda
