// A loaded engine: the validated file, the variant chosen for this machine and its code. It is
// immutable after opening and shared by any number of sessions and threads.

#pragma once

#include "engine/Reader.h"
#include "runtime/plan/Device.h"
#include "support/Result.h"

#include <memory>
#include <optional>
#include <string>

namespace tenon::runtime {

struct EngineOptions {
  /// Level of the variant to use; empty takes the best that this machine runs, on a GPU before a
  /// CPU. A level that the machine lacks is refused (TN0517, TN0702), one that the engine lacks too
  /// (TN0518).
  std::string variant;
  /// Compares all weights with their hashes before returning.
  bool verifyWeights = false;
  /// Number of the GPU, as NVIDIA's driver counts.
  int gpu = 0;
  /// Where plans that libraries made for the GPU are kept; none takes the user's cache folder, empty
  /// keeps none. Compiled PTX is in the cache of NVIDIA's driver (CUDA_CACHE_PATH).
  std::optional<std::string> cacheFolder = std::nullopt;
  /// The driver's library; a test gives its own.
  std::string cudaLibrary = "libcuda.so.1";
};

class Engine {
public:
  static Result<std::shared_ptr<const Engine>> open(const std::string &path,
                                                    const EngineOptions &options = {});
  /// `image` must outlive the engine.
  static Result<std::shared_ptr<const Engine>> fromMemory(Bytes image,
                                                          const EngineOptions &options = {});
  ~Engine();

  /// Whether this machine runs a variant of the file: ok, or the reason why not. Loads no code of
  /// it.
  static Status checkRuns(const engine::EngineFile &file, const std::string &variant);

  const engine::EngineFile &file() const { return *engineFile; }
  /// The variant in use and its plan.
  const engine::Variant &variant() const { return engineFile->variants()[chosen]; }
  const engine::Plan &plan() const { return variant().plan; }
  const LoadedVariant &loaded() const { return *variantOnDevice; }
  /// The number of the GPU in use, none on a CPU.
  std::optional<int> gpu() const { return gpuInUse; }

private:
  Engine();
  static Result<std::shared_ptr<const Engine>> load(std::unique_ptr<engine::EngineFile> file,
                                                    const EngineOptions &options);

  std::unique_ptr<engine::EngineFile> engineFile;
  std::unique_ptr<LoadedVariant> variantOnDevice;
  std::optional<int> gpuInUse;
  size_t chosen = 0;
};

} // namespace tenon::runtime
