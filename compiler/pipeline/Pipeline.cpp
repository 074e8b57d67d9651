// The whole way, in order: a model file becomes an engine file. Read this file first;
// docs/data-way.md is its map. Each phase is one function; what holds between two phases is checked
// where the second begins.
#include "compiler/pipeline/Pipeline.h"

#include "compiler/dispatch/Dispatch.h"
#include "compiler/dispatch/Names.h"
#include "compiler/frontend/Frontend.h"
#include "compiler/graph/GraphFacts.h"
#include "compiler/graph/State.h"
#include "compiler/graph/Tn.h"
#include "compiler/graph/Winograd.h"
#include "compiler/opt/Passes.h"
#include "compiler/pipeline/CodegenPhase.h"
#include "compiler/pipeline/CrashGuard.h"
#include "compiler/pipeline/ModelKey.h"
#include "compiler/pipeline/NumericCheck.h"
#include "compiler/pipeline/PhaseDump.h"
#include "compiler/pipeline/Reports.h"
#include "compiler/pipeline/Reproducer.h"
#include "compiler/pipeline/SelectKernels.h"
#include "compiler/pipeline/SizeSets.h"
#include "compiler/pipeline/UserPasses.h"
#include "compiler/plan/BuildPlan.h"
#include "engine/Writer.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Verifier.h"
#include "support/files/AtomicFile.h"
#include "support/files/MappedFile.h"
#include "support/text/Text.h"

#include <chrono>
#include <deque>
#include <list>

using namespace mlir;

namespace tenon::pipeline {
namespace {

/// What shares regions and plan: CPU levels that get the same kernels, or one GPU architecture. From dispatch on each has
/// its own copy of the module.
struct TargetGroup {
  TargetGroup(const target::Target &decidingTarget, uint16_t deviceId,
              std::vector<CodeTarget> codeTargets)
      : profile(decidingTarget), device(deviceId), targets(std::move(codeTargets)) {}

  target::Target profile;
  uint16_t device;
  std::vector<CodeTarget> targets;
  OwningOpRef<ModuleOp> module;
  dispatch::Records fusion;
  CompiledRegions compiled;
  plan::BuiltPlan built;
};

std::vector<TargetGroup> targetGroups(const CompileOptions &options) {
  std::vector<TargetGroup> groups;
  for (const std::vector<engine::CpuLevel> &levels : groupsOfLevels(options.levels)) {
    std::vector<CodeTarget> targets;
    for (engine::CpuLevel level : levels) {
      targets.push_back(cpuTarget(level, options.cpu, options.guard));
    }
    target::Target profile = options.cpu;
    profile.level = levels.front();
    profile.cpuFeatures = engine::rowOf(levels.front()).features;
    groups.emplace_back(profile, engine::kHost, std::move(targets));
  }
  for (const target::Target &gpu : options.gpus) {
    groups.emplace_back(gpu, engine::kGpu, std::vector<CodeTarget>{cudaTarget(gpu)});
  }
  return groups;
}

/// The weights of an engine, which all its plans share.
struct EngineWeights {
  tn::WeightStore store;
  plan::WeightTable table{store};
};

class Compilation {
public:
  Compilation(const CompileOptions &compileOptions, const CompileCache &compileCache,
              const ModelIdentity &modelIdentity, EngineWeights &engineWeights)
      : options(compileOptions), cache(compileCache), identity(modelIdentity),
        weights(engineWeights.store), table(engineWeights.table), engineWeights(engineWeights),
        context(MLIRContext::Threading::DISABLED), dump(options.dumpPhases),
        groups(targetGroups(options)) {
    context.loadDialect<tn::TnDialect, func::FuncDialect>();
  }

  /// Runs phase after phase up to the last one asked for.
  Status run();
  /// After a fault: the text of the region that could not be compiled, or empty.
  const std::string &failedRegion() const { return regionText; }
  /// After a fault: the phase in which it came.
  Phase lastPhase() const { return phase; }
  /// After a fault: whether objects may be damaged.
  bool isDamaged() const { return crashed; }
  /// The module of the last phase.
  std::string text() const {
    return printModule(phase, phase < Phase::Dispatch ? *module : *groups.front().module);
  }

