// Times what is put on a stream of a GPU: captured into a graph, so that no time of the host
// counts. Relies on runtime/device/cuda.

#pragma once

#include "runtime/device/cuda/CudaMemory.h"
#include "runtime/device/cuda/CudaStream.h"
#include "runtime/library/Library.h"

#include <functional>
#include <memory>
#include <vector>

namespace tenon::gpu {

class GraphTimer final : public library::Meter {
public:
  static Result<std::unique_ptr<GraphTimer>> open();
  ~GraphTimer() override;

  Result<void *> allocate(size_t bytes) override;
  Result<double> seconds(const std::function<Status(void *stream, unsigned round)> &work) override;

  /// Seconds of one of `rounds` calls, the median of launches of all of them.
  Result<double> seconds(unsigned rounds,
                         const std::function<Status(void *stream, unsigned round)> &work);
  Status upload(void *to, Bytes from);
  Status download(MutableBytes to, const void *from);
  Status wait();
  void *stream() const { return gpuStream.handle(); }
  /// Frees what was allocated.
  void release() { blocks.clear(); }
  const runtime::cuda::DeviceInfo &info() const { return device->info(); }

private:
  explicit GraphTimer(std::shared_ptr<const runtime::cuda::CudaDevice> opened)
      : device(opened), scope(*opened), gpuStream(opened), start(opened), end(opened) {}
  Result<runtime::cuda::GraphExecHandle>
  capture(unsigned rounds, const std::function<Status(void *stream, unsigned round)> &work);
  Result<double> timeLaunches(runtime::cuda::GraphExecHandle graph);

  std::shared_ptr<const runtime::cuda::CudaDevice> device;
  runtime::cuda::ContextScope scope;
  runtime::cuda::CudaStream gpuStream;
  runtime::cuda::CudaEvent start;
  runtime::cuda::CudaEvent end;
  std::vector<std::unique_ptr<runtime::cuda::CudaBuffer>> blocks;
};

} // namespace tenon::gpu
