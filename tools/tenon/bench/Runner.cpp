// Implements preparing a session and binding the tensors of a run once for all its repetitions.

#include "tools/tenon/bench/Runner.h"

namespace tenon::tool {

Result<Runner> Runner::create(std::shared_ptr<const runtime::Engine> engine,
                              std::vector<Tensor> inputs, const runtime::SessionOptions &options) {
  Runner runner;
  TENON_ASSIGN(runner.owned, runtime::Session::create(std::move(engine), options));
  runner.given = std::move(inputs);
  TENON_TRY(runner.prepare());
  return runner;
}

Status Runner::prepare() {
  std::vector<std::span<const int64_t>> dims;
  for (const Tensor &tensor : given) {
    dims.push_back(tensor.dims);
    inputBindings.push_back({tensor.data.data(), tensor.dims});
  }
  TENON_TRY(owned->prepare(dims));
  const std::vector<engine::Port> &ports = plan().outputs;
  for (size_t i = 0; i < ports.size(); ++i) {
    std::span<const int64_t> shape = owned->outputDims(i);
    TENON_ASSIGN(Tensor output, Tensor::create(ports[i].name, ports[i].dtype,
                                               std::vector<int64_t>(shape.begin(), shape.end())));
    made.push_back(std::move(output));
    outputBindings.push_back({made.back().data.data(), made.back().data.size()});
  }
  return Status::ok();
}

Status Runner::run() {
  TENON_TRY(owned->run(inputBindings, outputBindings));
  for (size_t i = 0; i < made.size(); ++i) {
    std::span<const int64_t> shape = owned->outputDims(i);
    made[i].dims.assign(shape.begin(), shape.end());
  }
  return Status::ok();
}

} // namespace tenon::tool
