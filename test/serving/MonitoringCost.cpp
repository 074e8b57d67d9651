// CPU time that monitoring adds to a sampled request: pictures of which figures are made, and rows
// of numbers. Run by hand for docs/measurements: it prints what the thread of the server and that
// of the comparison take together, in microseconds a request.

#include "runtime/tensors/Npy.h"
#include "server/monitoring/Monitoring.h"
#include "support/random/Random.h"

#include <boost/asio/io_context.hpp>
#include <fmt/format.h>

#include <cstdio>
#include <ctime>
#include <thread>

namespace tenon::server {
namespace {

constexpr int kRequests = 200'000;
constexpr int64_t kReferenceRows = 5000;

double cpuSeconds() {
  timespec time = {};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) / 1e9;
}

ModelPort portOf(std::string name, std::vector<int64_t> row) {
  ModelPort port = {std::move(name), DType::F32, {1}, {1024}, {}};
  port.minDims.insert(port.minDims.end(), row.begin(), row.end());
  port.maxDims.insert(port.maxDims.end(), row.begin(), row.end());
  return port;
}

Tensor randomRows(const ModelPort &port, int64_t rows, uint64_t seed) {
  std::vector<int64_t> dims = port.maxDims;
  dims[0] = rows;
  Tensor tensor = std::move(*Tensor::create(port.name, port.dtype, dims));
  Random random(seed);
  for (int64_t i = 0; i < tensor.elements(); ++i) {
    setElement(tensor, i, random.unit() + random.unit());
  }
  return tensor;
}

double measure(const std::vector<int64_t> &inputRow, const std::string &path) {
  std::shared_ptr<Version> version =
      std::make_shared<Version>("m", FoundVersion{"1", ""}, ModelConfig(), 1);
  version->ports = {{portOf("x", inputRow)}, {portOf("y", {10})}};
  const ModelPort &input = version->ports.inputs[0], &output = version->ports.outputs[0];
  const Tensor reference[] = {randomRows(input, kReferenceRows, 1),
                              randomRows(output, kReferenceRows, 2)};
  if (!writeNpz(path, reference).isOk()) {
    return -1;
  }
  boost::asio::io_context context(1);
  MonitoringOptions options;
  options.references["m"] = path;
  bool isReady = false;
  Monitoring monitoring(context.get_executor(), options, "0",
                        Log([&](LogLevel, std::string_view) { isReady = true; }));
  std::map<std::string, Model> models;
  models["m"].versions[1] = version;
  monitoring.drift.follow(models);
  while (!isReady) {
    context.restart();
    context.poll();
  }
  constexpr int64_t kDifferent = 4096; // requests
  Tensor inputs = randomRows(input, kDifferent, 3), outputs = randomRows(output, kDifferent, 4);
  std::shared_ptr<SharedBuffer> buffer = std::make_shared<SharedBuffer>();
  buffer->memory = std::move(*SharedMemory::create(outputs.bytes().size()));
  std::copy(outputs.bytes().begin(), outputs.bytes().end(), buffer->memory->data());
  Request request(version, InferRequest());
  request.order = {0};
  request.payload.inputs.push_back(
      {"x", DType::F32, input.maxDims, inputs.bytes().size() / kDifferent, {}, {}});
  request.payload.inputs[0].dims[0] = 1;
  InferResult result = {version, buffer, {{0, outputs.bytes().size() / kDifferent, {1, 10}}}, 1, {},
                        {},      {}};
  auto requests = [&](bool isMonitored) {
    double start = cpuSeconds();
    for (int i = 0; i < kRequests; ++i) {
      uint64_t at = static_cast<uint64_t>(i % kDifferent);
      request.payload.inputs[0].binary = inputs.bytes().subspan(
          at * request.payload.inputs[0].bytes, request.payload.inputs[0].bytes);
      result.outputs[0].offset = at * result.outputs[0].bytes;
      if (isMonitored) {
        monitoring.answered(request, result);
      }
      if (isMonitored && i % 1000 == 999) { // as if 10,000 requests came in a second
        monitoring.drift.handOver();
        while (!monitoring.drift.isIdle()) {
          std::this_thread::sleep_for(std::chrono::microseconds(200));
          context.restart();
          context.poll();
        }
      }
    }
    return (cpuSeconds() - start) / kRequests * 1e6;
  };
  requests(true);
  double with = requests(true), without = requests(false);
  std::remove(path.c_str());
  return with - without;
}

} // namespace
} // namespace tenon::server

int main() {
  using tenon::server::measure;
  const std::string path = fmt::format("/tmp/monitoring_cost_{}.npz", getpid());
  for (int round = 0; round < 5; ++round) {
    fmt::print(
        "picture of 784 numbers, 10 outputs: {:.3f} us; row of 16 numbers, 10 outputs: {:.3f} us\n",
        measure({1, 28, 28}, path), measure({16}, path));
  }
  return 0;
}
