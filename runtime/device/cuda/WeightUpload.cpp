// Each of a few threads fills one of two page-locked pieces of its own while the other is sent.

#include "runtime/device/cuda/WeightUpload.h"

#include "runtime/device/cuda/CudaMemory.h"
#include "runtime/device/cuda/CudaStream.h"
#include "support/threads/ThreadPool.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <span>

namespace tenon::runtime::cuda {
namespace {

constexpr uint64_t kPieceBytes = uint64_t(1) << 20;
/// Threads: copying into page-locked memory is what takes the time. 2.4 GB took 124 ms by 4 of
/// them, 80 by 8, 74 to 86 by 16 on an H200's host.
constexpr size_t kMaxLanes = 8;
/// For which another thread is worth its memory: taking 2 MiB keeps the driver for 0.7 ms from the
/// libraries that are made ready at the same time.
constexpr size_t kLanePieces = 64;
constexpr const char *kUploading = "uploading weights";

} // namespace

/// What one thread works with.
class WeightUpload::Lane {
public:
  explicit Lane(const std::shared_ptr<const CudaDevice> &owner)
      : driver(owner->driver()), scope(*owner), memory(owner, MemoryKind::Pinned), stream(owner),
        sent{CudaEvent(owner), CudaEvent(owner)} {}

  Status send(std::span<const Piece> pieces) {
    TENON_TRY(memory.reserve(sent.size() * kPieceBytes, "the upload of weights"));
    TENON_TRY(stream.open());
    for (CudaEvent &event : sent) {
      TENON_TRY(event.open(kEventNoTiming));
    }
    for (size_t i = 0; i < pieces.size(); ++i) {
      const Piece &piece = pieces[i];
      CudaEvent &event = sent[i % sent.size()];
      std::byte *half = memory.data() + i % sent.size() * kPieceBytes;
      TENON_TRY(event.wait(kUploading));
      std::memcpy(half, piece.bytes.data(), piece.bytes.size());
      TENON_TRY(driver.check(
          driver.memcpyHtoDAsync(piece.to, half, piece.bytes.size(), stream.handle()), kUploading));
      TENON_TRY(event.record(stream.handle(), kUploading));
    }
    return stream.wait(kUploading);
  }

private:
  const CudaDriver &driver;
  ContextScope scope;
  CudaBuffer memory;
  CudaStream stream;
  std::array<CudaEvent, 2> sent;
};

void WeightUpload::add(DevicePointer to, Bytes bytes) {
  while (!bytes.empty()) {
    size_t count = std::min<size_t>(bytes.size(), kPieceBytes);
    pieces.push_back({to, bytes.first(count)});
    to += count;
    bytes = bytes.subspan(count);
  }
}

Status WeightUpload::send() {
  if (pieces.empty()) {
    return Status::ok();
  }
  size_t count = std::min({pieces.size() / kLanePieces + 1, size_t(usableCpus()), kMaxLanes});
  TENON_ASSIGN(std::unique_ptr<ThreadPool> threads,
               ThreadPool::create(static_cast<unsigned>(count)));
  std::vector<Status> results(count);
  threads->parallelFor(static_cast<int64_t>(pieces.size()),
                       [&](int64_t begin, int64_t end, unsigned thread) {
                         results[thread] = Lane(device).send(std::span(pieces).subspan(
                             static_cast<size_t>(begin), static_cast<size_t>(end - begin)));
                       });
  for (Status &result : results) {
    TENON_TRY(std::move(result));
  }
  return Status::ok();
}

} // namespace tenon::runtime::cuda
