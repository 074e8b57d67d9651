// The whole way, in order: a model file becomes an engine file. Read this file first;
// docs/data-way.md is its map. Each phase is one function; what holds between two phases is checked
// where the second begins.
#include "compiler/pipeline/Pipeline.h"

#include "compiler/dispatch/Dispatch.h"
#include "compiler/frontend/onnx/Onnx.h"
#include "compiler/graph/Tn.h"
#include "compiler/opt/Passes.h"
#include "compiler/pipeline/CodegenPhase.h"
#include "compiler/pipeline/ModelKey.h"
#include "compiler/pipeline/NumericCheck.h"
#include "compiler/pipeline/PhaseDump.h"
#include "compiler/pipeline/Reports.h"
#include "compiler/plan/BuildPlan.h"
#include "engine/Writer.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Verifier.h"
#include "support/AtomicFile.h"
#include "support/Text.h"

#include <chrono>

using namespace mlir;

namespace tenon::pipeline {
namespace {

class Compilation {
public:
  Compilation(const CompileOptions &compileOptions, const CompileCache &compileCache,
              const ModelIdentity &modelIdentity)
      : options(compileOptions), cache(compileCache), identity(modelIdentity),
        context(MLIRContext::Threading::DISABLED), dump(options.dumpPhases) {
    context.loadDialect<tn::TnDialect, func::FuncDialect>();
  }

  /// Runs phase after phase up to the last one asked for.
  Status run();

  CompileSummary summary;

private:
  Status importModel();
  Status normalize();
  Status optimize();
  Status dispatch();
  Status codegen();
  Status plan();
  Status exportEngine();

  Status finishModulePhase(Phase phase);
  Status checkNumbers(llvm::StringRef pass);
  void report(Phase phase, double fraction) const;

