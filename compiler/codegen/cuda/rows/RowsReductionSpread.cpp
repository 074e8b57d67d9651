// Neighbouring threads read neighbouring elements, and there are blocks enough to fill a GPU.
// Relies on the kernels of RowsReduction.cpp.
#include "compiler/codegen/cuda/rows/RowsReductionSpread.h"

#include "llvm/Support/MathExtras.h"

#include <algorithm>
#include <numeric>

namespace tenon::codegen::cuda {
namespace {

constexpr int64_t kSpreadAccessBytes = 16, kWidth = 32;
using tuning::kFewSteps;
using tuning::kManyBlocks;

} // namespace

Spread spreadOut(const SpreadInfo &info) {
  Spread spread;
  int64_t lanes = std::gcd(kSpreadAccessBytes / info.elementBytes, info.multiple);
  if (info.isInnerReduced) {
    spread.steps = lanes;
    int64_t threads = llvm::PowerOf2Ceil(llvm::divideCeil(info.steps, lanes));
    spread.height = std::clamp(threads, kWidth, kSpreadThreads);
  } else {
    spread.lanes = lanes;
    int64_t strips = llvm::divideCeil(info.results, lanes);
    spread.width = std::min<int64_t>(kWidth, llvm::PowerOf2Ceil(strips));
    while (strips / spread.width < kManyBlocks &&
           spread.width * lanes * info.elementBytes > tuning::kLine &&
           info.steps / (kSpreadThreads / spread.width) > kFewSteps) {
      spread.width /= 2;
    }
    spread.height = kSpreadThreads / spread.width;
  }
  int64_t blocks = llvm::divideCeil(info.results, spread.lanes * spread.width);
  int64_t strips = llvm::divideCeil(info.steps, spread.steps * spread.height);
  int64_t reading = tuning::kReadingBlocks * info.processors;
  if (blocks < kManyBlocks || (blocks < reading && strips >= tuning::kLongStrips)) {
    int64_t most = info.steps / (spread.steps * spread.height * kFewSteps);
    int64_t enough = tuning::kFillingBlocks * info.processors;
    spread.parts = std::clamp<int64_t>(std::min(enough / blocks, most), 1, tuning::kMaxParts);
  }
  return spread;
}

} // namespace tenon::codegen::cuda
