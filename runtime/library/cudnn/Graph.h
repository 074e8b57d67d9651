// A graph of operations under construction, and what cuDNN makes of it: executables, the one that
// its heuristics like best first. Relies on the backend interface of cuDNN 9.

#pragma once

#include "runtime/library/cudnn/Descriptor.h"

#include <array>
#include <optional>

namespace tenon::library::cudnn {

/// More than any graph has, of those that are given pointers.
inline constexpr size_t kMaxTensors = 16;

/// A tensor's place in memory, in elements.
struct Layout {
  std::vector<int64_t> dims, strides;
};

/// Of [n, c, h, w] with the channels next to each other.
Layout channelsLast(const std::array<int64_t, 4> &dims);
Layout rowMajor(std::vector<int64_t> dims);

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
  Result<size_t> tensor(int64_t id, const Layout &layout, DataType type);
  /// A factor in FP32 for tensors of `rank` dims, whose pointer is of the host.
  Result<size_t> number(int64_t id, size_t rank);
  /// One that lies nowhere: between two operations.
  Result<size_t> between(const Layout &layout, DataType type = DataType::Float);
  Status convolution(size_t x, size_t w, size_t y, const Window &window);
  Status matmul(size_t a, size_t b, size_t y);
  /// Of one operand, or of two, of which the second broadcasts.
  Status pointwise(PointwiseMode mode, size_t x, std::optional<size_t> b, size_t y);
  /// Over the dims that are 1 in `y`.
  Status reduction(ReductionMode mode, size_t x, size_t y);

  /// At least one executable, or LibraryUnsupported. Sums in less than FP32 and rounded operands
  /// are never taken; results that differ from run to run only if there is nothing else.
  Result<std::vector<Executable>> compile(const EngineLimits &limits);

private:
  enum class Place { Memory, Host, Nowhere };
  Result<size_t> addTensor(int64_t id, const Layout &layout, DataType type, Place place);
  /// Keeps an operation and what describes it.
  Status addOperation(Descriptor detail, Descriptor operation);
  Status makeOperationGraph();
  Result<std::vector<Descriptor>> heuristics(HeuristicMode mode);
  /// Adds the executable of a configuration to those that are wanted, or makes it the fallback;
  /// neither if the engine cannot or must not be used.
  void tryConfig(const Descriptor &config, const EngineLimits &limits,
                 std::vector<Executable> &found, std::optional<Executable> &fallback);

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
