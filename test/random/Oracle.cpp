// Relies on tools/debug for the reference and for what rounding may do to it.
#include "test/random/Oracle.h"

#include "compiler/frontend/onnx/Onnx.h"
#include "compiler/pipeline/Pipeline.h"
#include "runtime/tensors/Npy.h"
#include "support/text/Text.h"
#include "test/random/Faults.h"
#include "tools/debug/RunEngine.h"
#include "tools/debug/Trial.h"

#include <filesystem>
#include <fstream>
#include <map>

using namespace mlir;

namespace tenon::random {
namespace {

using debug::NamedTensor;
using debug::ReferenceModel;
using debug::Tensors;
using reference::Tensor;

/// What the seed decides beside the model.
struct Setting {
  std::vector<engine::CpuLevel> levels;
  std::vector<target::Target> gpus;
  unsigned threads = 1;
  bool optimize = true;
  bool isSymbolic = true;

  std::string text() const {
    return strCat(gpus.empty() ? engine::nameOf(levels.front()) : gpus.front().variant(), ", ",
                  threads, " threads, ", optimize ? "optimized" : "as imported",
                  isSymbolic ? ", symbolic" : ", constant sizes");
  }
};

Setting settingOf(uint64_t seed, const OracleOptions &options) {
  Random draw(seed ^ 0x5e77);
  Setting setting{.levels = {draw.of(options.levels)}, .gpus = options.gpus};
  if (!options.gpus.empty()) {
    setting.levels.clear();
  }
  setting.threads = static_cast<unsigned>(draw.within(1, 2));
  setting.optimize = draw.chance(0.8);
  setting.isSymbolic = draw.chance(0.8);
  return setting;
}

/// What the seed gives the inputs.
std::vector<std::string> inputBytes(const Model &model, uint64_t seed) {
  Random draw(seed ^ 0x1a9u);
  std::vector<std::string> inputs;
  for (const Port &port : model.inputs) {
    inputs.push_back(encode(port.value.type,
                            elementsOf(draw, port.value.type, port.value.count(), port.content)));
  }
  return inputs;
}

/// The inputs of the seed by their names.
Result<std::vector<NamedTensor>> drawInputs(const Model &model, uint64_t seed) {
  std::vector<std::string> drawn = inputBytes(model, seed);
  std::vector<NamedTensor> inputs;
  for (auto [port, bytes] : llvm::zip_equal(model.inputs, drawn)) {
    TENON_ASSIGN(Tensor tensor,
                 Tensor::copy(port.value.type, port.value.sizes, {bytes.data(), bytes.size()}));
    inputs.push_back({port.value.name, std::move(tensor)});
  }
  return inputs;
}

Status importReference(const Model &model, const std::vector<NamedTensor> &inputs,
                       ReferenceModel &referenceModel) {
  return referenceModel.import(
      [&](const onnx::ImportOptions &options, MLIRContext &context, tn::WeightStore &store) {
        return onnx::importOnnx(std::as_bytes(std::span(model.bytes)), "", options, context, store);
      },
      inputs);
}

Result<pipeline::CompileSummary> compileModel(const Model &model, const Setting &setting,
                                              const OracleOptions &options, bool &isTouched) {
  pipeline::CompileOptions compile;
  compile.model = options.scratchFolder + "/model.onnx";
  compile.output = options.scratchFolder + "/model.tenon";
  std::ofstream(compile.model, std::ios::binary) << model.bytes;
  for (const Port &port : model.inputs) {
    ShapeArgument shape{.input = port.value.name, .dims = {}};
    for (auto [dim, size] : llvm::zip_equal(port.value.dims, port.value.sizes)) {
      ShapeArgument::Dim range{size, size};
      for (const Symbol &symbol : model.symbols) {
        if (setting.isSymbolic && dim == Dim(symbol.name)) {
          range = {symbol.min, symbol.max};
        }
      }
      shape.dims.push_back(range);
    }
    compile.shapes.push_back(std::move(shape));
  }
  compile.levels = setting.levels;
  compile.gpus = setting.gpus;
  compile.optimize = setting.optimize;
  compile.threads = 1;
  compile.cacheFolder = options.scratchFolder + "/cache";
  pipeline::CompileHooks hooks;
  if (!options.fault.empty()) {
    hooks.afterPhase = [&](pipeline::Phase phase, ModuleOp module) {
      isTouched = plantFault(options.fault, phase, module) || isTouched;
    };
    pipeline::CompileOptions dry = compile;
    dry.stopAfter = pipeline::Phase::Dispatch;
    dry.output.clear();
    Result<pipeline::CompileSummary> summary = pipeline::compile(dry, hooks);
    if (!summary || !isTouched) {
      return summary;
    }
  }
  return pipeline::compile(compile, hooks);
}

Result<Tensors> run(const Setting &setting, const OracleOptions &options,
                    const std::vector<NamedTensor> &inputs) {
  std::string variant(setting.gpus.empty() ? engine::nameOf(setting.levels.front())
                                           : setting.gpus.front().variant());
  TENON_ASSIGN(
      std::vector<NamedTensor> outputs,
      debug::runEngine(options.scratchFolder + "/model.tenon", variant, setting.threads, inputs));
  Tensors tensors;
  for (NamedTensor &output : outputs) {
    tensors.push_back(std::move(output.tensor));
  }
  return tensors;
}

/// The engine on another draw of sizes.
class OtherSizes {
public:
  OtherSizes(const Model &model, uint64_t seed, const Setting &setting,
             const OracleOptions &options)
      : model(model), seed(seed), setting(setting), options(options), draw(seed ^ 0x0b5e) {}

