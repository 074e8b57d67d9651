// Hashes model, options and compiler into one key. Relies on the build stamp to tell builds of this
// compiler apart, since a version number does not change while it is worked on.
#include "compiler/pipeline/ModelKey.h"

#include "compiler/api/VisitFields.h"
#include "compiler/frontend/language/Folder.h"
#include "compiler/frontend/onnx/wire/ExternalData.h"
#include "compiler/frontend/onnx/wire/ModelReader.h"
#include "compiler/frontend/weights/gguf/Parts.h"
#include "compiler/kernels/Library.h"
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

llvm::json::Value describeDim(const ShapeArgument::Dim &dim) {
  if (dim.keep) {
    return "keep";
  }
  if (dim.min == dim.max) {
    return dim.min;
  }
  return llvm::json::Array{dim.min, dim.max};
}

llvm::json::Object describeShapes(const std::vector<ShapeArgument> &shapes) {
  llvm::json::Object result;
  for (const ShapeArgument &shape : shapes) {
    llvm::json::Array dims;
    for (const ShapeArgument::Dim &dim : shape.dims) {
      dims.push_back(describeDim(dim));
    }
    result[shape.input] = std::move(dims);
  }
  return result;
}

llvm::json::Value describe(const std::string &text) { return text; }
llvm::json::Value describe(engine::CpuLevel level) { return std::string(engine::nameOf(level)); }
llvm::json::Value describe(const SizesArgument &sizes) {
  return sizes.only ? llvm::json::Value(*sizes.only)
                    : llvm::json::Value(describeShapes(sizes.shapes));
}
llvm::json::Value describe(const opt::Observation &observation) { return observation.text(); }
llvm::json::Value describe(const KernelOption &kernel) { return kernel.node + "=" + kernel.kernel; }
llvm::json::Value describe(const PresetOption &preset) {
  return preset.symbol + "=" + std::to_string(preset.value);
}
llvm::json::Value describe(const std::shared_ptr<const kernels::Library> &library) {
  size_t slash = library->path.rfind('/');
  return library->path.substr(slash == std::string::npos ? 0 : slash + 1) + "@" + library->digest;
}
llvm::json::Value describe(const UserPass &pass) { return pass.name; }

/// The options as JSON, in which lists are left out where they are empty, but for levels.
class Describer {
public:
  template <typename T> void operator()(llvm::StringRef name, const std::vector<T> &list) {
    for (const T &each : list) {
      add(name, describe(each));
    }
  }
  void operator()(llvm::StringRef name, const std::vector<target::Target> &gpus) {
    for (const target::Target &gpu : gpus) {
      add(name, std::string(gpu.variant()));
      profiles += target::describe(gpu);
    }
  }
  void operator()(llvm::StringRef, const target::Target &cpu) { profiles += target::describe(cpu); }
  void operator()(llvm::StringRef name, const std::vector<ShapeArgument> &shapes) {
    all[name] = describeShapes(shapes);
  }
  void operator()(llvm::StringRef name, const std::vector<FixedInput> &inputs) {
    for (const FixedInput &input : inputs) {
      add(name, input.input, hashBytes(input.bytes).hex());
    }
  }
  void operator()(llvm::StringRef name, const std::vector<StateOption> &states) {
    for (const StateOption &state : states) {
      add(name, state.input, state.output);
    }
  }
  void operator()(llvm::StringRef name, bool isOn) { all[name] = isOn; }
  void operator()(llvm::StringRef name, uint64_t number) {
    if (number > 0) {
      all[name] = number;
    }
  }
  void operator()(llvm::StringRef name, const std::optional<Assembler> &assembler) {
    if (assembler) {
      all[name] = assembler->name;
    }
  }
  void operator()(llvm::StringRef name, const std::optional<opt::Precision> &precision) {
    all[name] = precision ? nameOf(*precision) : "keep";
  }
  void operator()(llvm::StringRef name, const std::optional<DType> &type) {
    if (type) {
      all[name] = llvm::StringRef(nameOf(*type));
    }
  }
  void operator()(llvm::StringRef name, const std::optional<uint64_t> &number) {
    if (number) {
      all[name] = *number;
    }
  }
  void operator()(llvm::StringRef name, const std::optional<double> &number) {
    if (number) {
      all[name] = *number;
    }
  }
  /// A store's contents are no option, but part of the key.
  void operator()(llvm::StringRef, const std::shared_ptr<const tuning::TuningDatabase> &tuned) {
    digest = tuned ? tuned->digest() : "";
  }

  std::string text() const {
    llvm::json::Object whole = all;
    whole["profile"] = hashText(profiles).hex();
    std::string text;
    llvm::raw_string_ostream(text) << llvm::json::Value(std::move(whole));
    return text;
  }
  std::string digest; ///< of what was measured

private:
  void add(llvm::StringRef list, llvm::json::Value value) {
    all.try_emplace(list, llvm::json::Array{}).first->second.getAsArray()->push_back(value);
  }
  void add(llvm::StringRef object, const std::string &key, const std::string &value) {
    all.try_emplace(object, llvm::json::Object{}).first->second.getAsObject()->insert({key, value});
  }

  llvm::json::Object all{{"levels", llvm::json::Array{}}};
  std::string profiles;
};

Describer describeFields(const CompileOptions &options) {
  Describer describer;
  visitFields(options, describer);
  return describer;
}

/// A folder is what its files are, by their names.
Status identifyFolder(const std::string &path, ModelIdentity &identity) {
  Result<std::vector<std::string>> files = language::filesOfFolder(path);
  if (!files) {
    return files.takeStatus().prefix(path);
  }
  std::string text = "folder\n";
  for (const std::string &name : *files) {
    identity.data.push_back({name, FileStamp::of(name)});
    TENON_ASSIGN(MappedFile file, MappedFile::open(name));
    text += strCat(std::string_view(name).substr(path.size()), '\n', hashBytes(file.bytes()).hex(),
                   '\n');
  }
  identity.model = hashText(text);
  return Status::ok();
}

} // namespace

std::string compilerVersion() { return TENON_VERSION; }

std::string describeOptions(const CompileOptions &options) {
  return describeFields(options).text();
}

Result<ModelIdentity> identify(const CompileOptions &options) {
  ModelIdentity identity;
  identity.file = {options.model, FileStamp::of(options.model)};
  std::error_code error;
  bool isFolder = std::filesystem::is_directory(options.model, error);
  MappedFile file;
  if (isFolder) {
    TENON_TRY(identifyFolder(options.model, identity));
  } else {
    TENON_ASSIGN(file, MappedFile::open(options.model));
    identity.model = hashBytes(file.bytes());
  }
  std::string place = std::filesystem::absolute(options.model, error).parent_path();
  Describer described = describeFields(options);
  identity.key =
      hashText(strCat("engine\n", identity.model.hex(), '\n', place, '\n', described.text(), '\n',
                      compilerVersion(), '\n', buildStamp(), '\n', described.digest));
  if (isFolder) {
    return identity;
  }
  for (const std::string &part : gguf::laterParts(options.model)) {
    identity.data.push_back({part, FileStamp::of(part)});
  }
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
                         "compile again when nothing writes to it");
  };
  for (const InputFile &input : data) {
    TENON_TRY(check(input));
  }
  return check(file);
}

} // namespace tenon::pipeline
