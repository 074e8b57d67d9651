// Inner values are had as outputs (onnx::importWithExtraOutputs): so each is what the model says it
// is, whatever layout or fusion the compiler would choose for it.
#include "tools/debug/Layers.h"

#include "compiler/frontend/Frontend.h"
#include "compiler/frontend/onnx/wire/Pieces.h"
#include "compiler/frontend/pt2/wire/ArchiveReader.h"
#include "compiler/reference/Compare.h"
#include "support/files/MappedFile.h"
#include "support/files/ScratchFolder.h"
#include "support/text/Text.h"
#include "tools/debug/RunEngine.h"
#include "tools/debug/Trial.h"

#include <cmath>
#include <map>

namespace tenon::debug {
namespace {

using reference::Tensor;

/// The bits of a float as an integer that counts the numbers of its type in order.
template <typename Bits> int64_t rankOf(const char *bytes) {
  Bits bits;
  std::memcpy(&bits, bytes, sizeof(bits));
  constexpr Bits kSign = Bits(Bits(1) << (sizeof(Bits) * 8 - 1));
  int64_t magnitude = static_cast<int64_t>(static_cast<Bits>(bits & ~kSign));
  return bits & kSign ? -magnitude : magnitude;
}

int64_t rankOf(const Tensor &tensor, int64_t index) {
  size_t width = bitWidth(tensor.dtype()) / 8;
  const char *at = tensor.bytes() + index * static_cast<int64_t>(width);
  return width == 8   ? rankOf<uint64_t>(at)
         : width == 4 ? rankOf<uint32_t>(at)
                      : rankOf<uint16_t>(at);
}

/// The largest errors; both tensors have the same dims.
Status measure(const Tensor &expected, const Tensor &actual, LayerError &error) {
  TENON_ASSIGN(Tensor e, reference::convert(expected, DType::F64));
  TENON_ASSIGN(Tensor a, reference::convert(actual, DType::F64));
  bool areFloats = reference::isFloat(expected.dtype()) && reference::isFloat(actual.dtype());
  DType coarser =
      bitWidth(expected.dtype()) < bitWidth(actual.dtype()) ? expected.dtype() : actual.dtype();
  TENON_ASSIGN(Tensor eCoarse,
               areFloats ? reference::convert(expected, coarser) : Result<Tensor>(expected));
  TENON_ASSIGN(Tensor aCoarse,
               areFloats ? reference::convert(actual, coarser) : Result<Tensor>(actual));
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  for (int64_t i = 0; i < e.count(); ++i) {
    double x = e.as<double>()[i], y = a.as<double>()[i];
    error.largest = std::isfinite(x) ? std::max(error.largest, std::fabs(x)) : error.largest;
    if (x == y || (std::isnan(x) && std::isnan(y))) {
      continue;
    }
    double distance = std::fabs(x - y);
    bool isFinite = std::isfinite(distance);
    error.absolute = std::max(error.absolute, isFinite ? distance : kInfinity);
    error.relative = std::max(error.relative, !isFinite ? kInfinity
                                              : x == 0  ? 0
                                                        : distance / std::fabs(x));
    if (areFloats) {
      double ulps = std::fabs(static_cast<double>(rankOf(eCoarse, i)) -
                              static_cast<double>(rankOf(aCoarse, i)));
      error.ulps = std::max(error.ulps, isFinite ? ulps : kInfinity);
    }
  }
  return Status::ok();
}

class Comparer {
public:
  Comparer(const CompareRequest &request, std::string scratchFolder)
      : request(request), scratch(std::move(scratchFolder)) {}

  Result<LayerReport> run();

private:
  using Values = std::vector<NamedTensor>;
  Result<Values> valuesOf(const Side &side);
  Result<Values> compiled(const Trial &trial);
  Result<Trial> trialFor(const Side &side);
  Status readOrder();
  void noteResult(const pt2::Node &node, const pt2::Argument &result);
  /// Of b and of a, in b's order.
  using Pairs = std::vector<std::pair<const NamedTensor *, const NamedTensor *>>;
  Result<Pairs> match(const Values &expected, const Values &actual);
  LayerError compare(const NamedTensor &expected, const Tensor &actual);

