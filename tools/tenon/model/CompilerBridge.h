// What the verbs need of the compiler, free of MLIR: the command line is built with exceptions and
// RTTI, MLIR without. Of the tool only files of this folder include MLIR, those of tool_bridge.

#pragma once

#include "compiler/opt/precision/Observation.h"
#include "compiler/pipeline/CompileSummary.h"
#include "compiler/pipeline/KernelRaces.h"
#include "compiler/pipeline/KernelTrials.h"
#include "compiler/target/Target.h"
#include "compiler/tuning/Knowledge.h"
#include "engine/Level.h"
#include "runtime/tensors/ShapeText.h"
#include "runtime/tensors/Tensor.h"
#include "support/Result.h"
#include "support/memory/ByteSpan.h"
#include "tenon/graph.h"

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace tenon::tool {

/// As pipeline::CompileOptions; names of phases are those of `--stop-after`.
struct CompileRequest {
  std::string model;
  std::string output;
  std::vector<ShapeArgument> shapes;
  std::vector<SizesArgument> optimizeFor; ///< as pipeline::CompileOptions::optimizeFor
  /// Inputs that become constants of the model; they live until the compilation is done.
  std::vector<const Tensor *> fixed;
  /// Inputs and the outputs that replace them: state of the session.
  std::vector<std::pair<std::string, std::string>> states;
  std::vector<engine::CpuLevel> levels;
  bool addsLevels = false;                  ///< as pipeline::CompileOptions::addsLevels
  target::Target cpu = target::cpuTarget(); ///< as pipeline::CompileOptions::cpu
  std::vector<target::Target> gpus;
  std::string precision = "keep"; ///< as in --precision
  std::vector<std::string> allow; ///< as in --allow
  /// Makes machine code of PTX, beside which it goes into the engine; see pipeline::Assembler.
  std::string assembler; ///< its name and version; empty for none
  std::function<Result<std::vector<std::byte>>(Bytes ptx, std::string_view arch)> assemble;
  std::vector<tenon_pass> passes;         ///< of the user's, accepted by checkPass
  std::string passDump;                   ///< as pipeline::CompileOptions::passDump
  std::vector<std::string> taps;          ///< as pipeline::CompileOptions::taps
  std::vector<opt::Observation> observed; ///< as pipeline::CompileOptions::observed
  std::vector<std::pair<std::string, std::string>> kernels; ///< as CompileOptions::kernels
  std::vector<std::string> disabledFamilies;                ///< as CompileOptions::disabledFamilies
  std::optional<double> maxWeights;                         ///< as CompileOptions::maxWeights
  std::shared_ptr<const tuning::Knowledge> tuned;           ///< as CompileOptions::tuned
  bool verify = false;
  bool guard = false;
  std::string stopAfter;
  std::string dumpPhases;
  std::string cacheFolder;
  std::string reproducer; ///< as pipeline::CompileOptions::reproducer
  unsigned threads = 2;
  /// Told the phase and how much of the whole compilation is done.
  std::function<void(std::string_view phase, double fraction)> progress;
  std::function<void(std::string_view text)> notice;
  const std::atomic<bool> *cancel = nullptr; ///< as pipeline::CompileOptions::cancel
};

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

/// The values that --stop-after takes, in order.
std::vector<std::string> phaseNames();
Result<pipeline::CompileSummary> compileModel(const CompileRequest &request);

/// As pipeline::measureKernels; `output` of the request is the file that holds one engine after the
/// other.
Result<std::vector<pipeline::RegionTrials>> measureKernels(const CompileRequest &request,
                                                           const pipeline::TrialRequest &trials,
                                                           pipeline::Measurer &measurer);

/// As pipeline::raceKernels.
Status raceKernels(const CompileRequest &request, pipeline::Racer &racer);

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
struct ModelFacts {
  /// Of a model with gaps: what --shape takes for each input with free sizes, `x:?x3x48x?`, to be
  /// completed by the user. ONNX alone.
  std::vector<std::string> freeShapes;
  std::vector<ModelGap> gaps;
  std::vector<ModelOpset> opsets;
  std::vector<ModelSymbol> symbols;
  std::vector<ModelValue> inputs;
  std::vector<ModelValue> outputs;
  std::vector<ModelNode> nodes; ///< without weights and constants
  std::map<std::string, int64_t> opCounts;
  uint64_t weightCount = 0;
  uint64_t weightBytes = 0;
  std::string graph; ///< JSON of tn::graphFacts; empty with gaps
};

/// The dims of every tensor that the nodes of an ONNX model make, and of its inputs; -1 for a free
/// size. Values that are no tensors of numbers are left out. A model with gaps is an error.
Result<std::map<std::string, std::vector<int64_t>>>
dimsOfValues(const std::string &path, const std::vector<ShapeArgument> &shapes);

/// `withRanges` reads all weights for the least and the largest element of each.
Result<ModelFacts> importModel(const std::string &path, const std::vector<ShapeArgument> &shapes,
                               bool withRanges = false);

} // namespace tenon::tool
