// The GPUs of a group, one for each rank of a session: memory that they share, kernels that work on
// it at the same time, and NCCL for what those do not take. Relies on engine/CollectiveAbi.h.

#pragma once

#include "engine/CollectiveAbi.h"
#include "engine/Plan.h"
#include "runtime/device/cuda/CudaMemory.h"
#include "runtime/library/nccl/Nccl.h"
#include "support/Result.h"

#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

namespace tenon::runtime::cuda {

/// How a collective is done.
enum class CollectiveWay : uint8_t { OneShot, TwoShot, Library };

/// What a rank asks of the others; `count` elements of `from`.
struct CollectiveCall {
  engine::CollectiveKind kind = engine::CollectiveKind::AllReduce;
  DType type = DType::F32;
  void *from = nullptr;
  void *to = nullptr;
  int64_t count = 0;

  int64_t bytes() const { return count * int64_t(bitWidth(type) / 8); }
};

/// "tenon_all_reduce_one_bf16_2"; empty where a kernel takes no such call.
std::string kernelFor(CollectiveWay way, engine::CollectiveKind kind, DType type, size_t ranks);
/// The way with own kernels; Library where they do not take such a message.
CollectiveWay wayFor(const CollectiveCall &call);
/// Whether NCCL is faster than own kernels, in pieces, for a message that long.
bool isLong(const CollectiveCall &call);
/// Of an own all-reduce in one piece.
inline constexpr int64_t kLongestMessage = int64_t(16) << 20;

/// Held while ranks run: kernels of two sessions that wait for other GPUs could keep each other
/// from the processors that they need.
std::mutex &runsOfGroups();

class CudaGroup {
public:
  /// `devices` by rank, all different and alike. Where one cannot reach the memory of another,
  /// there is NCCL only.
  static Result<std::shared_ptr<CudaGroup>>
  open(std::vector<std::shared_ptr<const CudaDevice>> devices,
       int64_t longestMessage = kLongestMessage);

  size_t ranks() const { return members.size(); }
  /// Why GPUs do not share memory; ok where they do.
  const Status &peerProblem() const { return noPeers; }
  /// Opens NCCL for all ranks unless it is open; by one thread, while no rank uses the group.
  Status openLibrary(const std::string &folder);
  bool hasLibrary() const { return !libraries.empty(); }

  /// Puts a call on the stream of a rank, whose context is current; `kernel` is kernelFor's. A long
  /// message goes in pieces. By the thread of the rank. After a run, takeFailure says if a rank did
  /// not come.
  Status start(size_t rank, CollectiveWay way, FunctionHandle kernel, const CollectiveCall &call,
               StreamHandle stream, bool mayStartEarly);
  /// Starts a kernel with these buffers and the first size in front of the group's arguments.
  Status startKernel(size_t rank, FunctionHandle kernel, std::span<void *const> buffers,
                     int64_t count, unsigned blocks, unsigned threads, StreamHandle stream,
                     bool mayStartEarly, int64_t lastSize = 0);
  /// Of memory that a rank has for messages.
  uint64_t sharedBytes() const { return members.front().shared.size(); }
  /// The error of a rank that waited in vain; no later run of the group succeeds.
  Status takeFailure(size_t rank);

private:
  struct Member {
    std::shared_ptr<const CudaDevice> device;
    CudaBuffer shared;
    CudaBuffer status; ///< the host's: a word
  };
  CudaGroup() = default;
  Status reachPeers();
  Status share(int64_t longestMessage);

  std::vector<Member> members;
  int64_t longest = 0; ///< of two-shot messages in one piece
  std::vector<std::unique_ptr<library::nccl::Communicator>> libraries; ///< by rank, or none
  Status noPeers;
  int64_t partBytes = 0;
};

} // namespace tenon::runtime::cuda