  /// What is wrong with one symbol outside of its range, which must be an error.
  std::string outside();
  /// The same with all symbols in their ranges: where the import refuses these sizes as constants,
  /// the engine must refuse them too; else both give the same, or the engine says which constraint
  /// it has.
  std::string inside();

private:
  using Sizes = std::map<std::string, int64_t>;
  Result<std::vector<NamedTensor>> inputsFor(const Sizes &symbols);
  bool isUsed(const Symbol &symbol) const {
    return llvm::any_of(model.inputs, [&](const Port &port) {
      return llvm::is_contained(port.value.dims, Dim(symbol.name));
    });
  }

  const Model &model;
  uint64_t seed;
  const Setting &setting;
  const OracleOptions &options;
  Random draw;
};

/// Larger inputs take too long.
constexpr int64_t kMaxElements = 100000;

/// An error about sizes, as the user would be told.
bool isSizeError(ErrorId id) {
  return id == ErrorId::RunInputDim || id == ErrorId::RunInputMismatch ||
         id == ErrorId::RunShapeConstraint;
}

std::string textOf(const std::map<std::string, int64_t> &symbols) {
  std::string text;
  for (const auto &[name, value] : symbols) {
    text += strCat(text.empty() ? "" : ", ", name, " = ", value);
  }
  return text;
}

Result<std::vector<NamedTensor>> OtherSizes::inputsFor(const Sizes &symbols) {
  std::vector<NamedTensor> inputs;
  for (const Port &port : model.inputs) {
    std::vector<int64_t> sizes = port.value.sizes;
    int64_t count = 1;
    for (auto [size, dim] : llvm::zip_equal(sizes, port.value.dims)) {
      const std::string *name = std::get_if<std::string>(&dim);
      size = name && symbols.contains(*name) ? symbols.at(*name) : size;
      count *= size;
      if (count > kMaxElements) {
        return Status::error(ErrorId::RunOutOfMemory, "too large for a test");
      }
    }
    std::string bytes =
        encode(port.value.type, elementsOf(draw, port.value.type, count, port.content));
    TENON_ASSIGN(Tensor tensor, Tensor::copy(port.value.type, sizes, {bytes.data(), bytes.size()}));
    inputs.push_back({port.value.name, std::move(tensor)});
  }
  return inputs;
}

std::string OtherSizes::outside() {
  std::vector<Symbol> used;
  llvm::copy_if(model.symbols, std::back_inserter(used),
                [&](const Symbol &symbol) { return isUsed(symbol); });
  if (used.empty()) {
    return "";
  }
  const Symbol &symbol = draw.of(used);
  int64_t size = symbol.min > 0 && draw.chance(0.5) ? symbol.min - 1 : symbol.max + 1;
  Sizes sizes = {{symbol.name, size}};
  Result<std::vector<NamedTensor>> inputs = inputsFor(sizes);
  Result<Tensors> actual = inputs ? run(setting, options, *inputs) : inputs.status();
  bool isRefused = !inputs || (!actual && isSizeError(actual.status().id()));
  // A run of no items that has no results to compute is answered whatever was declared.
  bool isEmpty = size == 0 && actual &&
                 llvm::all_of(*actual, [](const Tensor &tensor) { return tensor.count() == 0; });
  return isRefused || isEmpty
             ? ""
             : strCat("with ", textOf(sizes),
                      ", out of range: ", actual ? "results" : actual.status().toString());
}

std::string OtherSizes::inside() {
  Sizes sizes;
  for (const Symbol &symbol : model.symbols) {
    sizes[symbol.name] = draw.within(symbol.min, std::min(symbol.max, symbol.value + 4));
  }
  Result<std::vector<NamedTensor>> inputs = inputsFor(sizes);
  ReferenceModel referenceModel;
  Status imported = inputs ? importReference(model, *inputs, referenceModel) : inputs.status();
  if (!inputs || imported.id() == ErrorId::ModelHasGaps) {
    return "";
  }
  Result<Tensors> actual = run(setting, options, *inputs);
  std::string what = strCat("with ", textOf(sizes), ": ");
  if (!imported) {
    bool isRefused = !actual && isSizeError(actual.status().id());
    return isRefused ? ""
                     : strCat(what, "import: ", imported.toString(),
                              "; engine: ", actual ? "results" : actual.status().toString());
  }
  Result<Tensors> expected = referenceModel.evaluate();
  if (!expected || !actual) {
    ErrorId left = expected ? ErrorId::None : expected.status().id();
    ErrorId right = actual ? ErrorId::None : actual.status().id();
    return left == right || isSizeError(right)
               ? ""
               : strCat(what, "reference: ", expected ? "results" : expected.status().toString(),
                        "; engine: ", actual ? "results" : actual.status().toString());
  }
  std::string difference = referenceModel.difference(*expected, *actual, seed);
  return difference.empty() ? "" : what + difference;
}

bool hasEmptyInput(const Model &model) {
  return llvm::any_of(model.inputs,
                      [](const Port &port) { return llvm::is_contained(port.value.sizes, 0); });
}

Outcome compare(const Model &model, uint64_t seed, const OracleOptions &options,
                ReferenceModel &referenceModel) {
  Setting setting = settingOf(seed, options);
  Result<std::vector<NamedTensor>> inputs = drawInputs(model, seed);
  if (!inputs) {
    return {Verdict::Different, inputs.status().toString()};
  }
  Status imported = importReference(model, *inputs, referenceModel);
  if (!imported) {
    return {Verdict::Refused, imported.toString()};
  }
  Result<Tensors> expected = referenceModel.evaluate();
  bool isTouched = options.fault.empty();
  Result<pipeline::CompileSummary> compiled = compileModel(model, setting, options, isTouched);
  auto different = [&](const std::string &what) {
    return Outcome{Verdict::Different, strCat("(", setting.text(), ") ", what)};
  };
  if (!compiled && compiled.status().code() == Code::Unsupported) {
    return {Verdict::Refused, compiled.status().toString()};
  }
  if (!isTouched) {
    return {Verdict::Untouched, ""};
  }
  if (!compiled) {
    return different(compiled.status().toString());
  }
  Result<Tensors> actual = run(setting, options, *inputs);
  if (!expected || !actual) {
    ErrorId left = expected ? ErrorId::None : expected.status().id();
    ErrorId right = actual ? ErrorId::None : actual.status().id();
    // Symbols are taken to be at least what positions counted from an end need: with a size of zero
    // these name other elements, which no expression over the symbols does.
    if (expected && setting.isSymbolic && right == ErrorId::RunShapeConstraint &&
        hasEmptyInput(model)) {
      return {Verdict::Refused, actual.status().toString()};
    }
    bool isSame = left == right;
    return isSame ? Outcome{}
                  : different(
                        strCat("reference: ", expected ? "results" : expected.status().toString(),
                               "; engine: ", actual ? "results" : actual.status().toString()));
  }
  std::string difference = referenceModel.difference(*expected, *actual, seed);
  if (difference.empty() && setting.isSymbolic) {
    OtherSizes other(model, seed, setting, options);
    difference = other.outside();
    difference = difference.empty() ? other.inside() : difference;
  }
  return difference.empty() ? Outcome{} : different(difference);
}

} // namespace

void dumpModel(const Model &model, uint64_t seed, const std::string &text,
               const std::string &folder) {
  std::string place = strCat(folder, '/', seed);
  std::filesystem::create_directories(place);
  std::ofstream(place + "/model.onnx", std::ios::binary) << model.bytes;
  std::ofstream(place + "/difference.txt") << text << '\n';
  std::vector<tenon::Tensor> arrays;
  std::vector<std::string> inputs = inputBytes(model, seed);
  for (auto [port, bytes] : llvm::zip_equal(model.inputs, inputs)) {
    Result<tenon::Tensor> array =
        tenon::Tensor::create(port.value.name, port.value.type, port.value.sizes);
    if (array) {
      std::copy(bytes.begin(), bytes.end(), reinterpret_cast<char *>(array->data.data()));
      arrays.push_back(std::move(*array));
    }
  }
  (void)writeNpz(place + "/inputs.npz", arrays);
}

Outcome checkModel(const Model &model, uint64_t seed, const OracleOptions &options) {
  ReferenceModel referenceModel;
  Outcome outcome = compare(model, seed, options, referenceModel);
  if (outcome.verdict == Verdict::Different && !options.fault.empty()) {
    // What differs without the fault too does not show that it was found.
    OracleOptions sound = options;
    sound.fault.clear();
    sound.dumpFolder.clear();
    if (checkModel(model, seed, sound).verdict != Verdict::Same) {
      outcome.verdict = Verdict::Untouched;
    }
  }
  bool isDumped = outcome.verdict == Verdict::Different ||
                  (outcome.verdict == Verdict::Same && options.dumpsAll);
  if (isDumped && !options.dumpFolder.empty()) {
    dumpModel(model, seed, outcome.text, options.dumpFolder);
  }
  return outcome;
}

Outcome checkPeer(const Model &model, uint64_t seed, const std::string &folder) {
  std::string path = strCat(folder, '/', seed, "/peer.npz");
  if (!std::filesystem::exists(path)) {
    return {Verdict::Refused, "the peer gave nothing"};
  }
  Result<std::vector<tenon::Tensor>> arrays =
      readNpz(path, [](const std::string &, const NpyHeader &) { return Status::ok(); });
  Result<std::vector<NamedTensor>> peer = arrays ? debug::fromArrays(*arrays) : arrays.status();
  Result<std::vector<NamedTensor>> inputs = drawInputs(model, seed);
  ReferenceModel referenceModel;
  Status imported = inputs ? importReference(model, *inputs, referenceModel) : inputs.status();
  if (!peer || !imported) {
    return {Verdict::Different, peer ? imported.toString() : peer.status().toString()};
  }
  Result<Tensors> expected = referenceModel.evaluate();
  Result<Tensors> actual = debug::inOrder(*peer, referenceModel.names());
  if (!expected || !actual) {
    return {Verdict::Different,
            strCat("reference: ", expected ? "results" : expected.status().toString(),
                   "; peer: ", actual ? "results" : actual.status().toString())};
  }
  std::string difference = referenceModel.difference(*expected, *actual, seed);
  return difference.empty() ? Outcome{} : Outcome{Verdict::Different, difference};
}

} // namespace tenon::random
