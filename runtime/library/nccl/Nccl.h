// Collectives of a group of GPUs by NCCL: for messages that are long, and where a GPU cannot reach
// the memory of another. Relies on the caller for the current context.

#pragma once

#include "runtime/library/nccl/NcclApi.h"
#include "support/DType.h"

#include <memory>
#include <span>
#include <vector>

namespace tenon::library::nccl {

/// One rank of a group. Used by one thread at a time; every rank calls the same functions in the
/// same order, each on its own GPU.
class Communicator {
public:
  /// One for each GPU (by its number), in their order. Takes seconds. LibraryMissing names the
  /// package where there is no NCCL, LibraryFailed says what it refused.
  static Result<std::vector<std::unique_ptr<Communicator>>> openAll(std::span<const int> ordinals,
                                                                    const std::string &folder = "");
  ~Communicator();
  Communicator(const Communicator &) = delete;
  Communicator &operator=(const Communicator &) = delete;

  /// Puts the sum of `count` elements of each rank on `stream` (a CUstream); `to` may be `from`.
  /// F32, F16, BF16 or F64. A capturing stream may be given when a call of this size came before.
  Status allReduce(const void *from, void *to, size_t count, DType type, void *stream);
  /// `bytes` of each rank, one rank's behind the other's.
  Status allGather(const void *from, void *to, size_t bytes, void *stream);

private:
  Communicator(const Api &functions, Comm *handle) : api(functions), comm(handle) {}
  Status check(int code, const char *doing) const;

  Api api;
  Comm *comm;
};

} // namespace tenon::library::nccl
