// Copies the weights that the plan uses through two page-locked pieces: one is filled, by a few
// threads, while the other is copied.

#include "runtime/device/cuda/CudaVariant.h"

#include "runtime/device/cuda/CudaExecutor.h"
#include "runtime/device/cuda/CudaPlanPart.h"
#include "runtime/device/cuda/CudaStream.h"
#include "support/Text.h"
#include "support/ThreadPool.h"

#include <algorithm>
#include <array>
#include <cstring>

namespace tenon::runtime::cuda {
namespace {

constexpr uint64_t kPieceBytes = uint64_t(8) << 20;
/// What a thread copies at once, and how many there are: one does not keep up with the bus.
constexpr uint64_t kBlockBytes = uint64_t(256) << 10;
constexpr unsigned kThreads = 4;

/// Sends bytes to the GPU in pieces, in order.
class Uploader {
public:
  explicit Uploader(const std::shared_ptr<const CudaDevice> &device)
      : driver(device->driver()), stream(device), pieces{Piece(device), Piece(device)} {}

  /// At most `bytes` will be sent at once.
  Status open(uint64_t bytes) {
    TENON_ASSIGN(threads, ThreadPool::create(std::min(usableCpus(), kThreads)));
    TENON_TRY(stream.open());
    for (Piece &piece : pieces) {
      TENON_TRY(piece.memory.reserve(std::min(bytes, kPieceBytes), "the upload of weights"));
      TENON_TRY(piece.sent.open(kEventNoTiming));
    }
    return Status::ok();
  }

  Status send(DevicePointer to, Bytes bytes) {
    while (!bytes.empty()) {
      Piece &piece = pieces[next];
      next = 1 - next;
      size_t count = std::min<size_t>(bytes.size(), piece.memory.size());
      TENON_TRY(piece.sent.wait("uploading weights"));
      copy(piece.memory.data(), bytes.first(count));
      TENON_TRY(
          driver.check(driver.memcpyHtoDAsync(to, piece.memory.data(), count, stream.handle()),
                       "uploading weights"));
      TENON_TRY(piece.sent.record(stream.handle(), "uploading weights"));
      to += count;
      bytes = bytes.subspan(count);
    }
    return Status::ok();
  }

  Status finish() { return stream.wait("uploading weights"); }

private:
  struct Piece {
    explicit Piece(const std::shared_ptr<const CudaDevice> &device)
        : memory(device, MemoryKind::Pinned), sent(device) {}
    CudaBuffer memory;
    CudaEvent sent;
  };

  void copy(std::byte *to, Bytes from) {
    int64_t blocks = static_cast<int64_t>((from.size() + kBlockBytes - 1) / kBlockBytes);
    threads->parallelFor(blocks, [&](int64_t begin, int64_t end, unsigned) {
      size_t first = static_cast<size_t>(begin) * kBlockBytes;
      size_t last = std::min<size_t>(static_cast<size_t>(end) * kBlockBytes, from.size());
      std::memcpy(to + first, from.data() + first, last - first);
    });
  }

  const CudaDriver &driver;
  std::unique_ptr<ThreadPool> threads;
  CudaStream stream;
  std::array<Piece, 2> pieces;
  size_t next = 0;
};

} // namespace

CudaVariant::CudaVariant(std::shared_ptr<const CudaDevice> device, const engine::EngineFile &file,
                         size_t variantIndex, std::string cacheFolder)
    : cudaDevice(std::move(device)), engineFile(file), index(variantIndex),
      folder(std::move(cacheFolder)), weights(cudaDevice, MemoryKind::Device) {}

Result<std::unique_ptr<LoadedVariant>> CudaVariant::load(std::shared_ptr<const CudaDevice> device,
                                                         const engine::EngineFile &file,
                                                         size_t index, const CubinCache &cache,
                                                         std::unique_ptr<EarlyLibraries> libraries) {
  ContextScope scope(*device);
  std::unique_ptr<CudaVariant> variant(
      new CudaVariant(std::move(device), file, index, cache.folder()));
  if (libraries) {
    libraries->begin(variant->cudaDevice, variant->plan(), variant->libraryOptions());
    variant->early = std::move(libraries);
  }
  const engine::Variant &stored = file.variants()[index];
  GpuCode code = {file.code(index), file.cubin(index),
                  engine::parseCudaArch(stored.level).value_or(engine::CudaArch())};
  TENON_ASSIGN(variant->code,
               CudaModule::load(variant->cudaDevice, code, stored.kernels, cache));
  TENON_TRY(variant->uploadWeights());
  return std::unique_ptr<LoadedVariant>(std::move(variant));
}

library::Options CudaVariant::libraryOptions() const {
  library::Options options;
  options.workspaceLimit = kWorkspaceBytes;
  options.cacheFolder = folder;
  options.device = strCat(cudaDevice->facts().name, ", sm_", cudaDevice->facts().capability,
                          ", driver ", cudaDevice->driver().version());
  return options;
}

void CudaVariant::waitForLibraries() const {
  std::lock_guard<std::mutex> lock(mutex);
  if (early) {
    early->finish();
  }
}

Status CudaVariant::uploadWeights() {
  std::span<const engine::Weight> stored = engineFile.weights();
  std::vector<uint32_t> used;
  for (const engine::Buffer &buffer : plan().buffers) {
    if (isRootOf(buffer, engine::Space::Const)) {
      used.push_back(buffer.weight);
    }
  }
  std::ranges::sort(used);
  used.erase(std::ranges::unique(used).begin(), used.end());
  offsets.assign(stored.size(), 0);
  uint64_t total = 0;
  uint64_t largest = 0;
  for (uint32_t weight : used) {
    offsets[weight] = total;
    constexpr uint64_t unit = kDeviceAlignment;
    total += (stored[weight].bytes + unit - 1) / unit * unit;
    largest = std::max(largest, stored[weight].bytes);
  }
  if (used.empty()) {
    return Status::ok();
  }
  TENON_TRY(weights.reserve(total + kSlackBytes, "weights"));
  if (total == 0) {
    return Status::ok();
  }
  Uploader uploader(cudaDevice);
  TENON_TRY(uploader.open(largest));
  for (uint32_t weight : used) {
    TENON_TRY(uploader.send(
        weights.pointer() + offsets[weight],
        engineFile.weightsSection().subspan(stored[weight].offset, stored[weight].bytes)));
  }
  return uploader.finish();
}

Result<std::unique_ptr<Executor>> CudaVariant::createExecutor(const SessionOptions &options) const {
  return CudaExecutor::create(*this, options);
}

} // namespace tenon::runtime::cuda
