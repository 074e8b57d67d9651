// What the verbs need of the compiler, free of MLIR: the command line is built with exceptions and
// RTTI, MLIR without. Of the tool only files of this folder include MLIR, those of tool_bridge.

#pragma once

#include "compiler/api/CompileOptions.h"
#include "compiler/pipeline/CompileSummary.h"
#include "runtime/tensors/ShapeText.h"
#include "support/Result.h"
#include "tools/tenon/model/SizeNeed.h"

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace tenon::tool {

/// For the whole process: what would end it inside of the compiler becomes a Status.
void containCrashes();
/// The same while an object of this kind lives.
class ContainedCrashes {
public:
  ContainedCrashes();
  ~ContainedCrashes();
  ContainedCrashes(const ContainedCrashes &) = delete;
  ContainedCrashes &operator=(const ContainedCrashes &) = delete;
};

/// As pipeline::compile.
Result<pipeline::CompileSummary> compileModel(const pipeline::CompileOptions &options);

/// Whether kernel families have these revisions ("conv_grouped 1, gemm_packed 1") in this build.
bool areFamiliesCurrent(std::string_view families);

/// The files with weights that a model names, or that lie beside a dumped phase; none for a file
/// that cannot be read.
std::vector<std::string> dataFilesOf(const std::string &model);
/// Of a model file and those of its weights; 0 for what cannot be read.
uint64_t bytesOfModel(const std::string &model);

/// Something that a model needs and Tenon lacks; see frontend::Gap.
struct ModelGap {
  std::string op;
  std::string domain;
  int64_t opset = 0;
  std::string node;
  std::string source; ///< file and line of the model's program; may be empty
  std::string dtype;
  int rank = -1;
  std::string why;
  std::string workaround;
};

struct ModelValue {
  std::string name;
  std::string type; ///< "f32 [batch, 3, 224, 224]"
};

struct ModelSymbol {
  std::string name;
  int64_t min = 1;
  int64_t max = 1;
};

struct ModelNode {
  std::string op;
  std::string name;               ///< of the model's node; may be empty
  std::string type;               ///< of the first result
  std::vector<int64_t> producers; ///< indices of the nodes it reads; inputs come as -1 - index
};

/// An operator set that the model imports.
struct ModelOpset {
  std::string domain; ///< "" for ai.onnx
  int64_t version = 0;
};

/// A model as it was imported. With gaps, it is as the file has it: types as they are declared,
/// nodes and counts of ONNX's operators, no symbols.
struct ModelInfo {
  /// Of a model with gaps: what --shape takes for each input with free sizes, `x:?x3x48x?`, to be
  /// completed by the user. ONNX alone.
  std::vector<std::string> freeShapes;
  std::vector<ModelGap> gaps;
  std::vector<ModelOpset> opsets;
  std::vector<ModelSymbol> symbols;
  std::vector<SizeNeed> needs; ///< of the symbols
  std::vector<ModelValue> inputs;
  /// Initializers that are inputs where --shape names them, in ONNX's types.
  std::vector<ModelValue> overridable;
  std::vector<ModelValue> outputs;
  std::vector<ModelNode> nodes; ///< without weights and constants
  std::map<std::string, int64_t> opCounts;
  uint64_t weightCount = 0;
  uint64_t weightBytes = 0;
  std::string graph; ///< JSON of tn::graphInfo; empty with gaps
  /// What an engine would carry for whoever runs it, by name: JSON.
  std::map<std::string, std::string> records;
};

/// The dims of every tensor that the nodes of an ONNX model make, and of its inputs; -1 for a free
/// size. Values that are no tensors of numbers are left out. A model with gaps is an error.
Result<std::map<std::string, std::vector<int64_t>>>
dimsOfValues(const std::string &path, const std::vector<ShapeArgument> &shapes);

/// `withRanges` reads all weights for the least and the largest element of each; `libraries` are
/// the user's kernels.
Result<ModelInfo>
importModel(const std::string &path, const std::vector<ShapeArgument> &shapes,
            bool withRanges = false,
            const std::vector<std::shared_ptr<const kernels::Library>> &libraries = {});

/// A record that an engine of the model would carry for whoever runs it ("tokenizer"); empty where
/// the model has none. All that the model needs and Tenon lacks is one error.
Result<std::string> assetOf(const std::string &path, const std::string &name);

} // namespace tenon::tool
