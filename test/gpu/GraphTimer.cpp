// One graph of all rounds, launched a few times between two events. Relies on launches being
// longer than the clock of events is coarse (0.5 µs).

#include "GraphTimer.h"

#include <algorithm>

namespace tenon::gpu {

using namespace runtime::cuda;

namespace {

constexpr unsigned kRoundsOfMeter = 32;
constexpr unsigned kLaunches = 7;

} // namespace

Result<std::unique_ptr<GraphTimer>> GraphTimer::open() {
  TENON_ASSIGN(std::shared_ptr<const CudaDevice> device, CudaDevice::open(kDriverLibrary, 0));
  std::unique_ptr<GraphTimer> timer(new GraphTimer(device));
  TENON_TRY(timer->gpuStream.open());
  TENON_TRY(timer->start.open(kEventWithTiming));
  TENON_TRY(timer->end.open(kEventWithTiming));
  return timer;
}

GraphTimer::~GraphTimer() { release(); }

Result<void *> GraphTimer::allocate(size_t bytes) {
  std::unique_ptr<CudaBuffer> block = std::make_unique<CudaBuffer>(device, MemoryKind::Device);
  TENON_TRY(block->reserve(std::max<size_t>(bytes, 256), "a check of libraries"));
  blocks.push_back(std::move(block));
  return static_cast<void *>(blocks.back()->data());
}

Status GraphTimer::upload(void *to, Bytes from) {
  const CudaDriver &driver = device->driver();
  TENON_TRY(driver.check(driver.memcpyHtoDAsync(reinterpret_cast<DevicePointer>(to), from.data(),
                                                from.size(), gpuStream.handle()),
                         "copying to the GPU"));
  return wait();
}

Status GraphTimer::download(MutableBytes to, const void *from) {
  const CudaDriver &driver = device->driver();
  TENON_TRY(driver.check(driver.memcpyDtoHAsync(to.data(), reinterpret_cast<DevicePointer>(from),
                                                to.size(), gpuStream.handle()),
                         "copying from the GPU"));
  return wait();
}

Status GraphTimer::wait() { return gpuStream.wait("waiting for the GPU"); }

Result<GraphExecHandle>
GraphTimer::capture(unsigned rounds,
                    const std::function<Status(void *stream, unsigned round)> &work) {
  const CudaDriver &driver = device->driver();
  TENON_TRY(driver.check(driver.streamBeginCapture(gpuStream.handle(), kCaptureThreadLocal),
                         "starting a capture"));
  Status status;
  for (unsigned round = 0; round < rounds && status; ++round) {
    status = work(gpuStream.handle(), round);
  }
  GraphHandle graph = nullptr;
  Status ended =
      driver.check(driver.streamEndCapture(gpuStream.handle(), &graph), "ending a capture");
  TENON_TRY(status);
  TENON_TRY(ended);
  GraphExecHandle exec = nullptr;
  Status made = driver.check(driver.graphInstantiate(&exec, graph, 0), "making a graph");
  driver.graphDestroy(graph);
  TENON_TRY(made);
  return exec;
}

Result<double> GraphTimer::timeLaunches(GraphExecHandle graph) {
  const CudaDriver &driver = device->driver();
  std::vector<double> times;
  for (unsigned launch = 0; launch <= kLaunches; ++launch) {
    TENON_TRY(start.record(gpuStream.handle(), "timing"));
    TENON_TRY(driver.check(driver.graphLaunch(graph, gpuStream.handle()), "launching a graph"));
    TENON_TRY(end.record(gpuStream.handle(), "timing"));
    TENON_TRY(wait());
    TENON_ASSIGN(double seconds, CudaEvent::secondsBetween(start, end));
    times.push_back(seconds);
  }
  times.erase(times.begin()); // the first launch also uploads the graph
  std::nth_element(times.begin(), times.begin() + kLaunches / 2, times.end());
  return times[kLaunches / 2];
}

Result<double>
GraphTimer::seconds(unsigned rounds,
                    const std::function<Status(void *stream, unsigned round)> &work) {
  TENON_TRY(work(gpuStream.handle(), 0)); // loads code, which a capture must not
  TENON_TRY(wait());
  TENON_ASSIGN(GraphExecHandle graph, capture(rounds, work));
  Result<double> all = timeLaunches(graph);
  device->driver().graphExecDestroy(graph);
  if (!all) {
    return all;
  }
  return *all / rounds;
}

Result<double>
GraphTimer::seconds(const std::function<Status(void *stream, unsigned round)> &work) {
  return seconds(kRoundsOfMeter, work);
}

} // namespace tenon::gpu
