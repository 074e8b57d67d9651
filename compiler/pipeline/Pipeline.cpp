// The whole way, in order: a model file becomes an engine file. Read this file first;
// docs/explanation/data-way.md is its map. Each phase is one function; what holds between two
// phases is checked where the second begins.
//
// One file: the phases of a compilation, in their order.
#include "compiler/pipeline/Compilation.h"

#include "compiler/codegen/cuda/attention/Tuning.h"
#include "compiler/dispatch/Dispatch.h"
#include "compiler/dispatch/Names.h"
#include "compiler/frontend/Frontend.h"
#include "compiler/frontend/language/Language.h"
#include "compiler/graph/GraphInfo.h"
#include "compiler/graph/Invariance.h"
#include "compiler/graph/State.h"
#include "compiler/graph/Tn.h"
#include "compiler/graph/TnRare.h"
#include "compiler/opt/Float8Products.h"
#include "compiler/opt/precision/Observe.h"
#include "compiler/pipeline/KernelCheck.h"
#include "compiler/pipeline/KernelTable.h"
#include "compiler/pipeline/Reports.h"
#include "compiler/pipeline/SelectKernels.h"
#include "compiler/pipeline/SizeSets.h"
#include "mlir/IR/Verifier.h"
#include "support/text/Text.h"

using namespace mlir;

