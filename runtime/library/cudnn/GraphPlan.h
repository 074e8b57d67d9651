// A problem with the executables that cuDNN has for it. Relies on Problem for the meaning of a
// graph's tensors.

#pragma once

#include "runtime/library/Measure.h"
#include "runtime/library/cudnn/Problem.h"
#include "support/memory/ByteSpan.h"

namespace tenon::library::cudnn {

class GraphPlan final : public Plan {
public:
  GraphPlan(std::shared_ptr<const void> owner, const Api &functions, Context *handle,
            std::unique_ptr<Problem> call)
      : library(std::move(owner)), api(functions), context(handle), problem(std::move(call)),
        bufferCount(problem->bufferBytes().size()) {}

  Status build(const EngineLimits &limits, size_t alignment);
  Status measure(Meter &meter, MeasureMemory &memory);
  /// The choice as bytes, and from bytes that `store` gave.
  std::optional<std::vector<std::byte>> store() const;
  Status restore(Bytes stored);

  size_t workspaceBytes() const override;
  Status run(std::span<void *const> buffers, void *workspace, void *stream) override {
    return runCandidate(chosen, buffers, workspace, stream);
  }
  std::string describe() const override;

private:
  Graph &newGraph(size_t alignment) {
    return *graphs.emplace_back(new Graph(api, context, alignment));
  }
  Status runCandidate(size_t index, std::span<void *const> buffers, void *workspace, void *stream);
  Status runGraph(const Executable &graph, std::span<void *const> buffers, void *workspace,
                  void *stream);

  std::shared_ptr<const void> library; ///< that `api` and `context` belong to
  const Api &api;
  Context *context;
  std::unique_ptr<Problem> problem;
  size_t bufferCount;
  std::vector<std::unique_ptr<Graph>> graphs;
  std::vector<Executable> candidates;
  size_t chosen = 0;
  std::vector<Executable> rest; ///< the second graph, if there are two
};

} // namespace tenon::library::cudnn
