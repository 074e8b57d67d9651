// Relies on the observers' outputs coming in the order of observations: three for a histogram, four
// for channels.

#include "tools/tenon/quant/Calibrate.h"

#include "runtime/core/Session.h"
#include "tools/tenon/engines/EngineSource.h"
#include "tools/tenon/task/TaskListener.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <map>
#include <memory>

namespace tenon::tool {
namespace {

using quant::Observed;

/// Samples of a run at most: more take memory and gain no speed.
constexpr size_t kMaxRows = 4;

using Clock = std::chrono::steady_clock;
double since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

/// Engines for dims of their own; samples of other dims run in one for all that the model takes.
constexpr size_t kMaxEngines = 2;

/// The engine with observers for inputs of some dims, or of any.
class Observer {
public:
  explicit Observer(bool takesAny) : takesAny(takesAny) {}
  Status compile(const quant::Quantizer &quantizer, const CalibrationRequest &request,
                 const Batch &batch, TaskListener &listener);
  bool takes(const Batch &batch) const;
  Status run(const Batch &batch, const std::vector<opt::Observation> &asked, Calibration &result);

private:
  bool takesAny;
  std::vector<std::vector<int64_t>> dims;
  std::optional<EngineSource> source;
  std::unique_ptr<runtime::Session> session;
  std::vector<Tensor> outputs;
  std::vector<runtime::OutputBinding> bindings;
};

Status Observer::compile(const quant::Quantizer &quantizer, const CalibrationRequest &request,
                         const Batch &batch, TaskListener &listener) {
  OpenRequest open;
  open.path = request.model;
  open.target.targets = {"cpu:native"};
  open.useCache = request.useCache;
  open.verifyWeights = false;
  open.observed = quantizer.observations();
  open.extraOutputs = quantizer.innerObserved();
  TENON_ASSIGN(std::vector<quant::InputInfo> inputs, quantizer.inputs());
  for (const auto &[name, depth] : quantizer.gramTensors()) {
    if (std::ranges::none_of(inputs,
                             [&](const quant::InputInfo &input) { return input.name == name; })) {
      open.extraOutputs.push_back(name);
    }
  }
  for (const Tensor &input : batch.inputs) {
    dims.push_back(input.dims);
    if (!input.dims.empty() && !takesAny) {
      open.shapes.push_back(fmt::format("{}:{}", input.name, fmt::join(input.dims, "x")));
    }
  }
  TENON_ASSIGN(EngineSource compiled, EngineSource::prepare(open, listener));
  source.emplace(std::move(compiled));
  TENON_ASSIGN(std::shared_ptr<const runtime::Engine> engine, source->open());
  runtime::SessionOptions options;
  options.threads = request.threads;
  TENON_ASSIGN(session, runtime::Session::create(engine, options));
  std::vector<std::span<const int64_t>> views(dims.begin(), dims.end());
  TENON_TRY(session->prepare(views));
  for (size_t i = 0; i < engine->plan().outputs.size(); ++i) {
    const engine::Port &port = engine->plan().outputs[i];
    std::span<const int64_t> shape = session->outputDims(i);
    TENON_ASSIGN(Tensor output,
                 Tensor::create(port.name, port.dtype, {shape.begin(), shape.end()}));
    outputs.push_back(std::move(output));
    bindings.push_back({outputs.back().data.data(), outputs.back().data.size()});
  }
  return Status::ok();
}

bool Observer::takes(const Batch &batch) const {
  for (size_t i = 0; i < batch.inputs.size(); ++i) {
    if (!takesAny && batch.inputs[i].dims != dims[i]) {
      return false;
    }
  }
  return true;
}

/// Rows of a tensor for its Gram matrix, as long as that has fewer than it needs.
void addRows(const Tensor &tensor, quant::Grams &grams) {
  // Some of them for each number of a row tell which errors matter.
  constexpr size_t kMinRows = 4096, kRowsOfDepth = 4;
  auto known = grams.find(tensor.name);
  if (known != grams.end() && tensor.dtype == DType::F32 && !tensor.dims.empty() &&
      tensor.dims.back() == int64_t(known->second.depth()) &&
      known->second.rows() < std::max(kMinRows, kRowsOfDepth * known->second.depth())) {
    known->second.add(
        {reinterpret_cast<const float *>(tensor.data.data()), size_t(tensor.elements())});
  }
}

Status Observer::run(const Batch &batch, const std::vector<opt::Observation> &asked,
                     Calibration &result) {
  std::vector<runtime::InputBinding> inputs;
  for (const Tensor &input : batch.inputs) {
    inputs.push_back({input.data.data(), input.dims});
  }
  TENON_TRY(session->run(inputs, bindings));
  for (const Tensor &tensor : batch.inputs) {
    addRows(tensor, result.grams);
  }
  for (const Tensor &tensor : outputs) {
    addRows(tensor, result.grams);
  }
  std::vector<Observed> &seen = result.seen;
  size_t output = 0;
  auto next = [&] {
    const Tensor &tensor = outputs[output++];
    return std::span(reinterpret_cast<const float *>(tensor.data.data()),
                     static_cast<size_t>(tensor.elements()));
  };
  for (size_t i = 0; i < asked.size(); ++i) {
    if (asked[i].hasHistogram) {
      float low = next()[0], high = next()[0];
      std::span<const float> bits = next();
      seen[i].histogram.add({reinterpret_cast<const int32_t *>(bits.data()), bits.size()}, low,
                            high);
    }
    if (asked[i].channels) {
      std::span<const float> means = next(), lows = next(), highs = next(), squares = next();
      seen[i].channels.add(means, lows, highs, squares);
    }
  }
  return Status::ok();
}

/// What the samples do not vary in, of which no range, or none that holds for others, can be
/// learned.
class ConstantCheck {
public:
  void add(const Batch &batch) {
    for (const Tensor &input : batch.inputs) {
      Bytes bytes = input.bytes();
      bool hasRows = batch.rows > 1 && !input.dims.empty() && input.dims[0] == int64_t(batch.rows);
      size_t rows = hasRows ? batch.rows : 1, row = bytes.size() / rows;
      size_t width =
          input.elements() > 0 ? bytes.size() / static_cast<size_t>(input.elements()) : 0;
      std::vector<std::byte> &first =
          firstRows.try_emplace(input.name, bytes.begin(), bytes.begin() + row).first->second;
      for (size_t at = 0; at < bytes.size(); at += row) {
        Bytes own = bytes.subspan(at, row);
        variesWithin =
            variesWithin || std::memcmp(own.data(), own.data() + width, row - width) != 0;
        variesBetween = variesBetween || !std::ranges::equal(own, first);
        hasSeveral = hasSeveral || row > width;
      }
    }
  }
  bool isConstant() const { return !variesWithin && !variesBetween; }
  /// Whether each sample has one value in each input.
  bool isFlat() const { return hasSeveral && !variesWithin; }
  bool areEqual() const { return !variesBetween; }

private:
  bool variesWithin = false, variesBetween = false, hasSeveral = false;
  std::map<std::string, std::vector<std::byte>> firstRows; ///< of each input
};

/// Rows of each run: those of a fixed batch, or of so many samples as few runs as kMaxRows allows,
/// all alike.
size_t rowsOfRuns(const Dataset &data, size_t samples) {
  for (const WantedInput &input : data.inputs()) {
    if (input.leastRows > int64_t(kMaxRows)) {
      return size_t(input.leastRows);
    }
  }
  size_t rows = std::min(kMaxRows, samples);
  while (samples % rows != 0) {
    --rows;
  }
  return rows;
}

/// The rows that fill a batch become its samples in turn, as all rows are counted.
void fillInTurn(Batch &batch) {
  for (Tensor &input : batch.inputs) {
    if (batch.samples == 1 || input.dims.empty() || input.dims[0] != int64_t(batch.rows)) {
      continue;
    }
    size_t row = input.bytes().size() / batch.rows;
    for (size_t i = batch.samples; i < batch.rows; ++i) {
      std::memcpy(input.data.data() + i * row, input.data.data() + (i - batch.samples) * row, row);
    }
  }
}

} // namespace

Result<std::vector<WantedInput>> wantedInputs(const quant::Quantizer &quantizer) {
  TENON_ASSIGN(std::vector<quant::InputInfo> inputs, quantizer.inputs());
  std::vector<WantedInput> wanted;
  for (quant::InputInfo &input : inputs) {
    WantedInput own{input.name, input.dtype, input.dims};
    if (!own.dims.empty() && own.dims[0] >= 0) {
      own.leastRows = own.mostRows = own.dims[0];
    }
    wanted.push_back(std::move(own));
  }
  return wanted;
}

Result<Calibration> calibrate(const quant::Quantizer &quantizer, const CalibrationRequest &request,
                              TaskListener &listener) {
  TENON_ASSIGN(std::vector<WantedInput> wanted, wantedInputs(quantizer));
  TENON_ASSIGN(Dataset data,
               Dataset::open(request.data, std::move(wanted),
                             {quantizer.metadata("preprocessing"), quantizer.metadata("classes")}));
  Calibration result;
  result.warnings.assign(data.warnings().begin(), data.warnings().end());
  result.samples =
      request.mostSamples == 0 ? data.samples() : std::min(request.mostSamples, data.samples());
  TENON_ASSIGN(result.fingerprint, data.fingerprint(result.samples));
  result.seen.resize(quantizer.observations().size());
  for (const auto &[name, depth] : quantizer.gramTensors()) {
    result.grams.emplace(name, quant::Gram(depth));
  }
  if (result.seen.empty() && result.grams.empty()) {
    return result;
  }
  size_t rows = rowsOfRuns(data, result.samples);
  std::vector<std::unique_ptr<Observer>> observers;
  ConstantCheck constant;
  bool hasFull = false;
  size_t left = 0; // what does not fill a batch, and would count more than others
  for (size_t first = 0; first < result.samples;) {
    listener.progress("calibrate", double(first) / double(result.samples));
    TENON_ASSIGN(Batch batch, data.read(first, std::min(rows, result.samples - first)));
    first += batch.samples;
    bool isFull = batch.samples == batch.rows;
    if (!isFull && hasFull) {
      left += batch.samples;
      continue;
    }
    hasFull = isFull;
    if (!isFull) {
      fillInTurn(batch);
    }
    constant.add(batch);
    auto fitting = std::find_if(observers.begin(), observers.end(),
                                [&](const auto &one) { return one->takes(batch); });
    if (fitting == observers.end()) {
      Clock::time_point start = Clock::now();
      observers.push_back(std::make_unique<Observer>(observers.size() == kMaxEngines));
      TENON_TRY(observers.back()->compile(quantizer, request, batch, listener));
      fitting = observers.end() - 1;
      result.compileSeconds += since(start);
    }
    Clock::time_point start = Clock::now();
    TENON_TRY((*fitting)->run(batch, quantizer.observations(), result));
    result.runSeconds += since(start);
    ++result.runs;
  }
  listener.clearProgress();
  if (left > 0) {
    result.samples -= left;
    result.warnings.push_back(fmt::format(
        "{}: {} samples do not fill a batch of the model and are left out", request.data, left));
  }
  if (constant.isConstant()) {
    return Status::error(
        ErrorId::BadDataset,
        fmt::format(
            "{}: each input has the same value in all samples, so no range can be determined",
            request.data),
        "use samples like those that the model will see");
  }
  bool isSaid = std::ranges::any_of(result.warnings, [](const std::string &text) {
    return text.ends_with("samples are the same"); // where the data set has looked at all
  });
  if (result.samples == 1) {
    result.warnings.push_back(
        fmt::format("{}: there is only one sample: its ranges clip larger values of others; use a "
                    "few hundred like those that the model will see",
                    request.data));
  } else if (constant.areEqual() && !isSaid) {
    result.warnings.push_back(
        fmt::format("{}: all {} samples are the same", request.data, result.samples));
  } else if (constant.isFlat() && !constant.areEqual()) {
    result.warnings.push_back(fmt::format(
        "{}: in each sample, all values of an input are equal, which real data never is",
        request.data));
  }
  return result;
}

} // namespace tenon::tool
