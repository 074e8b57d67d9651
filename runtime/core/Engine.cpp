// Chooses the variant and loads its code; the file was validated by engine/Reader.

#include "runtime/core/Engine.h"

#include "runtime/device/cpu/CodeObject.h"
#include "runtime/device/cpu/CpuFeatures.h"
#include "support/Text.h"

namespace tenon::runtime {
namespace {

std::string listLevels(std::span<const engine::Variant> variants) {
  std::string text;
  for (const engine::Variant &variant : variants) {
    text += strCat(text.empty() ? "" : ", ", variant.level);
  }
  return text;
}

/// Rank of a level that this machine runs; none for one that it lacks or does not know.
std::optional<int> runnableRank(std::string_view level) {
  std::optional<engine::CpuLevel> wanted = engine::parseCpuLevel(level);
  std::optional<engine::CpuLevel> best = bestCpuLevel();
  if (!wanted || !best || *wanted > *best) {
    return std::nullopt;
  }
  return static_cast<int>(*wanted);
}

Status noVariant(std::string message) {
  std::optional<engine::CpuLevel> best = bestCpuLevel();
  std::string_view runs = best ? nameOf(*best) : std::string_view("less than x86-64-v3");
  return Status::error(ErrorId::EngineNoVariant, strCat(message, "; this machine runs ", runs),
                       "compile the model with --target for this machine");
}

Result<size_t> chooseVariant(std::span<const engine::Variant> variants, const std::string &forced) {
  size_t chosen = variants.size();
  int best = -1;
  for (size_t i = 0; i < variants.size(); ++i) {
    if (!forced.empty() && variants[i].level != forced) {
      continue;
    }
    std::optional<int> rank = runnableRank(variants[i].level);
    if (rank && *rank > best) {
      best = *rank;
      chosen = i;
    } else if (!forced.empty()) {
      return noVariant(strCat("the variant '", forced, "' was asked for"));
    }
  }
  if (chosen != variants.size()) {
    return chosen;
  }
  if (!forced.empty()) {
    return Status::error(
        ErrorId::EngineUnknownVariant,
        strCat("the engine has no variant '", forced, "'; it has ", listLevels(variants)),
        "name one of these, or none for the best");
  }
  return noVariant(strCat("the engine has variants for ", listLevels(variants)));
}

} // namespace

Engine::Engine() = default;
Engine::~Engine() = default;

Result<std::shared_ptr<const Engine>> Engine::open(const std::string &path,
                                                   const EngineOptions &options) {
  TENON_ASSIGN(std::unique_ptr<engine::EngineFile> file, engine::EngineFile::open(path));
  return load(std::move(file), options);
}

Result<std::shared_ptr<const Engine>> Engine::fromMemory(Bytes image,
                                                         const EngineOptions &options) {
  TENON_ASSIGN(std::unique_ptr<engine::EngineFile> file, engine::EngineFile::fromMemory(image));
  return load(std::move(file), options);
}

Result<std::shared_ptr<const Engine>> Engine::load(std::unique_ptr<engine::EngineFile> file,
                                                   const EngineOptions &options) {
  std::shared_ptr<Engine> engine(new Engine());
  engine->engineFile = std::move(file);
  TENON_ASSIGN(engine->chosen, chooseVariant(engine->engineFile->variants(), options.variant));
  if (options.verifyWeights) {
    TENON_TRY(engine->engineFile->verifyWeights());
  }
  TENON_ASSIGN(engine->code, CodeObject::load(engine->engineFile->code(engine->chosen)));
  for (const std::string &symbol : engine->variant().kernels) {
    TenonKernelFn kernel = engine->code->find(symbol);
    if (!kernel) {
      return Status::error(ErrorId::EngineBadCode,
                           strCat("the code object has no kernel '", symbol, "'"),
                           "compile the model again");
    }
    engine->kernels.push_back(kernel);
  }
  engine->engineFile->populateWeights();
  return std::shared_ptr<const Engine>(std::move(engine));
}

} // namespace tenon::runtime
