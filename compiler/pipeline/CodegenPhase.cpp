// Compiles the different regions of a module for each target and links one code object a target.
// Work is a flat list of (region, target) pairs taken by threads in turn; results and the error
// reported do not depend on who took what.
#include "compiler/pipeline/CodegenPhase.h"

#include "compiler/codegen/common/region/RegionSource.h"
#include "compiler/dispatch/Names.h"
#include "compiler/graph/Shape.h"
#include "compiler/pipeline/BuildStamp.h"
#include "compiler/pipeline/CrashGuard.h"
#include "compiler/pipeline/RegionEntry.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "support/text/Text.h"
#include "llvm/ADT/StringMap.h"

#include <atomic>
#include <thread>

using namespace mlir;

namespace tenon::pipeline {
namespace {

/// A region's text, compiled once, and the model's regions that have it.
struct UniqueRegion {
  std::string text;
  std::string symbol;
  RegionShape shape;
  tn::RegionOp first;
};

struct Task {
  const UniqueRegion *region;
  const CodeTarget *target;
  std::optional<codegen::CompiledRegion> compiled;
  std::string error;
};

/// The code of a region, or why there is none.
std::optional<codegen::CompiledRegion> compileText(llvm::StringRef text, llvm::StringRef symbol,
                                                   const RegionShape &shape,
                                                   const CodeTarget &target, std::string &error) {
  std::optional<codegen::CompiledRegion> result;
  std::optional<std::string> crash = crashOf([&] {
    llvm::Expected<codegen::CompiledRegion> compiled = target.compile(text, symbol, shape);
    if (compiled) {
      result = std::move(*compiled);
    } else {
      error = llvm::toString(compiled.takeError());
    }
  });
  if (crash) {
    error = *crash;
  }
  return result;
}

void compileTask(Task &task, const CompileCache &cache) {
  const UniqueRegion &region = *task.region;
  // The symbol is a hash of the text.
  Hash128 key = hashText(strCat("region\n", buildStamp(), '\n', task.target->level, '\n',
                                task.target->mode, '\n', region.symbol, '\n', region.text));
  if (std::optional<std::string> entry = cache.find(key)) {
    task.compiled = decodeRegion(*entry);
    if (task.compiled) {
      return;
    }
  }
  task.compiled = compileText(region.text, region.symbol, region.shape, *task.target, task.error);
  if (task.compiled) {
    cache.store(key, encodeRegion(*task.compiled));
  }
}

/// The calling thread works too and is the only one to report progress.
void runTasks(std::vector<Task> &tasks, const CodegenOptions &options, const CompileCache &cache) {
  std::atomic<size_t> next = 0;
  std::atomic<size_t> done = 0;
  auto work = [&](bool reports) {
    for (size_t i = next++; i < tasks.size() && checkCancelled(options.cancel); i = next++) {
      compileTask(tasks[i], cache);
      ++done;
      if (reports && options.progress) {
        options.progress(static_cast<double>(done) / static_cast<double>(tasks.size()));
      }
    }
  };
  std::vector<std::thread> helpers;
  for (unsigned i = 1; i < options.threads; ++i) {
    helpers.emplace_back(work, false);
  }
  work(true);
  for (std::thread &helper : helpers) {
    helper.join();
  }
}

/// The code of one target: `tasks` are its regions.
Result<std::string> link(const CodeTarget &target, llvm::ArrayRef<Task> tasks,
                         std::vector<std::string> &kernels, const CompileCache &cache) {
  std::vector<llvm::StringRef> objects;
  std::vector<std::string> shared; // several regions'
  for (const Task &task : tasks) {
    objects.push_back(task.compiled->object);
    for (const codegen::RegionStep &step : task.compiled->code.steps) {
      if (!step.symbol.empty()) {
        kernels.push_back(step.symbol);
      }
      llvm::append_range(shared, step.collectiveKernels);
    }
  }
  llvm::sort(shared);
  shared.erase(llvm::unique(shared), shared.end());
  llvm::append_range(kernels, shared);
  std::vector<llvm::StringRef> symbols(kernels.begin(), kernels.end());
  llvm::Expected<std::string> code = target.link(objects, symbols, cache);
  if (!code) {
    return Status::error(ErrorId::InternalError, strCat("linking the code for ", target.level, ": ",
                                                        llvm::toString(code.takeError())));
  }
  return std::move(*code);
}

Status failureOf(const Task &task) {
  tn::RegionOp region = task.region->first;
  return Status::error(
      ErrorId::CodegenFailed,
      strCat("no code for ", dispatch::nameOf(region), " (strategy ",
             std::string_view(region.getStrategy()), ", ", task.target->level, "): ", task.error),
      "report this with the reproducer; another target may work until it is fixed");
}

} // namespace

Status checkCancelled(const std::atomic<bool> *cancel) {
  return cancel && cancel->load()
             ? Status::error(ErrorId::Cancelled, "the compilation was cancelled",
                             "start it again: finished kernels come from the cache")
             : Status::ok();
}

/// The different regions of a module, and by region which it is; names and symbols go to `result`.
static std::vector<std::unique_ptr<UniqueRegion>>
uniqueRegions(ModuleOp module, std::vector<size_t> &uniqueOf, CompiledRegions &result) {
  std::vector<std::unique_ptr<UniqueRegion>> regions;
  llvm::StringMap<size_t> indexOfText;
  module.walk([&](tn::RegionOp region) {
    codegen::RegionSource source = codegen::outline(region);
    auto [entry, isNew] = indexOfText.try_emplace(source.text, regions.size());
    if (isNew) {
      std::string symbol = "k_" + hashText(source.text).hex();
      result.texts.push_back(source.text);
      result.symbols.push_back(symbol);
      RegionShape shape{region.getInputs().size(), region.getOutputs().size(),
                        source.symbols.size()};
      regions.push_back(std::make_unique<UniqueRegion>(
          UniqueRegion{std::move(source.text), std::move(symbol), shape, region}));
    }
    uniqueOf.push_back(entry->second);
    result.regionSymbols.push_back(std::move(source.symbols));
  });
  result.regions = uniqueOf.size();
  result.uniqueRegions = regions.size();
  return regions;
}

static const CompileCache &cacheOf(const CodegenOptions &options) {
  static const CompileCache kNoCache("");
  return options.cache ? *options.cache : kNoCache;
}

Result<CompiledRegions> compileRegions(ModuleOp module, const CodegenOptions &options) {
  CompiledRegions result;
  std::vector<size_t> uniqueOf;
  std::vector<std::unique_ptr<UniqueRegion>> regions = uniqueRegions(module, uniqueOf, result);
  const CompileCache &cache = cacheOf(options);
  std::vector<Task> tasks;
  for (const CodeTarget &target : options.targets) {
    for (const std::unique_ptr<UniqueRegion> &region : regions) {
      tasks.push_back({region.get(), &target, std::nullopt, ""});
    }
  }
  runTasks(tasks, options, cache);
  TENON_TRY(checkCancelled(options.cancel));
  for (const Task &task : tasks) {
    if (!task.compiled) {
      if (options.failed) {
        options.failed(task.region->text);
      }
      return failureOf(task);
    }
  }
  for (auto [index, target] : llvm::enumerate(options.targets)) {
    llvm::ArrayRef<Task> own = llvm::ArrayRef(tasks).slice(index * regions.size(), regions.size());
    plan::LevelCode level{.level = target.level, .kernels = {}, .regions = {}};
    for (size_t unique : uniqueOf) {
      level.regions.push_back(own[unique].compiled->code);
    }
    TENON_ASSIGN(std::string code, link(target, own, level.kernels, cache));
    result.levels.push_back(std::move(level));
    result.code.push_back(std::move(code));
  }
  return result;
}

Result<std::vector<Result<CompiledRegions>>> compileRegionsApart(ModuleOp module,
                                                                 const CodegenOptions &options) {
  CompiledRegions all;
  std::vector<size_t> uniqueOf;
  std::vector<std::unique_ptr<UniqueRegion>> regions = uniqueRegions(module, uniqueOf, all);
  const CompileCache &cache = cacheOf(options);
  const CodeTarget &target = options.targets.front();
  std::vector<Task> tasks;
  for (const std::unique_ptr<UniqueRegion> &region : regions) {
    tasks.push_back({region.get(), &target, std::nullopt, ""});
  }
  runTasks(tasks, options, cache);
  TENON_TRY(checkCancelled(options.cancel));
  std::vector<Result<CompiledRegions>> parts;
  for (auto [index, unique] : llvm::enumerate(uniqueOf)) {
    const Task &task = tasks[unique];
    if (!task.compiled) {
      parts.push_back(failureOf(task));
      continue;
    }
    CompiledRegions part;
    part.regionSymbols = {all.regionSymbols[index]};
    plan::LevelCode level{.level = target.level, .kernels = {}, .regions = {task.compiled->code}};
    Result<std::string> code = link(target, task, level.kernels, cache);
    if (!code) {
      parts.push_back(code.takeStatus());
      continue;
    }
    part.levels.push_back(std::move(level));
    part.code.push_back(std::move(*code));
    parts.push_back(std::move(part));
  }
  return parts;
}

bool isRegionText(ModuleOp module) {
  func::FuncOp kernel = module.lookupSymbol<func::FuncOp>("kernel");
  return kernel && kernel->hasAttr("tn.strategy");
}

Status compileRegionText(std::string_view text, ModuleOp region,
                         llvm::ArrayRef<CodeTarget> targets) {
  func::FuncOp kernel = region.lookupSymbol<func::FuncOp>("kernel");
  RegionShape shape{kernel.getNumArguments(), kernel.getNumResults(),
                    tn::SymbolList(region).symbols().size()};
  for (const CodeTarget &target : targets) {
    std::string error;
    if (!compileText(text, "k_region", shape, target, error)) {
      return Status::error(ErrorId::CodegenFailed,
                           strCat("no code for the region (", target.level, "): ", error));
    }
  }
  return Status::ok();
}

} // namespace tenon::pipeline