  const CompileOptions &options;
  const CompileCache &cache;
  const ModelIdentity &identity;
  MLIRContext context;
  PhaseDump dump;
  tn::WeightStore weights;
  OwningOpRef<ModuleOp> module;
  std::optional<NumericCheck> numbers;
  dispatch::Records fusion;
  CompiledRegions compiled;
  plan::WeightTable table{weights};
  plan::BuiltPlan built;
};

/// Model file → `tn`. Everything that Tenon lacks for the model is reported at once, before any
/// work is done.
Status Compilation::importModel() {
  onnx::ImportOptions importOptions;
  importOptions.shapes = toOverrides(options.shapes);
  for (const FixedInput &fixed : options.fixed) {
    importOptions.fixed.push_back({fixed.input, fixed.type, fixed.dims, fixed.bytes});
  }
  TENON_ASSIGN(onnx::ImportResult imported,
               onnx::importOnnx(options.model, importOptions, context, weights));
  if (!imported.gaps.empty() || !imported.module) {
    return gapReport(options.model, imported.gaps);
  }
  module = std::move(imported.module);
  return Status::ok();
}

/// `tn` → `tn` with every dim a constant or an expression over declared symbols: all later phases
/// compare dims.
Status Compilation::normalize() {
  DiagnosticText diagnostics(context);
  if (failed(verify(*module))) {
    return diagnostics.status("import");
  }
  return checkDims(*module);
}

/// `tn` → `tn` with the same meaning, fewer operations, and the named ones that dispatch knows.
/// Before dispatch, since regions hide operations from patterns.
Status Compilation::optimize() {
  if (options.verify) {
    numbers.emplace(weights, options.threads);
    TENON_TRY(numbers->start(*module));
  }
  DiagnosticText diagnostics(context);
  Status status;
  std::string lastPass = "simplify";
  opt::OptimizeOptions passes;
  passes.afterPass = [&](llvm::StringRef pass, ModuleOp) {
    lastPass = pass.str();
    status = checkNumbers(pass);
    return success(status.isOk());
  };
  bool ran = succeeded(opt::optimize(*module, weights, passes));
  TENON_TRY(status);
  return ran ? Status::ok() : diagnostics.status(strCat("optimize, after ", lastPass));
}

/// `tn` → `tn.region`: what runs as one kernel, how, and why.
Status Compilation::dispatch() {
  DiagnosticText diagnostics(context);
  if (failed(dispatch::dispatch(*module, dispatch::cpuProfile(), fusion)) ||
      failed(verify(*module))) {
    return diagnostics.status("dispatch");
  }
  return checkNumbers("dispatch");
}

/// Regions → machine code, each different region once a level. Before the plan, which needs grids
/// and scratch sizes.
Status Compilation::codegen() {
  CodegenOptions codegenOptions{
      .levels = options.levels, .threads = options.threads, .cache = &cache, .progress = {}};
  codegenOptions.progress = [&](double fraction) { report(Phase::Codegen, fraction); };
  TENON_ASSIGN(compiled, compileRegions(*module, codegenOptions));
  summary.regions = compiled.regions;
  summary.uniqueRegions = compiled.uniqueRegions;
  for (auto [index, text] : llvm::enumerate(compiled.texts)) {
    TENON_TRY(dump.dumpFile(Phase::Codegen,
                            strCat("-", compiled.levels.front().symbols[index], ".mlir"), text));
  }
  for (auto [level, code] : llvm::zip_equal(compiled.levels, compiled.code)) {
    TENON_TRY(dump.dumpFile(Phase::Codegen, strCat("-", level.level, ".so"), code));
  }
  return Status::ok();
}

/// Regions → a linear program over buffers: the only form that the runtime knows.
Status Compilation::plan() {
  plan::PlanRequest request{*module, compiled.regionSymbols, compiled.levels};
  TENON_ASSIGN(built, plan::buildPlan(request, table));
  summary.arenaBytes = static_cast<uint64_t>(built.arenaBytes);
  summary.arenaLowerBoundBytes = static_cast<uint64_t>(built.arenaLowerBound);
  for (const engine::Variant &variant : built.variants) {
    TENON_TRY(dump.dumpFile(Phase::Plan, strCat("-", variant.level, ".txt"),
                            plan::printPlan(variant, table.list())));
  }
  return Status::ok();
}

/// Plan, code, records and weights → the file. Weights are packed while they are written.
Status Compilation::exportEngine() {
  engine::EngineContent content;
  content.weights = table.list();
  for (auto [variant, code] : llvm::zip_equal(built.variants, compiled.code)) {
    content.variants.push_back({variant, std::as_bytes(std::span(code.data(), code.size()))});
  }
  content.records = {{"fusion", fusion.toJson()},
                     {"memory", built.memoryRecord},
                     {"placement", built.placementRecord}};
  if (std::optional<std::string> metadata = metadataRecord(*module)) {
    content.records.push_back({"metadata", std::move(*metadata)});
  }
  content.provenance = {.compiler = compilerVersion(),
                        .model = identity.model.hex(),
                        .options = describeOptions(options)};
  TENON_ASSIGN(engine::EngineFileSize size,
               engine::writeEngine(options.output, content, table.source(options.threads)));
  summary.engine = options.output;
  summary.engineBytes = size.fileBytes;
  summary.weightsBytes = size.weightsBytes;
  return Status::ok();
}

Status Compilation::checkNumbers(llvm::StringRef pass) {
  return numbers ? numbers->check(pass, *module) : Status::ok();
}

void Compilation::report(Phase phase, double fraction) const {
  if (options.progress) {
    options.progress(phase, fraction);
  }
}

/// Dumps a phase of `tn`; as the last phase asked for, its text is also the output.
Status Compilation::finishModulePhase(Phase phase) {
  TENON_TRY(dump.dumpModule(phase, *module, weights));
  if (options.stopAfter != phase || options.output.empty()) {
    return Status::ok();
  }
  std::string text = printModule(phase, *module);
  TENON_ASSIGN(AtomicFile file, AtomicFile::create(options.output));
  TENON_TRY(file.append(std::as_bytes(std::span(text.data(), text.size()))));
  return file.commit();
}

Status Compilation::run() {
  struct Step {
    Phase phase;
    Status (Compilation::*run)();
  };
  static constexpr Step kSteps[] = {
      {Phase::Import, &Compilation::importModel}, {Phase::Normalize, &Compilation::normalize},
      {Phase::Optimize, &Compilation::optimize},  {Phase::Dispatch, &Compilation::dispatch},
      {Phase::Codegen, &Compilation::codegen},    {Phase::Plan, &Compilation::plan},
      {Phase::Export, &Compilation::exportEngine}};
  llvm::ArrayRef<Step> steps = kSteps;
  if (isPhaseDump(options.model)) {
    TENON_ASSIGN(LoadedPhase loaded, loadPhase(options.model, context, weights));
    module = std::move(loaded.module);
    steps = steps.drop_front(static_cast<size_t>(loaded.phase) + 1);
  }
  for (const Step &step : steps) {
    report(step.phase, 0);
    TENON_TRY((this->*step.run)());
    if (step.phase <= Phase::Dispatch) {
      TENON_TRY(finishModulePhase(step.phase));
    }
    report(step.phase, 1);
    if (options.stopAfter == step.phase) {
      break;
    }
  }
  return Status::ok();
}

/// The engine of an unchanged model, if the cache holds it. Asking for checks or dumps means
/// compiling.
bool mayReuseEngine(const CompileOptions &options) {
  return !options.verify && !options.stopAfter && options.dumpPhases.empty();
}

} // namespace

Result<CompileSummary> compile(const CompileOptions &options) {
  std::chrono::steady_clock::time_point start = std::chrono::steady_clock::now();
  auto seconds = [&] {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  };
  TENON_ASSIGN(ModelIdentity identity, identify(options));
  CompileCache cache(options.cacheFolder);
  if (mayReuseEngine(options)) {
    std::optional<std::string> note = cache.fetchFile(identity.key, options.output);
    std::optional<CompileSummary> summary = note ? summaryFromNote(*note) : std::nullopt;
    if (summary) {
      summary->engine = options.output;
      summary->fromCache = true;
      summary->compileSeconds = seconds();
      return *summary;
    }
  }
  Compilation compilation(options, cache, identity);
  TENON_TRY(compilation.run());
  if (mayReuseEngine(options)) {
    cache.storeFile(identity.key, options.output, identity.externalFiles,
                    noteOf(compilation.summary));
  }
  cache.trim();
  compilation.summary.compileSeconds = seconds();
  return compilation.summary;
}

} // namespace tenon::pipeline
