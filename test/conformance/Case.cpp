// Implements running one case through the compiler and the runtime and nothing else. It relies on
// the frontend's reader for the suite's protobuf files.

#include "test/conformance/Case.h"

#include "compiler/frontend/onnx/wire/ModelReader.h"
#include "compiler/frontend/onnx/wire/TensorData.h"
#include "runtime/core/Engine.h"
#include "support/files/MappedFile.h"
#include "support/json/Json.h"
#include "test/conformance/Compare.h"
#include "tools/tenon/bench/Runner.h"
#include "tools/tenon/model/CompilerBridge.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>
#include <map>
#include <set>

namespace tenon::conformance {
namespace {

namespace fs = std::filesystem;

/// Names of the inputs and outputs in the order of the suite's numbered files.
struct Ports {
  std::vector<std::string> inputs;
  std::vector<std::string> outputs;
};

Result<Ports> readPorts(const std::string &path) {
  TENON_ASSIGN(MappedFile file, MappedFile::open(path));
  TENON_ASSIGN(onnx::Model model, onnx::readModel(file.bytes()));
  std::set<std::string_view> initializers;
  for (const onnx::Tensor &tensor : model.graph.initializers) {
    initializers.insert(tensor.name);
  }
  Ports ports;
  for (const onnx::ValueInfo &input : model.graph.inputs) {
    if (initializers.count(input.name) == 0) {
      ports.inputs.emplace_back(input.name);
    }
  }
  for (const onnx::ValueInfo &output : model.graph.outputs) {
    ports.outputs.emplace_back(output.name);
  }
  return ports;
}

Result<Tensor> readTensorFile(const std::string &path, const std::string &name) {
  TENON_ASSIGN(MappedFile file, MappedFile::open(path));
  TENON_ASSIGN(onnx::Tensor message, onnx::readTensor(file.bytes()));
  if (!onnx::toDType(message.type)) {
    return Status::error(ErrorId::ModelHasGaps,
                         fmt::format("tensors of {}", onnx::nameOf(message.type)));
  }
  onnx::ExternalFiles none("");
  TENON_ASSIGN(onnx::TensorData data, onnx::loadTensor(message, none));
  if (data.bits < 8) {
    data.owned = onnx::unpackedBytes(data);
    data.view = data.owned;
  }
  TENON_ASSIGN(Tensor tensor, Tensor::create(name, data.type, data.dims));
  if (data.view.size() != tensor.data.size()) {
    return Status::error(ErrorId::BadTensorFile, fmt::format("{}: the size does not fit", path));
  }
  if (!data.view.empty()) {
    std::memcpy(tensor.data.data(), data.view.data(), data.view.size());
  }
  return tensor;
}

/// The tensors input_0.pb, input_1.pb, … (or output_…) of a data set, by the names of the ports.
Result<std::map<std::string, Tensor>> readDataSet(const std::string &folder, const char *kind,
                                                  const std::vector<std::string> &names) {
  std::map<std::string, Tensor> tensors;
  for (size_t i = 0; i < names.size(); ++i) {
    std::string path = fmt::format("{}/{}_{}.pb", folder, kind, i);
    if (!fs::exists(path)) {
      continue;
    }
    TENON_ASSIGN(Tensor tensor, readTensorFile(path, names[i]));
    tensors[names[i]] = std::move(tensor);
  }
  return tensors;
}

Tolerance readTolerance(const std::string &folder) {
  Tolerance tolerance;
  std::ifstream file(folder + "/data.json");
  Json json = parseJson(std::string(std::istreambuf_iterator<char>(file), {}));
  if (json.is_object()) {
    tolerance.relative = json.value("rtol", tolerance.relative);
    tolerance.absolute = json.value("atol", tolerance.absolute);
  }
  return tolerance;
}

std::vector<std::string> dataSets(const std::string &folder) {
  std::vector<std::string> sets;
  for (const fs::directory_entry &entry : fs::directory_iterator(folder)) {
    if (entry.path().filename().string().starts_with("test_data_set_")) {
      sets.push_back(entry.path().string());
    }
  }
  std::sort(sets.begin(), sets.end());
  return sets;
}

/// Older suites store bfloat16 as the 16-bit integers of the same bits.
void restoreBFloat16(Tensor &tensor, DType wanted) {
  if (wanted == DType::BF16 && tensor.dtype == DType::U16) {
    tensor.dtype = DType::BF16;
  }
}

/// Cases whose results a generator of random numbers decides, for which ONNX prescribes no
/// algorithm: their types and dims are compared, and that the elements are finite.
bool isRandom(const std::string &name) {
  static const std::set<std::string> random = {"test_bernoulli",
                                               "test_bernoulli_double",
                                               "test_bernoulli_double_expanded",
                                               "test_bernoulli_expanded",
                                               "test_bernoulli_seed",
                                               "test_bernoulli_seed_expanded",
                                               "test_training_dropout",
                                               "test_training_dropout_default",
                                               "test_training_dropout_default_mask",
                                               "test_training_dropout_mask"};
  return random.count(fs::path(name).filename().string()) != 0;
}

Status runDataSet(const std::string &folder, const Ports &ports, const Tolerance &tolerance,
                  const std::shared_ptr<const runtime::Engine> &engine, unsigned threads) {
  TENON_ASSIGN(auto given, readDataSet(folder, "input", ports.inputs));
  TENON_ASSIGN(auto wanted, readDataSet(folder, "output", ports.outputs));
  std::vector<Tensor> inputs;
  for (const engine::Port &port : engine->plan().inputs) {
    std::map<std::string, Tensor>::iterator found = given.find(port.name);
    if (found == given.end()) {
      return Status::error(ErrorId::RunInputCount,
                           fmt::format("there is no input '{}'", port.name));
    }
    restoreBFloat16(found->second, port.dtype);
    if (found->second.dtype != port.dtype) {
      return Status::error(ErrorId::WrongTensorType, fmt::format("input '{}' is {} in the engine",
                                                                 port.name, nameOf(port.dtype)));
    }
    inputs.push_back(std::move(found->second));
  }
  runtime::SessionOptions session;
  session.threads = threads;
  TENON_ASSIGN(tool::Runner runner, tool::Runner::create(engine, std::move(inputs), session));
  TENON_TRY(runner.run());
  for (const Tensor &output : runner.outputs()) {
    std::map<std::string, Tensor>::iterator want = wanted.find(output.name);
    if (want == wanted.end()) {
      return Status::error(ErrorId::VerifyFailed,
                           fmt::format("output '{}' is not expected", output.name));
    }
    restoreBFloat16(want->second, output.dtype);
    std::string difference = firstDifference(output, want->second, tolerance);
    if (!difference.empty()) {
      return Status::error(ErrorId::VerifyFailed,
                           fmt::format("output '{}': {}", output.name, difference));
    }
  }
  if (runner.outputs().size() != wanted.size()) {
    return Status::error(
        ErrorId::VerifyFailed,
        fmt::format("{} outputs instead of {}", runner.outputs().size(), wanted.size()));
  }
  return Status::ok();
}

/// Most elements of an input that a case may need as a constant: axes, sizes, bounds, flags.
constexpr int64_t kMaxDeciding = 16;

/// The inputs after the first that may decide what shapes the results have. ONNX's cases give every
/// operand of the tested operator as an input, also those that models hold as constants.
Result<std::vector<Tensor>> decidingInputs(const std::vector<std::string> &sets,
                                           const Ports &ports) {
  std::vector<Tensor> deciding;
  if (sets.size() != 1) {
    return deciding;
  }
  TENON_ASSIGN(auto given, readDataSet(sets.front(), "input", ports.inputs));
  // The only input of an operator that makes a tensor is the size of it.
  for (size_t i = ports.inputs.size() == 1 ? 0 : 1; i < ports.inputs.size(); ++i) {
    std::map<std::string, Tensor>::iterator found = given.find(ports.inputs[i]);
    bool decides = found != given.end() && found->second.dims.size() <= 1 &&
                   found->second.elements() <= kMaxDeciding;
    if (decides) {
      deciding.push_back(std::move(found->second));
    }
  }
  return deciding;
}

/// Compiles the case; where the model has gaps, again with the inputs that may decide shapes as
/// constants, which are then named in `constants`.
Status compileCase(pipeline::CompileOptions request, const std::vector<std::string> &sets,
                   const Ports &ports, std::string &constants) {
  Status first = tool::compileModel(request).takeStatus();
  if (first.code() != Code::Unsupported) {
    return first;
  }
  Result<std::vector<Tensor>> deciding = decidingInputs(sets, ports);
  if (!deciding || deciding->empty()) {
    return first;
  }
  for (const Tensor &tensor : *deciding) {
    request.fixed.push_back({tensor.name, tensor.dtype, tensor.dims, tensor.data.bytes()});
    constants += (constants.empty() ? "with constants " : ", ") + tensor.name;
  }
  Status second = tool::compileModel(request).takeStatus();
  return second.isOk() ? std::move(second) : std::move(first);
}

Status compileAndRun(const Case &testCase, const CaseOptions &options, std::string &constants) {
  std::string model = testCase.folder + "/model.onnx";
  pipeline::CompileOptions request;
  request.model = model;
  request.output = options.scratchFolder + "/case.tenon";
  request.levels = options.targets.levels;
  request.gpus = options.targets.gpus;
  request.threads = 1;
  TENON_ASSIGN(Ports ports, readPorts(model));
  std::vector<std::string> sets = dataSets(testCase.folder);
  if (sets.empty()) {
    return Status::error(ErrorId::FileNotFound, "the case has no data");
  }
  TENON_TRY(compileCase(request, sets, ports, constants));
  if (options.compileOnly) {
    return Status::ok();
  }
  TENON_ASSIGN(std::shared_ptr<const runtime::Engine> engine, openEngine(request.output, options));
  Tolerance tolerance = readTolerance(testCase.folder);
  if (isRandom(testCase.name)) {
    tolerance.absolute = std::numeric_limits<double>::infinity();
  }
  for (const std::string &folder : sets) {
    TENON_TRY(runDataSet(folder, ports, tolerance, engine, options.threads));
  }
  return Status::ok();
}

/// The first gap of a model, in words.
std::string describeGaps(const std::string &model, const Status &status) {
  Result<tool::ModelInfo> info = tool::importModel(model, {});
  if (!info || info->gaps.empty()) {
    return std::string(status.message());
  }
  const tool::ModelGap &gap = info->gaps.front();
  return fmt::format("{}: {}", gap.op, gap.why);
}

std::string oneLine(std::string text) {
  std::replace(text.begin(), text.end(), '\n', ' ');
  return text;
}

} // namespace

std::vector<Case> findCases(const std::string &root) {
  std::vector<Case> cases;
  std::error_code error;
  for (const fs::directory_entry &entry : fs::recursive_directory_iterator(root, error)) {
    if (entry.path().filename() == "model.onnx") {
      fs::path folder = entry.path().parent_path();
      cases.push_back({folder.lexically_relative(root).string(), folder.string()});
    }
  }
  std::sort(cases.begin(), cases.end(),
            [](const Case &a, const Case &b) { return a.name < b.name; });
  return cases;
}

std::string_view variantOf(const tool::Targets &targets) {
  return targets.gpus.empty() ? nameOf(targets.levels.front()) : targets.gpus.front().variant();
}

Result<std::shared_ptr<const runtime::Engine>> openEngine(const std::string &path,
                                                          const CaseOptions &options) {
  runtime::EngineOptions engineOptions;
  engineOptions.variant = variantOf(options.targets);
  engineOptions.cacheFolder = "";
  TENON_ASSIGN(std::shared_ptr<const runtime::Engine> engine,
               runtime::Engine::open(path, engineOptions));
  // A GPU's context lives as long as an engine on it: a process that does several cases makes it
  // once. Never destroyed, since the driver may be gone by then.
  static std::shared_ptr<const runtime::Engine> &latest =
      *new std::shared_ptr<const runtime::Engine>();
  latest = engine;
  return engine;
}

Outcome judge(const Status &status) {
  if (status.isOk()) {
    return {Verdict::Pass, ""};
  }
  Verdict verdict = status.code() == Code::Unsupported ? Verdict::Unsupported : Verdict::Fail;
  return {verdict, oneLine(fmt::format("{} {}", nameOf(status.id()), status.message()))};
}

Outcome runCase(const Case &testCase, const CaseOptions &options) {
  std::string constants;
  Status status = compileAndRun(testCase, options, constants);
  if (status.isOk()) {
    return {Verdict::Pass, constants};
  }
  if (status.code() == Code::Unsupported) {
    return {Verdict::Unsupported, oneLine(describeGaps(testCase.folder + "/model.onnx", status))};
  }
  return judge(status);
}

} // namespace tenon::conformance