  CompileSummary summary;

private:
  Status importModel();
  Status normalize();
  Status optimize();
  Status runUserPasses();
  Status convertPrecision();
  Status dispatch();
  void noteApproximations(ModuleOp regions);
  Status codegen();
  Status plan();
  Status planForSizes();
  Status exportEngine();
  Status addVariants(engine::EngineContent &content,
                     std::deque<std::vector<std::byte>> &cubins) const;

  Status start(LoadedPhase loaded);
  Status compileRegionAlone(const LoadedPhase &loaded);
  Status oneFamily() const;
  Status finishModulePhase();
  Status checkNumbers(llvm::StringRef pass, ModuleOp checked);
  void report(Phase phase, double fraction) const;

  const CompileOptions &options;
  const CompileCache &cache;
  const ModelIdentity &identity;
  tn::WeightStore &weights;
  plan::WeightTable &table;
  EngineWeights &engineWeights;
  MLIRContext context;
  PhaseDump dump;
  /// Up to optimize; the groups go on with their own.
  OwningOpRef<ModuleOp> module;
  UserPasses userPasses{options, weights};
  std::optional<NumericCheck> numbers;
  opt::PrecisionRecord precision;
  std::vector<TargetGroup> groups;
  /// The compilations for the sizes of `optimizeFor`, and their options.
  std::list<CompileOptions> narrowed;
  std::list<Compilation> forSizes;
  Phase phase = Phase::Import;
  std::string regionText;
  bool crashed = false;
};

/// Model file → `tn`. Everything that Tenon lacks for the model is reported at once, before any
/// work is done.
Status Compilation::importModel() {
  frontend::ImportOptions importOptions;
  importOptions.taps = options.taps;
  importOptions.shapes = toOverrides(options.shapes);
  for (const FixedInput &fixed : options.fixed) {
    importOptions.fixed.push_back({fixed.input, fixed.type, fixed.dims, fixed.bytes});
  }
  TENON_ASSIGN(frontend::ImportResult imported,
               frontend::importModel(options.model, importOptions, context, weights));
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
  for (const StateOption &state : options.states) {
    TENON_TRY(tn::declareState(*module, state.input, state.output));
  }
  TENON_TRY(checkDims(*module));
  return runUserPasses();
}

/// Those that the user registered for this phase, at its end.
Status Compilation::runUserPasses() {
  Status status = userPasses.run(phase, *module);
  crashed = crashed || userPasses.isDamaged();
  summary.passes = userPasses.facts();
  return status;
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
  opt::OptimizeOptions passes{.afterPass = {}, .extraPasses = options.extraPasses};
  passes.afterPass = [&](llvm::StringRef pass, ModuleOp) {
    lastPass = pass.str();
    report(Phase::Optimize, 0); // which may cancel; how many passes come is not known
    status = checkCancelled(options.cancel);
    if (status) {
      status = checkNumbers(pass, *module);
    }
    if (status && options.afterPass) {
      status = options.afterPass(pass, *module, weights);
    }
    return success(status.isOk());
  };
  bool ran = !options.optimize || succeeded(opt::optimize(*module, weights, passes));
  TENON_TRY(status);
  if (!ran) {
    return diagnostics.status(strCat("optimize, after ", lastPass));
  }
  TENON_TRY(runUserPasses());
  if (numbers) {
    // What they changed by permission is the truth for what follows.
    TENON_TRY(numbers->start(*module));
  }
  return convertPrecision();
}

/// What the user allows beyond the model's own precision. After the patterns, which know FP32
/// spellings and leave norms and attention with names.
Status Compilation::convertPrecision() {
  if (options.allowTf32) {
    (*module)->setAttr("tn.allow_tf32", UnitAttr::get(&context));
  }
  DiagnosticText diagnostics(context);
  if (options.precision &&
      (failed(opt::convertPrecision(*module, weights, *options.precision, precision)) ||
       failed(verify(*module)))) {
    return diagnostics.status("convert-precision");
  }
  if (options.allowTanhGelu) {
    opt::approximateGelu(*module, precision);
  }
  if (!options.precision && precision.approximated.empty()) {
    return Status::ok();
  }
  DType computed = options.precision == opt::Precision::Bf16 ? DType::BF16 : DType::F16;
  return numbers ? numbers->checkLowered("convert-precision", *module, computed) : Status::ok();
}

/// Convolutions whose kernel needs no permission but has other roundings than a direct sum.
void Compilation::noteApproximations(ModuleOp regions) {
  static const opt::PrecisionRule rule{
      "winograd",
      "Winograd's filtering in FP32: off by some 1e-6 of the largest result, as sums in "
      "another order are; --disable-family conv_winograd4 or conv_winograd2"};
  regions.walk([&](tn::RegionOp region) {
    bool isTransformed = llvm::any_of(region.getInputs(), [](Value input) {
      tn::PackOp pack = input.getDefiningOp<tn::PackOp>();
      return pack && pack->hasAttr(winograd::kAttribute);
    });
    if (isTransformed) {
      precision.approximated.push_back({region.getLoc(), "conv", &rule});
    }
  });
}

/// `tn` → `tn.region`: what runs as one kernel, how, and why.
Status Compilation::dispatch() {
  DiagnosticText diagnostics(context);
  TENON_ASSIGN(WantedKernels wanted, WantedKernels::create(options));
  for (TargetGroup &group : groups) {
    group.module = module->clone();
    auto optimizeFor = group.profile.isGpu() ? opt::optimizeForGpu : opt::optimizeForCpu;
    if (failed(optimizeFor(*group.module, weights, {}))) {
      return diagnostics.status("optimize for the device");
    }
    KernelSelector selector(group.targets.front(), wanted);
    if (failed(selector.formRegions(*group.module, group.profile, group.fusion)) ||
        failed(verify(*group.module))) {
      return diagnostics.status("dispatch");
    }
    TENON_TRY(checkNumbers("dispatch", *group.module));
    if (options.afterPass) {
      TENON_TRY(options.afterPass("dispatch", *group.module, weights));
    }
    if (options.afterPhase) {
      options.afterPhase(Phase::Dispatch, *group.module);
    }
    TENON_TRY(selector.select(*group.module, group.fusion, options.maxWeights));
    for (const dispatch::RegionRecord &region : group.fusion.regions) {
      if (!region.slow.empty()) {
        summary.slow.push_back(
            {group.targets.front().level, region.label, region.kernel, region.slow});
      }
    }
    noteApproximations(*group.module);
    TENON_TRY(checkNumbers("select-kernels", *group.module));
  }
  return wanted.checkFound();
}

/// Regions → code, each different region once a target. Before the plan, which needs steps, grids
/// and scratch sizes.
Status Compilation::codegen() {
  for (auto [index, group] : llvm::enumerate(groups)) {
    CodegenOptions codegenOptions{
        .targets = group.targets,
        .threads = options.threads,
        .cache = &cache,
        .progress = {},
        .cancel = options.cancel,
        .failed = [&](std::string text) { regionText = std::move(text); }};
    codegenOptions.progress = [&, done = index](double fraction) {
      report(Phase::Codegen, (done + fraction) / groups.size());
    };
    TENON_ASSIGN(group.compiled, compileRegions(*group.module, codegenOptions));
    const CompiledRegions &compiled = group.compiled;
    summary.regions += compiled.regions;
    summary.uniqueRegions += compiled.uniqueRegions;
    for (auto [symbol, text] : llvm::zip_equal(compiled.symbols, compiled.texts)) {
      TENON_TRY(dump.dumpFile(Phase::Codegen, strCat("-", symbol, ".mlir"), text));
    }
    for (auto [level, code] : llvm::zip_equal(compiled.levels, compiled.code)) {
      TENON_TRY(dump.dumpFile(
          Phase::Codegen, strCat("-", level.level, group.device == engine::kGpu ? ".ptx" : ".so"),
          code));
    }
  }
  return Status::ok();
}

/// Regions → a linear program over buffers: the only form that the runtime knows.
Status Compilation::plan() {
  for (TargetGroup &group : groups) {
    plan::PlanRequest request{*group.module, group.compiled.regionSymbols, group.compiled.levels,
                              group.device, &group.profile};
    TENON_ASSIGN(group.built, plan::buildPlan(request, table));
    for (engine::Variant &variant : group.built.variants) {
      variant.plan.isGuarded = options.guard && group.device == engine::kHost;
    }
    const plan::BuiltPlan &built = group.built;
    summary.arenaBytes = std::max(summary.arenaBytes, static_cast<uint64_t>(built.arenaBytes));
    summary.arenaLowerBoundBytes =
        std::max(summary.arenaLowerBoundBytes, static_cast<uint64_t>(built.arenaLowerBound));
    for (const engine::Variant &variant : built.variants) {
      TENON_TRY(dump.dumpFile(Phase::Plan, strCat("-", variant.level, ".txt"),
                              plan::printPlan(variant, table.list())));
    }
  }
  return planForSizes();
}

/// The model again for each set of sizes that the engine is to be fast at: plans that run where
/// these are bound, and choices of kernels that know them.
Status Compilation::planForSizes() {
  if (!options.optimizeFor.empty() && !options.states.empty()) {
    return Status::error(ErrorId::BadArgument, "--optimize-for and --state do not go together",
                         "leave one out: a session's state belongs to one plan");
  }
  if (!options.optimizeFor.empty() && options.maxWeights) {
    return Status::error(ErrorId::BadArgument,
                         "--optimize-for and --max-weights do not go together",
                         "leave one out: the plans for named sizes want layouts of their own");
  }
  for (const SizeSet &sizes : options.optimizeFor) {
    CompileOptions narrow = options;
    TENON_ASSIGN(narrow.shapes, shapesFor(sizes, options, *module));
    narrow.optimizeFor.clear();
    narrow.stopAfter = Phase::Plan;
    narrow.output.clear();
    narrow.dumpPhases.clear();
    narrow.progress = nullptr;
    narrowed.push_back(std::move(narrow));
    forSizes.emplace_back(narrowed.back(), cache, identity, engineWeights);
    Status status = forSizes.back().run();
    crashed = crashed || forSizes.back().isDamaged();
    TENON_TRY(std::move(status));
    summary.regions += forSizes.back().summary.regions;
    summary.uniqueRegions += forSizes.back().summary.uniqueRegions;
  }
  return Status::ok();
}

namespace {

/// Machine code of a variant's PTX, held in `cubins`.
Status addCubin(engine::VariantContent &content, const Assembler &assembler,
                std::deque<std::vector<std::byte>> &cubins) {
  TENON_ASSIGN(std::vector<std::byte> cubin,
               assembler.assemble(content.code, content.variant.level));
  cubins.push_back(std::move(cubin));
  content.cubin = cubins.back();
  content.cubinBy = assembler.name;
  return Status::ok();
}

} // namespace

Status Compilation::addVariants(engine::EngineContent &content,
                                std::deque<std::vector<std::byte>> &cubins) const {
  for (const TargetGroup &group : groups) {
    for (auto [variant, code] : llvm::zip_equal(group.built.variants, group.compiled.code)) {
      content.variants.push_back({variant, std::as_bytes(std::span(code.data(), code.size()))});
      if (options.assembler && group.device == engine::kGpu) {
        TENON_TRY(addCubin(content.variants.back(), *options.assembler, cubins));
      }
    }
  }
  return Status::ok();
}

/// Plans, code, records and weights → the file. Weights are packed while they are written. The
/// records of the first group have plain names, those of others end in their level.
Status Compilation::exportEngine() {
  engine::EngineContent content;
  std::deque<std::vector<std::byte>> cubins;
  content.weights = table.list();
  TENON_TRY(addVariants(content, cubins));
  for (const Compilation &sizes : forSizes) {
    TENON_TRY(sizes.addVariants(content, cubins));
  }
  for (TargetGroup &group : groups) {
    std::string suffix = &group == &groups.front() ? "" : strCat("-", group.targets.front().level);
    content.records.push_back({strCat("fusion", suffix), group.fusion.toJson()});
    content.records.push_back({strCat("graph", suffix), tn::graphFacts(*group.module)});
    content.records.push_back({strCat("memory", suffix), group.built.memoryRecord});
    content.records.push_back({strCat("placement", suffix), group.built.placementRecord});
  }
  if (options.precision || !precision.approximated.empty()) {
    content.records.push_back({"precision", precision.toJson(dispatch::nodeNames)});
  }
  if (!options.passes.empty()) {
    content.records.push_back({"passes", userPasses.record()});
  }
  if (std::optional<std::string> metadata = metadataRecord(*groups.front().module)) {
    content.records.push_back({"metadata", std::move(*metadata)});
  }
  content.provenance = {.compiler = compilerVersion(),
                        .model = identity.model.hex(),
                        .options = describeOptions(options)};
  TENON_ASSIGN(
      engine::EngineFileSize size,
      engine::writeEngine(options.output, content, table.source(options.threads), [&]() -> Status {
        TENON_TRY(checkCancelled(options.cancel));
        return identity.checkUnchanged();
      }));
  summary.engine = options.output;
  summary.engineBytes = size.fileBytes;
  summary.weightsBytes = size.weightsBytes;
  for (const plan::WeightForm &form : table.forms()) {
    summary.weights.push_back({form.name.str(), form.arrays, form.bytes, form.sourceBytes});
  }
  return Status::ok();
}

Status Compilation::checkNumbers(llvm::StringRef pass, ModuleOp checked) {
  return numbers ? numbers->check(pass, checked) : Status::ok();
}

void Compilation::report(Phase phase, double fraction) const {
  if (options.progress) {
    options.progress(phase, fraction);
  }
}

/// Goes on from a dumped phase. A dispatched module is for one group.
Status Compilation::start(LoadedPhase loaded) {
  if (loaded.phase < Phase::Dispatch) {
    module = std::move(loaded.module);
    return Status::ok();
  }
  TENON_TRY(oneFamily());
  groups.front().module = std::move(loaded.module);
  return Status::ok();
}

Status Compilation::oneFamily() const {
  if (groups.size() == 1) {
    return Status::ok();
  }
  return Status::error(ErrorId::BadArgument, "a dispatched module is for one device",
                       "name one target with --target");
}

/// The text of a region is a reproducer: nothing is left to do but to compile it.
Status Compilation::compileRegionAlone(const LoadedPhase &loaded) {
  TENON_ASSIGN(MappedFile file, MappedFile::open(options.model));
  regionText.assign(reinterpret_cast<const char *>(file.bytes().data()), file.bytes().size());
  for (const TargetGroup &group : groups) {
    TENON_TRY(compileRegionText(regionText, *loaded.module, group.targets));
  }
  return Status::ok();
}

/// Dumps a phase of `tn`; as the last phase asked for, its text is also the output.
Status Compilation::finishModulePhase() {
  ModuleOp finished = phase < Phase::Dispatch ? *module : *groups.front().module;
  if (options.afterPhase && phase < Phase::Dispatch) {
    options.afterPhase(phase, finished);
  }
  if (options.afterPass && phase < Phase::Dispatch) {
    TENON_TRY(options.afterPass(nameOf(phase), finished, weights));
  }
  TENON_TRY(dump.dumpModule(phase, finished, weights));
  if (options.stopAfter != phase || options.output.empty()) {
    return Status::ok();
  }
  if (phase == Phase::Dispatch) {
    TENON_TRY(oneFamily());
  }
  std::string text = printModule(phase, finished);
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
    if (loaded.phase == Phase::Codegen) {
      return compileRegionAlone(loaded);
    }
    phase = loaded.phase;
    steps = steps.drop_front(static_cast<size_t>(loaded.phase) + 1);
    TENON_TRY(start(std::move(loaded)));
    if (options.stopAfter && *options.stopAfter <= phase) {
      return Status::ok();
    }
  }
  for (const Step &step : steps) {
    report(step.phase, 0);
    TENON_TRY(checkCancelled(options.cancel));
    phase = step.phase;
    Status status;
    if (std::optional<std::string> crash = crashOf([&] { status = (this->*step.run)(); })) {
      crashed = true;
      return Status::error(ErrorId::CompilerFault,
                           strCat("in phase '", nameOf(phase), "': ", *crash),
                           "report this with the reproducer");
    }
    TENON_TRY(std::move(status));
    if (step.phase <= Phase::Dispatch) {
      TENON_TRY(finishModulePhase());
    }
    report(step.phase, 1);
    if (options.stopAfter == step.phase) {
      break;
    }
  }
  return Status::ok();
}

/// The engine of an unchanged model, if the cache holds it. Asking for checks or dumps means
/// compiling; so does a dumped phase, whose weights are files that are not stamped.
bool mayReuseEngine(const CompileOptions &options) {
  return !options.verify && !options.stopAfter && options.dumpPhases.empty() &&
         !options.afterPhase && !options.afterPass && options.extraPasses.empty() &&
         options.passes.empty() && !isPhaseDump(options.model);
}

/// Leaves what a crash has damaged as it is: destructors rely on what may be broken.
void abandonIfDamaged(std::unique_ptr<Compilation> compilation) {
  if (compilation->isDamaged()) {
    (void)compilation.release();
  }
}

/// The module before the phase that failed, made again; empty if that fails too.
std::string textBefore(Phase failed, const CompileOptions &options, const CompileCache &cache,
                       const ModelIdentity &identity) {
  if (failed == Phase::Import) {
    return "";
  }
  CompileOptions again = options;
  again.stopAfter = static_cast<Phase>(static_cast<int>(std::min(failed, Phase::Codegen)) - 1);
  again.output.clear();
  again.dumpPhases.clear();
  again.verify = false;
  again.afterPhase = nullptr;
  again.afterPass = nullptr;
  EngineWeights weights;
  std::unique_ptr<Compilation> compilation =
      std::make_unique<Compilation>(again, cache, identity, weights);
  bool isWhole = compilation->run().isOk();
  std::string text = isWhole ? compilation->text() : "";
  abandonIfDamaged(std::move(compilation));
  return text;
}

/// Runs a compilation; a fault of the compiler leaves a reproducer.
Status runAndReport(std::unique_ptr<Compilation> &compilation, const CompileOptions &options,
                    const CompileCache &cache, const ModelIdentity &identity) {
  Status status = compilation->run();
  if (status.code() != Code::Internal) {
    return status;
  }
  std::string text = compilation->failedRegion();
  Phase failed = compilation->lastPhase();
  abandonIfDamaged(std::move(compilation));
  if (options.reproducer.empty()) {
    return status;
  }
  if (text.empty()) {
    text = textBefore(failed, options, cache, identity);
  }
  return withReproducer(std::move(status), options, text);
}

} // namespace

Result<CompileSummary> compile(const CompileOptions &options) {
  std::chrono::steady_clock::time_point start = std::chrono::steady_clock::now();
  auto seconds = [&] {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  };
  TENON_ASSIGN(ModelIdentity identity, identify(options));
  CompileCache cache(options.cacheFolder);
  if (!cache.problem() && options.notice) {
    options.notice(strCat("the compile cache is not used: ", cache.problem().message()));
  }
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
  EngineWeights weights;
  std::unique_ptr<Compilation> compilation =
      std::make_unique<Compilation>(options, cache, identity, weights);
  TENON_TRY(runAndReport(compilation, options, cache, identity));
  if (mayReuseEngine(options)) {
    cache.storeFile(identity.key, options.output, identity.data, noteOf(compilation->summary));
  }
  cache.trim();
  compilation->summary.compileSeconds = seconds();
  return compilation->summary;
}

} // namespace tenon::pipeline
