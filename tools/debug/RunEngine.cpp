// Outputs are filled with a pattern before the run, so that what is not written shows.
#include "tools/debug/RunEngine.h"

#include "runtime/core/Session.h"

#include <cstring>

namespace tenon::debug {

Result<std::vector<NamedTensor>> runEngine(const std::string &path, const std::string &variant,
                                           unsigned threads,
                                           const std::vector<NamedTensor> &inputs) {
  runtime::EngineOptions options;
  options.variant = variant;
  options.cacheFolder = "";
  TENON_ASSIGN(std::shared_ptr<const runtime::Engine> engine, runtime::Engine::open(path, options));
  runtime::SessionOptions sessionOptions;
  sessionOptions.threads = threads;
  TENON_ASSIGN(std::unique_ptr<runtime::Session> session,
               runtime::Session::create(engine, sessionOptions));
  std::vector<std::string> names;
  for (const engine::Port &port : engine->plan().inputs) {
    names.push_back(port.name);
  }
  TENON_ASSIGN(Tensors ordered, inOrder(inputs, names));
  std::vector<std::span<const int64_t>> dims;
  std::vector<runtime::InputBinding> bindings;
  for (const reference::Tensor &input : ordered) {
    dims.push_back(std::span(input.dims().data(), input.dims().size()));
    bindings.push_back({input.bytes(), dims.back()});
  }
  TENON_TRY(session->prepare(dims));
  std::vector<NamedTensor> outputs;
  std::vector<runtime::OutputBinding> places;
  for (size_t i = 0; i < engine->plan().outputs.size(); ++i) {
    const engine::Port &port = engine->plan().outputs[i];
    std::span<const int64_t> shape = session->outputDims(i);
    TENON_ASSIGN(reference::Tensor output,
                 reference::Tensor::create(port.dtype, llvm::ArrayRef(shape.data(), shape.size())));
    std::memset(output.mutableBytes(), 0x7f, output.byteCount());
    outputs.push_back({port.name, std::move(output)});
  }
  for (NamedTensor &output : outputs) {
    places.push_back({output.tensor.mutableBytes(), output.tensor.byteCount()});
  }
  TENON_TRY(session->run(bindings, places));
  return outputs;
}

} // namespace tenon::debug
