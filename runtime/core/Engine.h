// A loaded engine: the validated file, the variant chosen for this machine and its code. It is
// immutable after opening and shared by any number of sessions and threads.

#pragma once

#include "engine/KernelAbi.h"
#include "engine/Reader.h"
#include "support/Result.h"

#include <memory>
#include <string>
#include <vector>

namespace tenon::runtime {

struct EngineOptions {
  /// Level of the variant to use; empty takes the best that this machine runs. A level that the
  /// machine lacks is refused (TN0517), one that the engine lacks too (TN0518).
  std::string variant;
  /// Compares all weights with their hashes before returning.
  bool verifyWeights = false;
};

class CodeObject;

class Engine {
public:
  static Result<std::shared_ptr<const Engine>> open(const std::string &path,
                                                    const EngineOptions &options = {});
  /// `image` must outlive the engine.
  static Result<std::shared_ptr<const Engine>> fromMemory(Bytes image,
                                                          const EngineOptions &options = {});
  ~Engine();

  const engine::EngineFile &file() const { return *engineFile; }
  /// The variant in use and its plan.
  const engine::Variant &variant() const { return engineFile->variants()[chosen]; }
  const engine::Plan &plan() const { return variant().plan; }
  TenonKernelFn kernel(uint32_t index) const { return kernels[index]; }

private:
  Engine();
  static Result<std::shared_ptr<const Engine>> load(std::unique_ptr<engine::EngineFile> file,
                                                    const EngineOptions &options);

  std::unique_ptr<engine::EngineFile> engineFile;
  std::unique_ptr<CodeObject> code;
  std::vector<TenonKernelFn> kernels;
  size_t chosen = 0;
};

} // namespace tenon::runtime
