// Relies on ReferenceModel for what is right and on the crash guard of the pipeline for what
// compiling may do.
#include "tools/debug/Trial.h"

#include "compiler/pipeline/CrashGuard.h"
#include "compiler/pipeline/NumericCheck.h"
#include "runtime/device/cpu/CpuFeatures.h"
#include "support/text/Text.h"
#include "tools/debug/Planted.h"
#include "tools/debug/RunEngine.h"

using namespace mlir;

namespace tenon::debug {
namespace {

/// The variant that is run: the GPU's if there is one, else the CPU level.
std::string variantOf(const pipeline::CompileOptions &options) {
  return std::string(options.gpus.empty() ? engine::nameOf(options.levels.front())
                                          : options.gpus.front().variant());
}

/// One for each input of the model: those given, or seeded ones.
Result<std::vector<NamedTensor>> inputsOf(const pipeline::CompileOptions &options,
                                          const std::vector<NamedTensor> &given, uint64_t seed) {
  pipeline::CompileOptions import = options;
  std::vector<NamedTensor> inputs;
  import.stopAfter = pipeline::Phase::Import;
  pipeline::CompileHooks hooks;
  hooks.afterPass = [&](std::string_view, ModuleOp module, tn::WeightStore &) -> Status {
    std::vector<std::string> names = argumentNames(*module.getOps<func::FuncOp>().begin());
    TENON_ASSIGN(Tensors tensors,
                 given.empty() ? pipeline::seededInputs(module, seed) : inOrder(given, names));
    for (auto [name, tensor] : llvm::zip_equal(names, tensors)) {
      inputs.push_back({name, tensor});
    }
    return Status::ok();
  };
  import.output.clear();
  TENON_TRY(pipeline::compile(import, hooks).takeStatus());
  return inputs;
}

/// Only one variant is run, so only one is made.
Status chooseLevel(pipeline::CompileOptions &options) {
  if (!options.gpus.empty()) {
    options.levels.clear();
    options.gpus.resize(1);
    return Status::ok();
  }
  std::vector<engine::CpuLevel> levels = options.levels;
  std::erase_if(levels, [](engine::CpuLevel level) { return !runtime::runsHere(level); });
  if (levels.empty()) {
    return Status::error(ErrorId::UnsupportedTarget, "this machine cannot run any of the targets",
                         "name a target that 'tenon doctor' lists, with --target");
  }
  options.levels = {levels.back()};
  return Status::ok();
}

} // namespace

Outcome outcomeOf(const Status &compiled) {
  if (compiled.isOk()) {
    return {};
  }
  bool isRefusal = compiled.code() == Code::Unsupported || compiled.code() == Code::Usage;
  return {.kind = isRefusal ? Outcome::Kind::Refused : Outcome::Kind::Fault,
          .id = compiled.id(),
          .text = compiled.toString()};
}

Outcome evaluateTrial(const Trial &trial) {
  ReferenceModel referenceModel;
  Status imported;
  std::optional<std::string> crash = pipeline::crashOf([&] {
    imported = referenceModel.importFile(trial.compile.model, trial.compile.extraOutputs,
                                         trial.inputs, trial.compile);
  });
  if (crash) {
    return {.kind = Outcome::Kind::Fault, .id = ErrorId::CompilerFault, .text = *crash};
  }
  if (!imported) {
    return {.kind = Outcome::Kind::Refused, .text = imported.toString()};
  }
  Result<pipeline::CompileSummary> compiled = pipeline::compile(trial.compile, trial.hooks);
  if (!compiled) {
    return outcomeOf(compiled.status());
  }
  Result<Tensors> expected = referenceModel.evaluate();
  Result<std::vector<NamedTensor>> actual =
      runEngine(trial.compile.output, variantOf(trial.compile), trial.threads, trial.inputs);
  if (!expected || !actual) {
    ErrorId left = expected ? ErrorId::None : expected.status().id();
    ErrorId right = actual ? ErrorId::None : actual.status().id();
    std::string text = strCat("reference: ", expected ? "results" : expected.status().toString(),
                              "; engine: ", actual ? "results" : actual.status().toString());
    return left == right ? Outcome{}
                         : Outcome{.kind = Outcome::Kind::RunError, .id = right, .text = text};
  }
  Tensors outputs;
  for (const NamedTensor &output : *actual) {
    outputs.push_back(output.tensor);
  }
  std::string difference = referenceModel.difference(*expected, outputs, trial.seed);
  return difference.empty() ? Outcome{}
                            : Outcome{.kind = Outcome::Kind::Different, .text = difference};
}

Result<std::vector<NamedTensor>> fromArrays(const std::vector<Tensor> &arrays) {
  std::vector<NamedTensor> inputs;
  for (const Tensor &array : arrays) {
    Bytes bytes = array.bytes();
    TENON_ASSIGN(
        reference::Tensor tensor,
        reference::Tensor::copy(array.dtype, array.dims,
                                {reinterpret_cast<const char *>(bytes.data()), bytes.size()}));
    inputs.push_back({array.name, std::move(tensor)});
  }
  return inputs;
}

Result<Trial> makeTrial(const pipeline::CompileOptions &compile,
                        const std::vector<NamedTensor> &given, uint64_t seed,
                        const std::string &scratch) {
  Trial trial;
  trial.compile = compile;
  trial.compile.output = scratch + "/model.tenon";
  trial.compile.cacheFolder.clear();
  trial.compile.reproducer.clear();
  trial.compile.progress = nullptr;
  trial.compile.verify = false;
  trial.threads = trial.compile.threads;
  trial.seed = seed;
  TENON_TRY(chooseLevel(trial.compile));
  TENON_ASSIGN(trial.inputs, inputsOf(trial.compile, given, seed));
  plant(trial.hooks);
  return trial;
}

Result<Trial> makeTrial(const DebugRequest &request, const std::string &scratch) {
  TENON_ASSIGN(std::vector<NamedTensor> given, fromArrays(request.inputs));
  return makeTrial(request.compile, given, request.seed, scratch);
}

std::vector<Tensor> toArrays(const std::vector<NamedTensor> &tensors) {
  std::vector<Tensor> arrays;
  for (const NamedTensor &named : tensors) {
    llvm::ArrayRef<int64_t> dims = named.tensor.dims();
    Result<Tensor> array =
        Tensor::create(named.name, named.tensor.dtype(), {dims.begin(), dims.end()});
    if (!array) {
      continue;
    }
    std::memcpy(array->data.data(), named.tensor.bytes(), named.tensor.byteCount());
    arrays.push_back(std::move(*array));
  }
  return arrays;
}

} // namespace tenon::debug
