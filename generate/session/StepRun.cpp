// Relies on the ports that compiler/frontend/language gives an engine with pages.
#include "generate/session/StepRun.h"

#include <array>
#include <numeric>
#include <vector>

namespace tenon::generate {
namespace {

/// DLPack's numbers.
constexpr int32_t kOnHost = 1, kOnGpu = 2;
constexpr uint8_t kIntegers = 0, kReals = 2;

struct Port {
  const void *data;
  std::array<int64_t, 2> dims;
  int32_t rank;
  uint8_t kind = kIntegers;
  uint8_t bits = 64;
  int32_t place = kOnHost;
};

tenon_tensor tensorOf(Port &port, int32_t gpu) {
  return {.data = const_cast<void *>(port.data),
          .device_type = port.place,
          .device_id = port.place == kOnGpu ? gpu : 0,
          .rank = port.rank,
          .type_code = port.kind,
          .type_bits = port.bits,
          .type_lanes = 1,
          .dims = port.dims.data(),
          .strides = nullptr,
          .byte_offset = 0};
}

template <size_t Count>
Status runPorts(const LanguageModel &model, tenon_session *session, std::span<Port> inputs,
                std::array<Port, Count> outputs) {
  int32_t gpu = tenon_engine_gpu(model.engine());
  std::vector<tenon_tensor> tensors;
  std::vector<const tenon_tensor *> pointers;
  for (std::span<Port> ports : {inputs, std::span<Port>(outputs)}) {
    for (Port &port : ports) {
      tensors.push_back(tensorOf(port, gpu));
    }
  }
  for (const tenon_tensor &tensor : tensors) {
    pointers.push_back(&tensor);
  }
  return capi::takeStatus(tenon_session_run_tensors(
      session, pointers.data(), inputs.size(), pointers.data() + inputs.size(), Count, nullptr));
}

} // namespace

Status runStep(const LanguageModel &model, tenon_session *session, const StepInputs &inputs,
               std::span<float> logits, std::span<Draw> draws) {
  int64_t rows = static_cast<int64_t>(inputs.rows.size());
  int64_t sequences = static_cast<int64_t>(inputs.lengths.size());
  std::vector<Port> ports;
  for (std::span<const int64_t> list :
       {inputs.tokens, inputs.positions, inputs.slots, inputs.starts, inputs.lengths}) {
    ports.push_back({list.data(), {static_cast<int64_t>(list.size())}, 1});
  }
  ports.push_back(
      {inputs.pages.data(), {sequences, static_cast<int64_t>(inputs.pages.size()) / sequences}, 2});
  ports.push_back({inputs.rows.data(), {rows}, 1});
  std::vector<int64_t> fetched(inputs.fetched.begin(), inputs.fetched.end());
  if (fetched.empty()) {
    fetched.resize(logits.empty() && model.hasDrawPorts() ? 1 : rows);
    std::iota(fetched.begin(), fetched.end(), 0);
  }
  int64_t given = static_cast<int64_t>(fetched.size());
  // The address of nothing may still be one.
  Port logitsPort = {
      logits.empty() ? nullptr : logits.data(), {given, model.facts().vocabulary}, 2, kReals, 32,
      logits.empty() ? kOnGpu : kOnHost};
  if (!model.hasDrawPorts()) {
    return runPorts<1>(model, session, ports, {logitsPort});
  }
  std::vector<double> numbers;
  std::vector<int64_t> integers, ids(rows);
  std::vector<float> logprobs(rows);
  for (int64_t row = 0; row < rows; ++row) {
    DrawParameters own = inputs.draws.empty() ? DrawParameters() : inputs.draws[row];
    numbers.insert(numbers.end(), {own.temperature, own.topP, own.minP});
    integers.insert(integers.end(),
                    {own.topK, static_cast<int64_t>(own.seed), static_cast<int64_t>(own.position)});
  }
  ports.push_back({numbers.data(), {rows, 3}, 2, kReals, 64});
  ports.push_back({integers.data(), {rows, 3}, 2});
  ports.push_back({fetched.data(), {given}, 1});
  TENON_TRY(runPorts<3>(
      model, session, ports,
      {logitsPort, Port{ids.data(), {rows}, 1}, Port{logprobs.data(), {rows}, 1, kReals, 32}}));
  for (size_t row = 0; row < draws.size(); ++row) {
    draws[row] = {static_cast<int32_t>(ids[row]), static_cast<double>(logprobs[row])};
  }
  return Status::ok();
}

} // namespace tenon::generate
