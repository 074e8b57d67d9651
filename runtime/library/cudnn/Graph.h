// A graph of operations under construction, and what cuDNN makes of it: executables, the one that
// its heuristics like best first. Relies on the backend interface of cuDNN 9.

#pragma once

#include "runtime/library/cudnn/Descriptor.h"

#include <array>
#include <optional>

namespace tenon::library::cudnn {

/// Tensors are [n, c, h, w] with the channels next to each other in memory.
using Dims4 = std::array<int64_t, 4>;

/// A finalized plan of an engine, with the tensors that it is to be given. Lives no longer than the
/// graph that it was compiled from, if it was not restored.
class Executable {
public:
  Executable(Descriptor made, std::vector<int64_t> tensors, size_t bytes, int64_t index)
      : plan(std::move(made)), ids(std::move(tensors)), workspace(bytes), engine(index) {}

  size_t workspaceBytes() const { return workspace; }
  int64_t engineIndex() const { return engine; }
  /// The ids of the graph's tensors in memory, in the order in which `run` takes their pointers.
  std::span<const int64_t> tensors() const { return ids; }
  /// The library's own description, from which the plan can be made again.
  Result<std::vector<std::byte>> description() const;
  Status run(const Api &api, Context *context, std::span<void *const> pointers, void *scratch,
             void *stream) const;

private:
  Descriptor plan;
  std::vector<int64_t> ids;
  size_t workspace;
  int64_t engine;
};

struct Window {
  std::array<int64_t, 2> strides, dilations, padBefore, padAfter;
};

/// What `compile` looks for.
struct EngineLimits {
  size_t workspace = 0;         ///< bytes, exceeded only if no engine does with them
  bool allowTensorCores = true; ///< in FP32, they are TF32
  unsigned wanted = 1;
};

class Graph {
public:
  Graph(const Api &functions, Context *handle, size_t alignment)
      : api(functions), context(handle), byteAlignment(static_cast<int64_t>(alignment)) {}

  /// A tensor in memory, named by `id`.
  Result<size_t> tensor(int64_t id, const Dims4 &dims, DataType type);
  /// One that lies nowhere: between two operations.
  Result<size_t> between(const Dims4 &dims);
  Status convolution(size_t x, size_t w, size_t y, const Window &window);
  Status add(size_t a, size_t b, size_t y) { return pointwise(PointwiseMode::Add, a, &b, y); }
  Status activation(PointwiseMode mode, size_t x, size_t y) {
    return pointwise(mode, x, nullptr, y);
  }

  /// At least one executable, or LibraryUnsupported. Sums in less than FP32 and rounded operands
  /// are never taken; results that differ from run to run only if there is nothing else.
  Result<std::vector<Executable>> compile(const EngineLimits &limits);

private:
  Result<size_t> addTensor(int64_t id, const Dims4 &dims, DataType type, bool isVirtual);
  Status pointwise(PointwiseMode mode, size_t x, const size_t *b, size_t y);
  Status makeOperationGraph();
  Result<std::vector<Descriptor>> heuristics(HeuristicMode mode);
  /// Adds the executable of a configuration to those that are wanted, or makes it the spare one;
  /// neither if the engine cannot or must not be used.
  void tryConfig(const Descriptor &config, const EngineLimits &limits,
                 std::vector<Executable> &found, std::optional<Executable> &spare);

  // All descriptors stay: it is not stated which of them a finalized plan still refers to.

  const Api &api;
  Context *context;
  int64_t byteAlignment;
  int64_t nextVirtual = 1000;
  std::vector<int64_t> ids;
  std::vector<Descriptor> tensors;
  std::vector<Descriptor> details;
  std::vector<Descriptor> operations;
  Descriptor operationGraph;
  std::vector<Descriptor> configs;
};

} // namespace tenon::library::cudnn
