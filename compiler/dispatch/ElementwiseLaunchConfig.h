// How an elementwise kernel of a GPU shares elements out among threads: codegen lays kernels out by
// it, the cost model counts their registers by it.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>

namespace tenon::dispatch {

/// What the sharing depends on.
struct ElementwiseInfo {
  int64_t widest = 1; ///< bytes of an element of the widest result
  /// Elements of a result, or a guess of it; and their number if it is known.
  int64_t estimate = 1;
  std::optional<int64_t> count;
  /// Elements that lie in a row in every tensor: all, or those of the last dim; none if unknown.
  std::optional<int64_t> along;
  /// Whether every tensor is read at the place of the result, so that strips may be anywhere.
  bool isFlat = false;
  /// Whether a strip would only lengthen a thread's work.
  bool isSingle = false;
  /// Tensors that are read or written.
  int64_t tensors = 1;
};

/// A thread has `strips` strips of `lanes` neighbouring elements.
struct ElementwiseLaunchConfig {
  int64_t lanes = 1;
  int64_t strips = 1;
  int64_t threads = 1; ///< of a block
};

inline constexpr int64_t kAccessBytes = 16, kMaxLanes = 8;
/// Threads that fill a GPU: a smaller tensor gets narrower strips instead.
inline constexpr int64_t kEnoughThreads = 16384;
inline constexpr int64_t kBlockThreads = 256, kFewBlockThreads = 128;
/// Strips of one thread where the tensor is so large that waves of blocks follow each other.
inline constexpr int64_t kStripsOfThread = 2, kLargeBytes = int64_t(8) << 20;
/// Tensors beyond which one strip of each is enough on its way (sums and products of 8 to 64
/// tensors on an H200: 3.96 to 4.05 TB/s with one, 3.92 to 4.03 with two, 0.87 where two did not
/// fit).
inline constexpr int64_t kMaxDoubled = 7;

/// With blocks of `threads`, or (0) of as many as suit the tensors.
inline ElementwiseLaunchConfig elementwiseLaunchConfig(const ElementwiseInfo &info,
                                                       int64_t threads = 0) {
  ElementwiseLaunchConfig config;
  config.lanes = std::min(kAccessBytes / info.widest, kMaxLanes);
  while (config.lanes > 1 && (info.isSingle || !info.along || *info.along % config.lanes != 0 ||
                              info.estimate / config.lanes < kEnoughThreads)) {
    config.lanes /= 2;
  }
  bool isSmall = info.estimate / config.lanes < kEnoughThreads * 2;
  config.threads = threads ? threads : isSmall ? kFewBlockThreads : kBlockThreads;
  int64_t perBlock = config.lanes * config.threads * kStripsOfThread;
  bool isLarge = info.isFlat && info.count && *info.count * info.widest >= kLargeBytes;
  if (isLarge && info.tensors <= kMaxDoubled && *info.count % perBlock == 0) {
    config.strips = kStripsOfThread;
  }
  return config;
}

} // namespace tenon::dispatch