namespace tenon::pipeline {
namespace {

/// That the kernels of GPUs for attention over pages take the heads of a model.
Status checkHeads(ModuleOp module) {
  constexpr int64_t kWidest = codegen::cuda::tuning::kWidestHead;
  Status status;
  module.walk([&](tn::PagedAttentionOp op) {
    for (Value rows : {op.getQ(), op.getY()}) {
      int64_t width = tn::constantDim(tn::getDims(rows.getType()).back()).value_or(0);
      if (width > kWidest) {
        status = Status::error(ErrorId::BadArgument,
                               strCat("heads have ", width, " elements; on GPUs, attention over ",
                                      "pages takes up to ", kWidest),
                               "add --pages 0, whose attention takes any");
      }
    }
  });
  return status;
}

} // namespace

/// Model file → `tn`. Everything that Tenon lacks for the model is reported at once, before any
/// work is done.
Status Compilation::importModel() {
  TENON_ASSIGN(frontend::Format format, frontend::formatOf(options.model));
  bool isLanguage = format == frontend::Format::Gguf || format == frontend::Format::Folder;
  if (options.pages.value_or(0) > 0 && !isLanguage) {
    return Status::error(ErrorId::BadArgument, "--pages is for language models",
                         "leave it out, or compile a GGUF file or a Hugging Face folder");
  }
  uint64_t pages = isLanguage ? pagesOf(options) : 0;
  if (options.invariant && (pages == 0 || !options.optimizeFor.empty())) {
    return Status::error(ErrorId::BadArgument, "--invariant is for engines with pages, of one plan",
                         "add --pages, and leave --optimize-for out");
  }
  if (options.cache && (pages == 0 || !options.gpus.empty())) {
    return Status::error(ErrorId::BadArgument, "--cache is for engines with pages, on CPUs",
                         "add --pages, compile for --target cpu, or leave it out");
  }
  frontend::ImportOptions importOptions;
  importOptions.cache = options.cache;
  importOptions.extraOutputs = options.extraOutputs;
  importOptions.shapes = toOverrides(options.shapes);
  importOptions.pages = static_cast<int64_t>(pages);
  TENON_ASSIGN(importOptions.kernels,
               kernelTable(options.kernelLibraries, options.levels, options.gpus));
  for (const FixedInput &fixed : options.fixed) {
    importOptions.fixed.push_back({fixed.input, fixed.type, fixed.dims, fixed.bytes});
  }
  TENON_ASSIGN(frontend::ImportResult imported,
               frontend::importModel(options.model, importOptions, context, weights));
  if (!imported.gaps.empty() || !imported.module) {
    return gapReport(options.model, imported.gaps);
  }
  module = std::move(imported.module);
  // A CPU's logits are where a sampler on the host reads them; a GPU's would have to be fetched.
  if (pages > 0 && !options.gpus.empty()) {
    TENON_TRY(checkHeads(*module));
    language::addDraws(*module);
  }
  assets = std::move(imported.assets);
  summary.narrowed = narrowings(*module);
  TENON_TRY(checkStrict(options, summary.narrowed));
  return options.observed.empty() ? Status::ok() : opt::observe(*module, options.observed);
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
  for (const PresetOption &preset : options.presets) {
    TENON_TRY(tn::setPreset(*module, preset.symbol, preset.value));
  }
  TENON_TRY(checkDims(*module));
  return runUserPasses();
}

/// Those that the user registered for this phase, at its end.
Status Compilation::runUserPasses() {
  Status status = userPasses.run(phase, *module);
  crashed = crashed || userPasses.isDamaged();
  summary.passes = userPasses.info();
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
  opt::OptimizeOptions passes{.afterPass = {}, .extraPasses = hooks.extraPasses};
  passes.afterPass = [&](llvm::StringRef pass, ModuleOp) {
    lastPass = pass.str();
    report(Phase::Optimize, 0); // which may cancel; how many passes come is not known
    status = checkCancelled(options.cancel);
    if (status) {
      status = checkNumbers(pass, *module);
    }
    if (status && hooks.afterPass) {
      status = hooks.afterPass(pass, *module, weights);
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
  TENON_TRY(convertPrecision());
  return cutForRanks();
}

/// What the user allows beyond the model's own precision. After the patterns, which know FP32
/// spellings and leave norms and attention with names.
Status Compilation::convertPrecision() {
  if (options.invariant) {
    (*module)->setAttr(tn::kInvariant, UnitAttr::get(&context));
  }
  if (options.allowTf32) {
    (*module)->setAttr("tn.allow_tf32", UnitAttr::get(&context));
  }
  DiagnosticText diagnostics(context);
  // What GPUs have no integers for they multiply faster in 16 bits than in FP32.
  opt::QuantizedProducts quantized =
      options.gpus.empty() ? opt::QuantizedProducts::Keep : opt::QuantizedProducts::KeepOnGpu;
  if (options.precision &&
      (failed(opt::convertPrecision(*module, weights, *options.precision, quantized, precision)) ||
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

/// Products of 8-bit floats, for a device that has them.
Status Compilation::useFloat8(TargetGroup &group) {
  opt::PrecisionRecord &record = group.precision;
  opt::Float8Options request{.quantizes = options.precision == opt::Precision::Fp8};
  DiagnosticText diagnostics(context);
  if (failed(opt::float8Products(*group.module, weights, group.profile, request, record)) ||
      failed(verify(*group.module))) {
    return diagnostics.status("products of 8-bit floats");
  }
  if (request.quantizes && !summary.float8) {
    summary.float8 = {record.float8, static_cast<int64_t>(record.notFloat8.size()),
                      record.fasterInHalf, record.halfSeconds * 1e6, record.float8Seconds * 1e6};
  }
  // By permission, so that what follows is compared with this.
  return numbers && request.quantizes ? numbers->start(*group.module) : Status::ok();
}

/// Products of integers by permission, on the levels of a group that has them.
Status Compilation::roundActivations(TargetGroup &group) {
  if (!hasRoundedRows(group, group.targets.front())) {
    return Status::ok();
  }
  opt::roundActivations(*group.module, group.precision);
  return numbers ? numbers->start(*group.module) : Status::ok();
}

/// `tn` → `tn.region`: what runs as one kernel, how, and why.
Status Compilation::dispatch() {
  DiagnosticText diagnostics(context);
  TENON_ASSIGN(WantedKernels wanted, WantedKernels::create(options));
  // Levels that are split off come behind.
  for (size_t index = 0; index < groups.size(); ++index) {
    TargetGroup &group = groups[index];
    if (numbers && index > 0 && options.allowInt8Activations) {
      // What the group before rounded by permission is no truth for this one.
      TENON_TRY(numbers->start(*module));
    }
    group.module = module->clone();
    TENON_TRY(checkBackend(options, *group.module, group.profile.isGpu()));
    group.precision = precision;
    bool isGpu = group.profile.isGpu();
    auto optimizeFor = isGpu ? opt::optimizeForGpu : opt::optimizeForCpu;
    ProductPrices prices(*group.module, group.profile, group.targets.front());
    opt::OptimizeOptions passes;
    passes.price = [&](Operation *product, int64_t channels) {
      return prices.priced(product, channels);
    };
    if (failed(optimizeFor(*group.module, weights, passes))) {
      return diagnostics.status("optimize for the device");
    }
    TENON_TRY(useFloat8(group));
    if (options.addsLevels && !isGpu && !group.isSplitOff) {
      addLevels(group, prices);
    }
    if (!isGpu) {
      splitLevels(group, prices);
    }
    TENON_TRY(roundActivations(group));
    KernelSelector selector(group.targets.front(), wanted);
    if (failed(selector.formRegions(*group.module, group.profile, group.fusion)) ||
        failed(verify(*group.module))) {
      return diagnostics.status(nameOf(phase));
    }
    TENON_TRY(checkNumbers(nameOf(phase), *group.module));
    if (hooks.afterPass) {
      TENON_TRY(hooks.afterPass(nameOf(phase), *group.module, weights));
    }
    if (hooks.afterFormRegions) {
      TENON_TRY(hooks.afterFormRegions(*group.module, weights));
    }
    if (hooks.afterPhase) {
      hooks.afterPhase(Phase::Dispatch, *group.module);
    }
    LevelRecords others(group.profile, group.targets, wanted, prices);
    TENON_TRY(selectKernels(group, selector, others));
    noteApproximations(group);
    TENON_TRY(checkNumbers("select-kernels", *group.module));
  }
  if (options.stopAfter == Phase::Dispatch) {
    summary.rows = rowsRecord();
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
    TENON_TRY(checkKernels(options, *group.module, compiled, group.fusion));
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

bool Compilation::hasState() const {
  return llvm::any_of(groups, [](const TargetGroup &group) {
    return llvm::any_of(group.built.variants, [](const engine::Variant &variant) {
      return llvm::any_of(variant.plan.buffers, [](const engine::Buffer &buffer) {
        return buffer.space == engine::Space::State;
      });
    });
  });
}

/// The model again for each set of sizes that the engine is to be fast at: plans that run where
/// these are bound, and choices of kernels that know them.
Status Compilation::planForSizes() {
  if (!options.optimizeFor.empty() && !options.states.empty()) {
    return Status::error(ErrorId::BadArgument, "--optimize-for and --state cannot be combined",
                         "leave one out: a session's state belongs to one plan");
  }
  if (!options.optimizeFor.empty() && hasState()) {
    return Status::error(ErrorId::BadArgument,
                         "--optimize-for is for models without state, and this one has some: the "
                         "keys and values of a language model belong to one plan",
                         "leave --optimize-for out");
  }
  if (!options.optimizeFor.empty() && options.maxWeights) {
    return Status::error(ErrorId::BadArgument,
                         "--optimize-for and --max-weights cannot be combined",
                         "leave one out: the plans for named sizes need their own layouts");
  }
  for (const SizesArgument &sizes : options.optimizeFor) {
    CompileOptions narrow = options;
    TENON_ASSIGN(narrow.shapes, shapesFor(sizes, options, *module));
    narrow.optimizeFor.clear();
    narrow.stopAfter = Phase::Plan;
    narrow.output.clear();
    narrow.dumpPhases.clear();
    narrow.progress = nullptr;
    narrowed.push_back(std::move(narrow));
    forSizes.emplace_back(narrowed.back(), hooks, cache, identity, engineWeights);
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
  summary.rows = rowsRecord();
  content.records.push_back({"rows", summary.rows});
  // Of all groups if of any: what one approximates another may not.
  bool hasPrecision = options.precision || llvm::any_of(groups, [](const TargetGroup &group) {
                        return !group.precision.approximated.empty() || group.precision.float8 > 0;
                      });
  for (TargetGroup &group : groups) {
    std::string suffix = &group == &groups.front() ? "" : strCat("-", group.targets.front().level);
    content.records.push_back({strCat("fusion", suffix), group.fusion.toJson()});
    content.records.push_back({strCat("graph", suffix), tn::graphInfo(*group.module)});
    content.records.push_back({strCat("memory", suffix), group.built.memoryRecord});
    content.records.push_back({strCat("placement", suffix), group.built.placementRecord});
    if (hasPrecision) {
      content.records.push_back(
          {strCat("precision", suffix), group.precision.toJson(dispatch::nodeNames)});
    }
  }
  if (!options.passes.empty()) {
    content.records.push_back({"passes", userPasses.record()});
  }
  if (std::optional<std::string> metadata = metadataRecord(*groups.front().module)) {
    content.records.push_back({"metadata", std::move(*metadata)});
  }
  for (const frontend::Asset &asset : assets) {
    content.records.push_back({asset.name, asset.json});
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

} // namespace tenon::pipeline
