// Times several runs in a row behind a long write, so that the host is ahead of the GPU and what is
// measured is the GPU's work, not the launching.

#include "runtime/device/cuda/CudaMeter.h"

#include <algorithm>
#include <limits>

namespace tenon::runtime::cuda {
namespace {

constexpr uint64_t kMeterLeadBytes = uint64_t(128) << 20;
constexpr unsigned kMeasurements = 3;
constexpr unsigned kRunsInARow = 8;
constexpr const char *kMeasuring = "measuring a library call";

} // namespace

CudaMeter::CudaMeter(std::shared_ptr<const CudaDevice> owner)
    : device(std::move(owner)), stream(device), start(device), end(device),
      lead(device, MemoryKind::Device) {}

Result<std::unique_ptr<CudaMeter>> CudaMeter::create(std::shared_ptr<const CudaDevice> device) {
  std::unique_ptr<CudaMeter> meter(new CudaMeter(std::move(device)));
  TENON_TRY(meter->stream.open());
  TENON_TRY(meter->start.open(kEventWithTiming));
  TENON_TRY(meter->end.open(kEventWithTiming));
  TENON_TRY(meter->lead.reserve(kMeterLeadBytes, "measuring"));
  return meter;
}

uint64_t CudaMeter::bytes() const {
  uint64_t total = lead.size();
  for (const CudaBuffer &block : blocks) {
    total += block.size();
  }
  return total;
}

Result<void *> CudaMeter::allocate(size_t bytes) {
  CudaBuffer &block = blocks.emplace_back(device, MemoryKind::Device);
  TENON_TRY(block.reserve(bytes, "measuring"));
  return static_cast<void *>(block.data());
}

Result<double> CudaMeter::seconds(const std::function<Status(void *stream, unsigned round)> &work) {
  const CudaDriver &driver = device->driver();
  double least = std::numeric_limits<double>::infinity();
  unsigned round = 0;
  // The first run loads code.
  TENON_TRY(work(stream.handle(), round++));
  for (unsigned i = 0; i < kMeasurements; ++i) {
    TENON_TRY(driver.check(driver.memsetD8Async(lead.pointer(), 0, lead.size(), stream.handle()),
                           kMeasuring));
    TENON_TRY(start.record(stream.handle(), kMeasuring));
    for (unsigned run = 0; run < kRunsInARow; ++run) {
      TENON_TRY(work(stream.handle(), round++));
    }
    TENON_TRY(end.record(stream.handle(), kMeasuring));
    TENON_TRY(stream.wait(kMeasuring));
    TENON_ASSIGN(double seconds, CudaEvent::secondsBetween(start, end));
    least = std::min(least, seconds / kRunsInARow);
  }
  return least;
}

} // namespace tenon::runtime::cuda
