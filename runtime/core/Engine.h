// A loaded engine: the validated file, the variants chosen for this machine and their code. It is
// shared by any number of sessions and threads, for which it never changes.

#pragma once

#include "engine/Reader.h"
#include "runtime/plan/Device.h"
#include "support/Result.h"

#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

namespace tenon::runtime {

namespace cuda {
class CudaDevice;
}
class RankWatch;

struct EngineOptions {
  /// Level of the variant to use; empty takes the best that this machine runs, on a GPU before a
  /// CPU. A level that the machine lacks is refused (TN0517, TN0702), one that the engine lacks too
  /// (TN0518).
  std::string variant;
  /// Whether weights that the variant reads are compared with their hashes before this returns.
  bool verifyWeights = true;
  /// Number of the GPU, as NVIDIA's driver counts.
  int gpu = 0;
  /// Where plans that libraries made for the GPU are kept; none takes the user's cache folder,
  /// empty keeps none. Compiled PTX is in the cache of NVIDIA's driver (CUDA_CACHE_PATH).
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
  /// The variant in use and its plan, which takes all sizes of the model.
  const engine::Variant &variant() const { return variant(0); }
  const engine::Plan &plan() const { return plan(0); }
  /// How many plans there are: behind that one, those of the same level that know some sizes, to be
  /// preferred where these are bound.
  size_t plans() const { return chosen.size(); }
  const engine::Variant &variant(size_t choice) const {
    return engineFile->variants()[chosen[choice]];
  }
  const engine::Plan &plan(size_t choice) const { return variant(choice).plan; }
  /// A plan's code and weights on the device: that of the first when the engine is opened, others
  /// when they are first asked for, by any thread. On a CPU, all ranks share one; on GPUs, each has
  /// its own.
  Result<const LoadedVariant *> loaded(size_t choice = 0, uint32_t rank = 0) const;
  /// The number of the GPU in use, none on a CPU. Ranks of a plan use those behind it too.
  std::optional<int> gpu() const { return gpuInUse; }
  /// Of its sessions, where the plan has ranks.
  RankWatch &rankWatch() const { return *watch; }

private:
  Engine();
  static Result<std::shared_ptr<const Engine>> load(std::unique_ptr<engine::EngineFile> file,
                                                    const EngineOptions &options);

  std::unique_ptr<engine::EngineFile> engineFile;
  std::vector<size_t> chosen;                                   ///< numbers of variants
  std::vector<std::shared_ptr<const cuda::CudaDevice>> devices; ///< by rank; none on a CPU
  std::string cacheFolder;
  mutable std::mutex loading;
  /// By rank on GPUs, then by choice; the first of a rank outlives the others, which share its
  /// weights.
  mutable std::vector<std::unique_ptr<LoadedVariant>> onDevice;
  std::optional<int> gpuInUse;
  std::unique_ptr<RankWatch> watch;
};

} // namespace tenon::runtime
