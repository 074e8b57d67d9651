// Chooses the variant and loads it on its device; the file was validated by engine/Reader.

#include "runtime/core/Engine.h"

#include "engine/CudaArch.h"
#include "runtime/device/cpu/CpuFeatures.h"
#include "runtime/device/cpu/CpuVariant.h"
#include "runtime/device/cuda/CudaVariant.h"
#include "runtime/device/cuda/EarlyLibraries.h"
#include "support/Environment.h"
#include "support/Text.h"

#include <functional>

namespace tenon::runtime {
namespace {

std::string listLevels(std::span<const engine::Variant> variants) {
  std::string text;
  for (const engine::Variant &variant : variants) {
    text += strCat(text.empty() ? "" : ", ", variant.level);
  }
  return text;
}

/// What an engine's variants can run on here. The GPU is looked for when a variant first asks.
class Machine {
public:
  /// `whenFound` is called when NVIDIA's driver is there, before it starts.
  Machine(const EngineOptions &engineOptions, std::function<void()> whenFound)
      : options(engineOptions), whenDriverFound(std::move(whenFound)) {}

  /// Rank of a level that this machine runs, better ones higher; none for one that it lacks or does
  /// not know.
  std::optional<int> rankOf(std::string_view level) {
    if (std::optional<engine::CudaArch> arch = engine::parseCudaArch(level)) {
      constexpr int aboveAllCpuLevels = 1000;
      findGpu();
      int capability = gpu ? gpu->facts().capability : 0;
      bool runs = arch->isSpecific ? capability == arch->number : capability >= arch->number;
      return runs ? std::optional<int>(aboveAllCpuLevels + 2 * arch->number + arch->isSpecific)
                  : std::nullopt;
    }
    std::optional<engine::CpuLevel> wanted = engine::parseCpuLevel(level);
    std::optional<engine::CpuLevel> best = bestCpuLevel();
    return wanted && best && *wanted <= *best ? std::optional<int>(static_cast<int>(*wanted))
                                              : std::nullopt;
  }

  /// "avx512", and the GPU where it was looked for.
  std::string describe() const {
    std::optional<engine::CpuLevel> best = bestCpuLevel();
    std::string text(best ? nameOf(*best) : std::string_view("less than x86-64-v3"));
    if (gpu) {
      const cuda::DeviceFacts &facts = gpu->facts();
      text += strCat(" and, on ", facts.name, ", sm_", facts.capability);
    } else if (!gpuProblem.isOk()) {
      text += strCat("; ", gpuProblem.message());
    }
    return text;
  }

  const std::shared_ptr<const cuda::CudaDevice> &device() const { return gpu; }
  /// Why there is no GPU; ok when there is one or none was looked for.
  const Status &problem() const { return gpuProblem; }

private:
  void findGpu() {
    if (gpu || !gpuProblem.isOk()) {
      return;
    }
    Result<std::shared_ptr<const cuda::CudaDevice>> opened =
        cuda::CudaDevice::open(options.cudaLibrary, options.gpu, whenDriverFound);
    if (opened.isOk()) {
      gpu = std::move(*opened);
    } else {
      gpuProblem = opened.takeStatus();
    }
  }

  const EngineOptions &options;
  std::function<void()> whenDriverFound;
  std::shared_ptr<const cuda::CudaDevice> gpu;
  Status gpuProblem;
};

Status noVariant(std::string_view message, const Machine &machine) {
  return Status::error(ErrorId::EngineNoVariant,
                       strCat(message, "; this machine runs ", machine.describe()),
                       "compile the model with --target for this machine");
}

Result<size_t> forcedVariant(std::span<const engine::Variant> variants, const std::string &level,
                             Machine &machine) {
  for (size_t i = 0; i < variants.size(); ++i) {
    if (variants[i].level != level) {
      continue;
    }
    if (machine.rankOf(level)) {
      return i;
    }
    return machine.problem().isOk()
               ? noVariant(strCat("the variant '", level, "' was asked for"), machine)
               : machine.problem();
  }
  return Status::error(
      ErrorId::EngineUnknownVariant,
      strCat("the engine has no variant '", level, "'; it has ", listLevels(variants)),
      "name one of these, or none for the best");
}

Result<size_t> chooseVariant(std::span<const engine::Variant> variants, const std::string &forced,
                             Machine &machine) {
  if (!forced.empty()) {
    return forcedVariant(variants, forced, machine);
  }
  size_t chosen = variants.size();
  int best = -1;
  bool hasCpu = false;
  for (size_t i = 0; i < variants.size(); ++i) {
    std::optional<int> rank = machine.rankOf(variants[i].level);
    hasCpu |= !engine::isCudaLevel(variants[i].level);
    if (rank && *rank > best) {
      best = *rank;
      chosen = i;
    }
  }
  if (chosen != variants.size()) {
    return chosen;
  }
  if (!hasCpu && !machine.problem().isOk()) {
    return machine.problem();
  }
  return noVariant(strCat("the engine has variants for ", listLevels(variants)), machine);
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

Status Engine::checkRuns(const engine::EngineFile &file, const std::string &variant) {
  EngineOptions options;
  Machine machine(options, [] {});
  return forcedVariant(file.variants(), variant, machine).takeStatus();
}

Result<std::shared_ptr<const Engine>> Engine::load(std::unique_ptr<engine::EngineFile> file,
                                                   const EngineOptions &options) {
  std::shared_ptr<Engine> engine(new Engine());
  engine->engineFile = std::move(file);
  std::unique_ptr<cuda::EarlyLibraries> libraries =
      std::make_unique<cuda::EarlyLibraries>(*engine->engineFile);
  Machine machine(options, [&] { libraries->open(); });
  TENON_ASSIGN(engine->chosen,
               chooseVariant(engine->engineFile->variants(), options.variant, machine));
  if (options.verifyWeights) {
    TENON_TRY(engine->engineFile->verifyWeights());
  }
  if (!engine::isCudaLevel(engine->variant().level)) {
    TENON_ASSIGN(engine->variantOnDevice, CpuVariant::load(*engine->engineFile, engine->chosen));
  } else {
    TENON_ASSIGN(
        engine->variantOnDevice,
        cuda::CudaVariant::load(machine.device(), *engine->engineFile, engine->chosen,
                                options.cacheFolder.value_or(userCacheFolder()),
                                std::move(libraries)));
    engine->gpuInUse = options.gpu;
  }
  return std::shared_ptr<const Engine>(std::move(engine));
}

} // namespace tenon::runtime
