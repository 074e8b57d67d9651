// Compiles the different regions of a module for each level and links one code object a level. Work
// is a flat list of (region, level) pairs taken by threads in turn; results and the error reported
// do not depend on who took what.
#include "compiler/pipeline/CodegenPhase.h"

#include "compiler/codegen/common/RegionSource.h"
#include "compiler/codegen/cpu/CpuCodegen.h"
#include "compiler/dispatch/Names.h"
#include "compiler/pipeline/KernelEntry.h"
#include "support/Text.h"
#include "llvm/ADT/StringMap.h"

#include <atomic>
#include <thread>

using namespace mlir;

namespace tenon::pipeline {
namespace {

using codegen::cpu::Kernel;

/// A region's text, compiled once, and the model's regions that have it.
struct UniqueRegion {
  std::string text;
  std::string symbol;
  tn::RegionOp first;
};

struct Task {
  const UniqueRegion *region;
  engine::CpuLevel level;
  std::optional<Kernel> kernel;
  std::string error;
};

Hash128 keyOf(std::string_view kind, std::string_view text, engine::CpuLevel level) {
  llvm::StringRef version = codegen::cpu::codegenVersion();
  return hashText(
      strCat(kind, '\n', std::string_view(version), '\n', engine::nameOf(level), '\n', text));
}

void compileTask(Task &task, const CompileCache &cache) {
  Hash128 key = keyOf("region", task.region->text, task.level);
  if (std::optional<std::string> entry = cache.find(key)) {
    task.kernel = decodeKernel(*entry);
    if (task.kernel && task.kernel->symbol == task.region->symbol) {
      return;
    }
  }
  llvm::Expected<Kernel> kernel =
      codegen::cpu::compileRegion(task.region->text, task.region->symbol, task.level);
  if (!kernel) {
    task.kernel.reset();
    task.error = llvm::toString(kernel.takeError());
    return;
  }
  task.kernel = std::move(*kernel);
  cache.store(key, encodeKernel(*task.kernel));
}

/// The calling thread works too and is the only one to report progress.
void runTasks(std::vector<Task> &tasks, const CodegenOptions &options, const CompileCache &cache) {
  std::atomic<size_t> next = 0;
  std::atomic<size_t> done = 0;
  auto work = [&](bool reports) {
    for (size_t i = next++; i < tasks.size(); i = next++) {
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

Result<std::string> linkLevel(engine::CpuLevel level, llvm::ArrayRef<const Task *> tasks,
                              const CompileCache &cache) {
  Hash128 key = keyOf("support", "", level);
  std::optional<std::string> support = cache.find(key);
  if (!support) {
    llvm::Expected<std::string> made = codegen::cpu::supportObject(level);
    if (!made) {
      return Status::error(ErrorId::InternalError,
                           strCat("the support code for ", engine::nameOf(level), ": ",
                                  llvm::toString(made.takeError())));
    }
    support = std::move(*made);
    cache.store(key, *support);
  }
  std::vector<llvm::StringRef> objects = {*support};
  std::vector<llvm::StringRef> symbols;
  for (const Task *task : tasks) {
    objects.push_back(task->kernel->object);
    symbols.push_back(task->kernel->symbol);
  }
  llvm::Expected<std::string> code = codegen::cpu::linkCode(objects, symbols);
  if (!code) {
    return Status::error(ErrorId::InternalError,
                         strCat("linking the code for ", engine::nameOf(level), ": ",
                                llvm::toString(code.takeError())));
  }
  return std::move(*code);
}

Status failureOf(const Task &task) {
  tn::RegionOp region = task.region->first;
  return Status::error(
      ErrorId::CodegenFailed,
      strCat("no code for ", dispatch::nameOf(region), " (strategy ",
             std::string_view(region.getStrategy()), ", ", engine::nameOf(task.level),
             "): ", task.error),
      "report this with the text of --dump-phases; --stop-after=dispatch shows the region");
}

} // namespace

Result<CompiledRegions> compileRegions(ModuleOp module, const CodegenOptions &options) {
  CompiledRegions result;
  std::vector<std::unique_ptr<UniqueRegion>> regions;
  llvm::StringMap<size_t> indexOfText;
  std::vector<size_t> uniqueOf;
  module.walk([&](tn::RegionOp region) {
    codegen::RegionSource source = codegen::outline(region);
    auto [entry, isNew] = indexOfText.try_emplace(source.text, regions.size());
    if (isNew) {
      std::string symbol = "k_" + hashText(source.text).hex();
      result.texts.push_back(source.text);
      regions.push_back(std::make_unique<UniqueRegion>(
          UniqueRegion{std::move(source.text), std::move(symbol), region}));
    }
    uniqueOf.push_back(entry->second);
    result.regionSymbols.push_back(std::move(source.symbols));
  });
  result.regions = uniqueOf.size();
  result.uniqueRegions = regions.size();

  static const CompileCache kNoCache("");
  const CompileCache &cache = options.cache ? *options.cache : kNoCache;
  std::vector<Task> tasks;
  for (engine::CpuLevel level : options.levels) {
    for (const std::unique_ptr<UniqueRegion> &region : regions) {
      tasks.push_back({region.get(), level, std::nullopt, ""});
    }
  }
  runTasks(tasks, options, cache);
  for (const Task &task : tasks) {
    if (!task.kernel) {
      return failureOf(task);
    }
  }
  for (size_t level = 0; level < options.levels.size(); ++level) {
    plan::LevelKernels kernels;
    kernels.level = engine::nameOf(options.levels[level]);
    std::vector<const Task *> own;
    for (size_t i = 0; i < regions.size(); ++i) {
      own.push_back(&tasks[level * regions.size() + i]);
      kernels.symbols.push_back(regions[i]->symbol);
    }
    for (size_t unique : uniqueOf) {
      const Kernel &kernel = *own[unique]->kernel;
      kernels.regions.push_back({static_cast<uint32_t>(unique), kernel.grid, kernel.scratch});
    }
    TENON_ASSIGN(std::string code, linkLevel(options.levels[level], own, cache));
    result.levels.push_back(std::move(kernels));
    result.code.push_back(std::move(code));
  }
  return result;
}

} // namespace tenon::pipeline
