// What a compilation is asked for, for everyone who asks: verbs, the C interface, tests. Options
// are a value, free of MLIR; the hooks of tests and tuners are pipeline/Pipeline.h's.
#pragma once

#include "compiler/opt/Precision.h"
#include "compiler/opt/precision/Observation.h"
#include "compiler/target/Target.h"
#include "compiler/tuning/TuningDatabase.h"
#include "engine/Level.h"
#include "support/DType.h"
#include "support/Result.h"
#include "support/ShapeArgument.h"
#include "support/memory/ByteSpan.h"

#include <array>
#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tenon::rewrite {
class Graph;
}

namespace tenon::kernels {
struct Library;
struct Trial;
struct TrialResult;
} // namespace tenon::kernels

namespace tenon::pipeline {

/// An input whose value is known when compiling: a constant of the model, and no input of the
/// engine.
struct FixedInput {
  std::string input;
  DType type = DType::I64;
  std::vector<int64_t> dims;
  Bytes bytes; ///< row-major; must live until compile returns
};

/// `--state input=output`: both are one buffer that the session owns.
struct StateOption {
  std::string input;
  std::string output;
};

/// `--session symbol=value`: of sessions that are made without a value for the symbol.
struct PresetOption {
  std::string symbol;
  int64_t value = 0;
};

/// Makes machine code of PTX for one architecture ("sm_90").
struct Assembler {
  std::string name; ///< and version: "ptxas 13.0.88"; recorded in the engine
  std::function<Result<std::vector<std::byte>>(Bytes ptx, std::string_view arch)> assemble;
};

/// Where the compilation may stop and be dumped.
enum class Phase { Import, Normalize, Optimize, Dispatch, Codegen, Plan, Export };

/// Of every phase, in order: as `--stop-after` takes it.
inline constexpr std::array<std::string_view, 7> kPhaseNames = {
    "import", "normalize", "optimize", "dispatch", "codegen", "plan", "export"};

inline std::string_view nameOf(Phase phase) { return kPhaseNames[static_cast<size_t>(phase)]; }

/// How much of the whole compilation is done, roughly, with this fraction of a phase.
double overallFraction(Phase phase, double fraction);

/// `--kernel NODE=family{...}`: the kernel for the region that has this node of the model.
struct KernelOption {
  std::string node;
  std::string kernel; ///< dispatch::KernelChoice::parse reads it
};

/// A pass of the user's; tenon/graph.h says what it may do.
struct UserPass {
  std::string name;
  Phase phase = Phase::Normalize; ///< after which it runs; Normalize or Optimize
  double tolerance = 0;           ///< as tenon_pass::tolerance
  std::function<Status(rewrite::Graph &)> run;
};

struct CompileOptions {
  std::string model;
  std::string output;
  std::vector<ShapeArgument> shapes;
  /// Each gets plans and code of its own, for the same levels and GPUs.
  std::vector<SizesArgument> optimizeFor;
  std::vector<FixedInput> fixed;
  std::vector<StateOption> states;
  std::vector<PresetOption> presets;
  /// Pages of a language model's session, at most kMaxPages; 0 for one sequence without pages. By
  /// default what `pagesOf` says.
  std::optional<uint64_t> pages;
  /// What pages hold of a language model's keys and values: I8 or F8E4M3FN, with a scale for each
  /// position and head; none for the model's own type.
  std::optional<DType> cache;
  /// Of an engine with pages: a token's logits have the same bits alone, beside others, in chunks
  /// and from shared pages.
  bool invariant = false;
  /// Ranks that run the model together, each with a part of its matrices: GPUs of one host, or
  /// crews of a CPU. 1 cuts nothing, but an invariant model of 1, 2 or 4 ranks adds up so that its
  /// logits have the same bits on each number of them; 0: one rank, and nobody said so.
  uint64_t tensorParallel = 0;
  /// Stages, each with a part of the layers and as many ranks as `tensorParallel` says.
  uint64_t pipelineParallel = 1;
  /// How matrices are cut whatever the search finds: "NODE=column|row|replicate".
  std::vector<std::string> pins;
  /// CPU levels to make variants for; all three by default.
  std::vector<engine::CpuLevel> levels = {engine::CpuLevel::X86_64_V3, engine::CpuLevel::Avx512,
                                          engine::CpuLevel::Avx512VnniBf16};
  /// Also those with units for products of 8 bits or bf16, if the model has such.
  bool addsLevels = false;
  /// What decides for them: their levels share regions and plan.
  target::Target cpu = target::cpuTarget();
  /// GPUs to make variants for, each of another architecture.
  std::vector<target::Target> gpus;
  /// If given, an engine gets machine code beside its PTX.
  std::optional<Assembler> assembler;
  /// What FP32 values become where that is safe; none keeps the model's own types.
  std::optional<opt::Precision> precision;
  /// Products of FP32 may round their operands to TF32 on a GPU.
  bool allowTf32 = false;
  /// GELU of 16-bit floats may take its tanh form.
  bool allowTanhGelu = false;
  /// Products by weights of 4 or 8 bits may round their rows to 8 bits on a CPU.
  bool allowInt8Activations = false;
  /// CPU code checks each load and store against its buffers; slow, for finding faults of Tenon.
  bool guard = false;
  /// Values of an ONNX model that become outputs too, by their names; "*" stands for all that are
  /// tensors.
  std::vector<std::string> extraOutputs;
  /// What is counted of inputs and outputs, extra ones among them, and becomes the outputs in
  /// place of the model's own (opt/precision/Observe.h); nothing for a model that is not
  /// calibrated.
  std::vector<opt::Observation> observed;
  /// A node that takes fewer sizes than the model or the user declares is an error.
  bool strict = false;
  /// Numeric check after every pass against the reference, with seeded inputs.
  bool verify = false;
  std::optional<Phase> stopAfter;
  /// Folder that gets the IR after each phase; empty for none.
  std::string dumpPhases;
  /// Folder of the compile cache; empty for no cache.
  std::string cacheFolder;
  /// File that gets what shows a fault of the compiler again; empty for none.
  std::string reproducer;
  unsigned threads = 2;
  /// Without, the module goes to dispatch as it was imported: slower code of the same meaning.
  bool optimize = true;
  std::vector<KernelOption> kernels;
  /// Kernel families that are not chosen, by name.
  std::vector<std::string> disabledFamilies;
  /// The weights that the code of a device reads take at most so many times what the same weights
  /// take as they are in the model; kernels whose layouts would take more are not chosen.
  std::optional<double> maxWeights;
  /// What was measured of kernels on the device that the engine is for: it goes before predictions
  /// where the user asks for no kernel. Null for predictions alone. Regions are formed alike.
  std::shared_ptr<const tuning::TuningDatabase> tuned;
  std::vector<UserPass> passes;
  /// Of a pass that fails, the graph before it goes to the folder of this name, "-" and the pass's
  /// name; empty for none.
  std::string passDump;
  /// Told the phase and the fraction done (0 to 1); may be null. Called from one thread.
  std::function<void(Phase phase, double fraction)> progress;
  /// Told what the user should know and is no error; may be null.
  std::function<void(std::string_view text)> notice;
  /// Set by any thread to end the compilation with Cancelled after the pass or the regions at work;
  /// no file is left. May be null.
  const std::atomic<bool> *cancel = nullptr;
  /// The user's kernels (compiler/kernels/Library.h).
  std::vector<std::shared_ptr<const kernels::Library>> kernelLibraries;
  /// Runs one of them in a process of its own; null where nothing can be run.
  std::function<Result<kernels::TrialResult>(const kernels::Trial &)> tryKernel;
  /// Kernels that have no reference, or that do not run on this machine, are taken.
  bool uncheckedKernels = false;
};

/// The one place that decides where language models have pages, unless `pages` says it: but in
/// bf16 on CPUs.
uint64_t pagesOf(const CompileOptions &options);

} // namespace tenon::pipeline
