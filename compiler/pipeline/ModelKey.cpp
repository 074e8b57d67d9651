// Hashes model, options and compiler into one key. Relies on the build stamp to tell builds of this
// compiler apart, since a version number does not change while it is worked on.
#include "compiler/pipeline/ModelKey.h"

#include "compiler/frontend/onnx/wire/ExternalData.h"
#include "compiler/frontend/onnx/wire/ModelReader.h"
#include "compiler/pipeline/BuildStamp.h"
#include "compiler/target/Target.h"
#include "support/files/MappedFile.h"
#include "support/text/Text.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/raw_ostream.h"

#include <algorithm>
#include <filesystem>
#include <set>

namespace tenon::pipeline {
namespace {

void collectExternal(const onnx::Tensor &tensor, std::set<std::string> &locations) {
  if (!tensor.external) {
    return;
  }
  Result<onnx::ExternalLocation> location = onnx::parseExternalLocation(tensor);
  if (location && !location->seeded) {
    locations.insert(std::string(location->location));
  }
}

void collectExternal(const std::vector<onnx::Node> &nodes, std::set<std::string> &locations);

void collectExternal(const onnx::Graph &graph, std::set<std::string> &locations) {
  for (const onnx::Tensor &tensor : graph.initializers) {
    collectExternal(tensor, locations);
  }
  collectExternal(graph.nodes, locations);
}

void collectExternal(const std::vector<onnx::Node> &nodes, std::set<std::string> &locations) {
  for (const onnx::Node &node : nodes) {
    for (const onnx::Attribute &attribute : node.attributes) {
      if (attribute.tensor) {
        collectExternal(*attribute.tensor, locations);
      }
      if (attribute.graph) {
        collectExternal(*attribute.graph, locations);
      }
    }
  }
}

llvm::json::Value describeDim(const ShapeOption::Dim &dim) {
  if (dim.keep) {
    return "keep";
  }
  if (dim.min == dim.max) {
    return dim.min;
  }
  return llvm::json::Array{dim.min, dim.max};
}

llvm::json::Object describeShapes(const std::vector<ShapeOption> &shapes) {
  llvm::json::Object result;
  for (const ShapeOption &shape : shapes) {
    llvm::json::Array dims;
    for (const ShapeOption::Dim &dim : shape.dims) {
      dims.push_back(describeDim(dim));
    }
    result[shape.input] = std::move(dims);
  }
  return result;
}

} // namespace

std::string compilerVersion() { return TENON_VERSION; }

std::string describeOptions(const CompileOptions &options) {
  llvm::json::Object shapes = describeShapes(options.shapes);
  llvm::json::Array levels;
  for (engine::CpuLevel level : options.levels) {
    levels.push_back(std::string(engine::nameOf(level)));
  }
  std::string profiles = target::describe(options.cpu);
  for (const target::Target &gpu : options.gpus) {
    levels.push_back(std::string(gpu.variant()));
    profiles += target::describe(gpu);
  }
  llvm::json::Object all{{"levels", std::move(levels)},
                         {"shapes", std::move(shapes)},
                         {"precision", options.precision ? nameOf(*options.precision) : "keep"},
                         {"allow_tf32", options.allowTf32},
                         {"allow_tanh_gelu", options.allowTanhGelu},
                         {"adds_levels", options.addsLevels},
                         {"optimize", options.optimize},
                         {"guard", options.guard},
                         {"profile", hashText(profiles).hex()}};
  if (options.assembler) {
    all["cubin"] = options.assembler->name;
  }
  for (const SizeSet &sizes : options.optimizeFor) {
    all.try_emplace("optimize_for", llvm::json::Array{})
        .first->second.getAsArray()
        ->push_back(sizes.only ? llvm::json::Value(*sizes.only)
                               : llvm::json::Value(describeShapes(sizes.shapes)));
  }
  for (const StateOption &state : options.states) {
    all.try_emplace("states", llvm::json::Object{})
        .first->second.getAsObject()
        ->insert({state.input, state.output});
  }
  for (const KernelOption &kernel : options.kernels) {
    all.try_emplace("kernels", llvm::json::Array{})
        .first->second.getAsArray()
        ->push_back(kernel.node + "=" + kernel.kernel);
  }
  if (options.maxWeights) {
    all["max_weights"] = *options.maxWeights;
  }
  if (!options.disabledFamilies.empty()) {
    all["disabled_families"] = llvm::json::Array(options.disabledFamilies);
  }
  if (!options.taps.empty()) {
    all["taps"] = llvm::json::Array(options.taps);
  }
  for (const opt::Observation &observation : options.observed) {
    all.try_emplace("observed", llvm::json::Array{})
        .first->second.getAsArray()
        ->push_back(observation.text());
  }
  for (const UserPass &pass : options.passes) {
    all.try_emplace("passes", llvm::json::Array{}).first->second.getAsArray()->push_back(pass.name);
  }
  for (const FixedInput &input : options.fixed) {
    all.try_emplace("fixed", llvm::json::Object{})
        .first->second.getAsObject()
        ->insert({input.input, hashBytes(input.bytes).hex()});
  }
  std::string text;
  llvm::raw_string_ostream stream(text);
  stream << llvm::json::Value(std::move(all));
  return text;
}

Result<ModelIdentity> identify(const CompileOptions &options) {
  ModelIdentity identity;
  identity.file = {options.model, FileStamp::of(options.model)};
  TENON_ASSIGN(MappedFile file, MappedFile::open(options.model));
  identity.model = hashBytes(file.bytes());
  std::error_code error;
  std::string place = std::filesystem::absolute(options.model, error).parent_path();
  identity.key =
      hashText(strCat("engine\n", identity.model.hex(), '\n', place, '\n', describeOptions(options),
                      '\n', compilerVersion(), '\n', buildStamp(), '\n',
                      options.tuned ? options.tuned->digest() : std::string()));
  Result<onnx::Model> model = onnx::readModel(file.bytes());
  if (!model) {
    return identity; // import will say what is wrong with it
  }
  std::set<std::string> locations;
  collectExternal(model->graph, locations);
  for (const onnx::Function &function : model->functions) {
    collectExternal(function.nodes, locations);
  }
  for (const std::string &location : locations) {
    std::string path = strCat(place, '/', location);
    identity.data.push_back({path, FileStamp::of(path)});
  }
  return identity;
}

Status ModelIdentity::checkUnchanged() const {
  auto check = [](const InputFile &input) {
    if (FileStamp::of(input.path) == input.stamp) {
      return Status::ok();
    }
    return Status::error(ErrorId::ModelChanged,
                         strCat("'", input.path, "' changed while it was compiled"),
                         "compile again when nothing writes to it any more");
  };
  for (const InputFile &input : data) {
    TENON_TRY(check(input));
  }
  return check(file);
}

} // namespace tenon::pipeline
