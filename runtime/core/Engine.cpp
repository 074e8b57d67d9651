// Chooses the variant and loads it on its device; the file was validated by engine/Reader.

#include "runtime/core/Engine.h"

#include "runtime/core/RankDevices.h"
#include "runtime/core/RankWatch.h"
#include "runtime/device/cpu/CpuFeatures.h"
#include "runtime/device/cpu/CpuVariant.h"
#include "runtime/device/cuda/CudaVariant.h"
#include "runtime/device/cuda/EarlyLibraries.h"
#include "support/Environment.h"
#include "support/text/Text.h"

#include <algorithm>
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

  /// The level of a variant that this machine runs, better ones behind others; null for one that it
  /// lacks or does not know.
  const engine::Level *levelOf(const engine::Variant &variant) {
    const engine::Level *level = engine::findLevel(variant.level);
    return level && (level->features & ~featuresOf(level->architecture)) == 0 ? level : nullptr;
  }

  /// Whether the system lets this process use the level of a variant that is to be taken.
  static bool mayUse(const engine::Level &level) {
    return level.architecture == engine::Architecture::Nvptx || acquireFeatures(level.features);
  }

  /// "avx512", and the GPU where it was looked for.
  std::string describe() const {
    const engine::Level *best = bestHostLevel();
    std::string text(best ? best->name : std::string_view("no CPU level"));
    if (gpu) {
      const cuda::DeviceInfo &info = gpu->info();
      text += strCat(" and, on ", info.name, ", sm_", info.capability);
    } else if (!gpuProblem.isOk()) {
      text += strCat("; ", gpuProblem.message());
    }
    return text;
  }

  /// Why there is no GPU; ok when there is one or none was looked for.
  const Status &problem() const { return gpuProblem; }

private:
  /// Those that this machine has of an architecture, none of one that it is not.
  uint32_t featuresOf(engine::Architecture architecture) {
    if (architecture != engine::Architecture::Nvptx) {
      return architecture == kHostArchitecture ? hostFeatures() : 0;
    }
    findGpu();
    int capability = gpu ? gpu->info().capability : 0;
    uint32_t features = 0;
    for (size_t i = 0; i < engine::kCudaArchs.size(); ++i) {
      const engine::CudaArch &arch = engine::kCudaArchs[i];
      bool runs = arch.isSpecific ? capability == arch.number : capability >= arch.number;
      features |= uint32_t(runs) << i;
    }
    return features;
  }

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
                       strCat(message, ", but this machine runs ", machine.describe()),
                       "compile the model with --target for this machine");
}

Result<size_t> forcedVariant(std::span<const engine::Variant> variants, const std::string &level,
                             Machine &machine) {
  for (size_t i = 0; i < variants.size(); ++i) {
    if (variants[i].level != level) {
      continue;
    }
    const engine::Level *own = machine.levelOf(variants[i]);
    if (own && Machine::mayUse(*own)) {
      return i;
    }
    return machine.problem().isOk()
               ? noVariant(strCat("the variant '", level, "' was requested"), machine)
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
  std::vector<std::pair<const engine::Level *, size_t>> runnable;
  bool hasCpu = false;
  for (size_t i = 0; i < variants.size(); ++i) {
    hasCpu |= variants[i].architecture != engine::Architecture::Nvptx;
    if (const engine::Level *level = machine.levelOf(variants[i])) {
      runnable.emplace_back(level, i);
    }
  }
  // The best level; of one level the first variant.
  std::ranges::sort(runnable, [](const auto &one, const auto &other) {
    return std::pair(other.first, one.second) < std::pair(one.first, other.second);
  });
  for (const auto &[level, i] : runnable) {
    if (Machine::mayUse(*level)) {
      return i;
    }
  }
  if (!hasCpu && !machine.problem().isOk()) {
    return machine.problem();
  }
  return noVariant(strCat("the engine has variants for ", listLevels(variants)), machine);
}

/// The variant and those behind it of the same level, which know some sizes.
std::vector<size_t> withSizes(std::span<const engine::Variant> variants, size_t general) {
  std::vector<size_t> all = {general};
  for (size_t i = general + 1; i < variants.size(); ++i) {
    if (variants[i].level == variants[general].level) {
      all.push_back(i);
    }
  }
  return all;
}

} // namespace

Engine::Engine() : watch(std::make_unique<RankWatch>()) {}
Engine::~Engine() {
  while (!onDevice.empty()) {
    onDevice.pop_back();
  }
}

Result<const LoadedVariant *> Engine::loaded(size_t choice, uint32_t rank) const {
  std::lock_guard lock(loading);
  size_t first = devices.empty() ? 0 : rank * plans();
  std::unique_ptr<LoadedVariant> &place = onDevice[first + choice];
  if (!place && devices.empty()) {
    TENON_ASSIGN(place, CpuVariant::load(*engineFile, chosen[choice]));
  } else if (!place) {
    TENON_ASSIGN(place, cuda::CudaVariant::load(devices[rank], *engineFile, chosen[choice],
                                                cacheFolder, nullptr, onDevice[first].get(), rank));
  }
  return place.get();
}

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
  TENON_ASSIGN(size_t general,
               chooseVariant(engine->engineFile->variants(), options.variant, machine));
  engine->chosen = withSizes(engine->engineFile->variants(), general);
  engine->onDevice.resize(engine->plans() * engine->plan().ranks);
  if (options.verifyWeights) {
    TENON_TRY(engine->engineFile->verifyWeights(engine->chosen));
  }
  if (engine->variant().architecture == engine::Architecture::Nvptx) {
    TENON_ASSIGN(engine->devices, openRankDevices(engine->plan().ranks, options));
    engine->cacheFolder = options.cacheFolder.value_or(userCacheFolder());
    engine->gpuInUse = options.gpu;
    TENON_ASSIGN(engine->onDevice[0],
                 cuda::CudaVariant::load(engine->devices[0], *engine->engineFile, general,
                                         engine->cacheFolder, std::move(libraries), nullptr));
  }
  for (uint32_t rank = 0; rank < std::max<size_t>(engine->devices.size(), 1); ++rank) {
    TENON_TRY(engine->loaded(0, rank).takeStatus());
  }
  return std::shared_ptr<const Engine>(std::move(engine));
}

} // namespace tenon::runtime
