// Memory that is new costs the kernel more than the copy into it, so several threads read.

#include "server/worker/EngineImage.h"

#include "runtime/core/Engine.h"
#include "support/threads/ThreadPool.h"

#include <algorithm>
#include <cerrno>
#include <system_error>
#include <vector>

#include <sys/stat.h>
#include <unistd.h>

namespace tenon::server {
namespace {

constexpr uint64_t kPartBytes = uint64_t(4) << 20;

Status readPart(int file, uint64_t at, MutableBytes out) {
  while (!out.empty()) {
    ssize_t bytes = pread(file, out.data(), out.size(), static_cast<off_t>(at));
    if (bytes < 0 && errno == EINTR) {
      continue;
    }
    if (bytes <= 0) {
      return Status::error(ErrorId::FileReadFailed, "the engine file cannot be read to its end");
    }
    out = out.subspan(static_cast<size_t>(bytes));
    at += static_cast<uint64_t>(bytes);
  }
  return Status::ok();
}

} // namespace

Result<AlignedBuffer> readImage(int file) {
  struct stat info = {};
  if (fstat(file, &info) != 0 || !S_ISREG(info.st_mode)) {
    return Status::error(ErrorId::FileNotRegular, "the engine is not a regular file");
  }
  TENON_ASSIGN(AlignedBuffer image, AlignedBuffer::create(static_cast<uint64_t>(info.st_size)));
  uint64_t parts = (image.size() + kPartBytes - 1) / kPartBytes;
  TENON_ASSIGN(std::unique_ptr<ThreadPool> pool,
               ThreadPool::create(std::clamp(static_cast<unsigned>(parts), 1u, usableCpus())));
  std::vector<Status> results(parts);
  pool->parallelFor(static_cast<int64_t>(parts), [&](int64_t begin, int64_t end, unsigned) {
    for (uint64_t i = static_cast<uint64_t>(begin); i < static_cast<uint64_t>(end); ++i) {
      uint64_t at = i * kPartBytes;
      uint64_t bytes = std::min(kPartBytes, image.size() - at);
      results[i] = readPart(file, at, image.bytes().subspan(at, bytes));
    }
  });
  for (Status &result : results) {
    TENON_TRY(std::move(result));
  }
  return image;
}

EarlyGpu::EarlyGpu(bool isWanted) {
  try {
    opening = isWanted ? std::thread([this] { open(); }) : std::thread();
  } catch (const std::system_error &) { // then the engine opens it
  }
}

EarlyGpu::~EarlyGpu() {
  if (opening.joinable()) {
    opening.join();
  }
}

void EarlyGpu::open() {
  runtime::EngineOptions usual; // those of an engine that is opened without options
  Result<std::shared_ptr<const runtime::cuda::CudaDevice>> opened =
      runtime::cuda::CudaDevice::open(usual.cudaLibrary, usual.gpu);
  if (opened.isOk()) {
    device = std::move(*opened);
  }
}

} // namespace tenon::server
