// The library calls of a session, prepared for their sizes. Those of different libraries are
// prepared side by side: a library's first call takes longer than all that follow, and the other
// need not wait for it. Relies on Handles being used by one thread for each library.

#pragma once

#include "runtime/device/cuda/CudaMeter.h"
#include "runtime/device/cuda/CudaVariant.h"
#include "runtime/library/Library.h"

#include <map>
#include <memory>
#include <span>
#include <string>

namespace tenon::runtime::cuda {

/// A call with concrete sizes, and what came of preparing it.
struct LibraryCall {
  Bytes descriptor;
  std::span<const int64_t> sizes;
  int64_t alignment = 0;               ///< in bytes, of all buffers
  std::shared_ptr<library::Plan> plan; ///< null if there is none, for which `status` is the reason
  Status status;
};

/// One thread at a time.
class CudaCalls {
public:
  /// Algorithms are chosen by measuring them until that took `measureSeconds`.
  CudaCalls(const CudaVariant &variant, double measureSeconds);

  /// Fills in the plan or the status of each; fails if it could do neither.
  Status prepare(std::span<LibraryCall> calls);
  /// Held on the GPU for measuring.
  uint64_t bytes() const { return meter ? meter->bytes() : 0; }

private:
  Status open();
  void prepareNow(LibraryCall &call);

  const CudaVariant &variant;
  double measureSeconds;            ///< left
  std::unique_ptr<CudaMeter> meter; ///< if calls are measured
  std::unique_ptr<library::Handles> handles;
  /// By descriptor, sizes and alignment: plans share those that are equal.
  std::map<std::string, std::weak_ptr<library::Plan>> prepared;
};

} // namespace tenon::runtime::cuda