  const CompareRequest &request;
  std::string scratch;
  std::vector<NamedTensor> inputs;                             ///< the same for both sides
  std::map<std::string, std::pair<size_t, std::string>> order; ///< place and node of each value
  LayerReport report;
};

/// A result that is a list stands for its elements.
void Comparer::noteResult(const pt2::Node &node, const pt2::Argument &result) {
  for (const pt2::Argument &element : result.elements) {
    noteResult(node, element);
  }
  if (result.isName()) {
    llvm::StringRef target = node.target;
    target.consume_front("torch.ops.");
    order[result.text] = {order.size(), strCat(target.str(), " '", node.name, "'")};
  }
}

/// The model's nodes say in which order values are made.
Status Comparer::readOrder() {
  const Side &model = request.b.kind == Side::Kind::Engine ? request.a : request.b;
  if (model.kind == Side::Kind::Engine) {
    return Status::ok();
  }
  TENON_ASSIGN(frontend::Format format, frontend::formatOf(model.path));
  TENON_ASSIGN(MappedFile file, MappedFile::open(model.path));
  if (format == frontend::Format::Pt2) {
    TENON_ASSIGN(pt2::Program program, pt2::readArchive(file.bytes()));
    for (const pt2::Node &node : program.graph.nodes) {
      for (const pt2::Argument &result : node.outputs) {
        noteResult(node, result);
      }
    }
    return Status::ok();
  }
  TENON_ASSIGN(onnx::Pieces pieces, onnx::Pieces::read(file.bytes()));
  for (const onnx::Pieces::Node &node : pieces.nodes()) {
    for (std::string_view result : node.results) {
      order[std::string(result)] = {order.size(), strCat(node.op, " '", node.name, "'")};
    }
  }
  return Status::ok();
}

/// Both sides get the same inputs: those of the first model, or those given.
Result<Trial> Comparer::trialFor(const Side &side) {
  pipeline::CompileOptions compile = request.base.compile;
  compile.model = side.path;
  TENON_ASSIGN(Trial trial, makeTrial(compile, inputs, request.base.seed, scratch));
  inputs = trial.inputs;
  if (request.wantsLayers) {
    trial.compile.extraOutputs = {"*"};
  }
  return trial;
}

Result<Comparer::Values> Comparer::compiled(const Trial &trial) {
  TENON_TRY(pipeline::compile(trial.compile, trial.hooks).takeStatus());
  TENON_ASSIGN(Values values, runEngine(trial.compile.output, "", trial.threads, trial.inputs));
  if (!request.wantsLayers) {
    return values;
  }
  Trial plain = trial;
  plain.compile.extraOutputs.clear();
  TENON_TRY(pipeline::compile(plain.compile, plain.hooks).takeStatus());
  TENON_ASSIGN(Values outputs, runEngine(plain.compile.output, "", plain.threads, plain.inputs));
  for (auto [with, without] : llvm::zip(values, outputs)) {
    bool isSame =
        with.tensor.byteCount() == without.tensor.byteCount() &&
        std::memcmp(with.tensor.bytes(), without.tensor.bytes(), with.tensor.byteCount()) == 0;
    report.tapsChangeOutputs = report.tapsChangeOutputs || !isSame;
  }
  return values;
}

Result<Comparer::Values> Comparer::valuesOf(const Side &side) {
  if (side.kind == Side::Kind::Engine) {
    return runEngine(side.path, "", request.base.compile.threads, inputs);
  }
  TENON_ASSIGN(Trial trial, trialFor(side));
  if (side.kind == Side::Kind::Compiled) {
    return compiled(trial);
  }
  ReferenceModel referenceModel;
  TENON_TRY(referenceModel.importFile(side.path, trial.compile.extraOutputs, trial.inputs,
                                      trial.compile));
  TENON_ASSIGN(Tensors results, referenceModel.evaluate());
  Values values;
  for (auto [name, tensor] : llvm::zip_equal(referenceModel.names(), results)) {
    values.push_back({name, tensor});
  }
  return values;
}

LayerError Comparer::compare(const NamedTensor &expected, const Tensor &actual) {
  LayerError error;
  error.name = expected.name;
  error.node = order.contains(expected.name) ? order[expected.name].second : "";
  error.dtype = nameOf(expected.tensor.dtype());
  error.dims.assign(expected.tensor.dims().begin(), expected.tensor.dims().end());
  DType coarser = bitWidth(expected.tensor.dtype()) < bitWidth(actual.dtype())
                      ? expected.tensor.dtype()
                      : actual.dtype();
  reference::Tolerance tolerance = reference::toleranceOf(coarser);
  tolerance.relative = request.relative.value_or(tolerance.relative);
  tolerance.absolute = request.absolute.value_or(tolerance.absolute);
  reference::Comparison comparison = reference::compareTensors(expected.tensor, actual, tolerance);
  error.mismatch = comparison.mismatch;
  error.beyond = comparison.different;
  if (error.mismatch.empty()) {
    Status measured = measure(expected.tensor, actual, error);
    error.mismatch = measured ? "" : std::string(measured.message());
  }
  return error;
}

Result<Comparer::Pairs> Comparer::match(const Values &expected, const Values &actual) {
  std::map<std::string, std::string> named;
  for (const auto &[a, b] : request.map) {
    auto has = [](const Values &values, const std::string &name) {
      return llvm::any_of(values, [&](const NamedTensor &value) { return value.name == name; });
    };
    if (!has(actual, a) || !has(expected, b)) {
      return Status::error(
          ErrorId::BadArgument,
          strCat("--map ", a, "=", b, ": there is no '", has(actual, a) ? b : a, "'"),
          "'tenon inspect' lists the outputs");
    }
    named[b] = a;
  }
  std::map<std::string, const NamedTensor *> left;
  for (const NamedTensor &value : actual) {
    left[value.name] = &value;
  }
  Pairs pairs;
  for (const NamedTensor &value : expected) {
    auto other = left.find(named.contains(value.name) ? named[value.name] : value.name);
    pairs.push_back({&value, other == left.end() ? nullptr : other->second});
    if (other != left.end()) {
      left.erase(other);
    }
  }
  auto isAlone = [](const auto &pair) { return !pair.second; };
  bool byPlace =
      !request.wantsLayers && left.size() == static_cast<size_t>(llvm::count_if(pairs, isAlone));
  for (const NamedTensor &value : actual) {
    if (!left.contains(value.name)) {
      continue;
    }
    if (byPlace) {
      llvm::find_if(pairs, isAlone)->second = &value;
    } else {
      report.onlyInA.push_back(value.name);
    }
  }
  for (const auto &[value, other] : pairs) {
    if (!other) {
      report.onlyInB.push_back(value->name);
    }
  }
  llvm::erase_if(pairs, isAlone);
  if (pairs.empty()) {
    return Status::error(ErrorId::BadArgument,
                         "nothing to compare: the two have no names in common",
                         "say which values belong together: --map NAME_IN_A=NAME_IN_B");
  }
  return pairs;
}

Result<LayerReport> Comparer::run() {
  TENON_TRY(readOrder());
  TENON_ASSIGN(inputs, fromArrays(request.base.inputs));
  TENON_ASSIGN(Values expected, valuesOf(request.b));
  TENON_ASSIGN(Values actual, valuesOf(request.a));
  TENON_ASSIGN(Pairs pairs, match(expected, actual));
  std::map<std::pair<size_t, size_t>, LayerError> layers;
  for (auto [value, other] : pairs) {
    // What no node makes comes last, in b's order.
    size_t place = order.contains(value->name) ? order[value->name].first : order.size();
    LayerError &layer = layers[{place, layers.size()}] = compare(*value, other->tensor);
    layer.nameInA = value->name == other->name ? "" : other->name;
  }
  for (auto &[place, layer] : layers) {
    report.layers.push_back(std::move(layer));
  }
  return report;
}

} // namespace

Result<LayerReport> compareLayers(const CompareRequest &request) {
  TENON_ASSIGN(ScratchFolder folder, ScratchFolder::create("tenon-compare"));
  return Comparer(request, folder.path()).run();
}

} // namespace tenon::debug
