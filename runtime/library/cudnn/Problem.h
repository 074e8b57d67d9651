// A call as cuDNN is to see it: its graphs, and where their tensors lie. Relies on the caller for
// sizes that engine/LibraryAbi.h allows.

#pragma once

#include "engine/LibraryAbi.h"
#include "runtime/library/cudnn/Graph.h"

namespace tenon::library::cudnn {

/// Ids of the graphs' tensors: a buffer's id is its place in the call, the others are these.
inline constexpr int64_t kResultAsInput = 100;
/// Of Problem::numbers, one after the other.
inline constexpr int64_t kFirstNumber = 101;

class Problem {
public:
  virtual ~Problem() = default;
  /// "convolution f16 [1, 56, 56, 64] x [64, 3, 3, 64]", for people.
  virtual std::string text() const = 0;
  /// Of each buffer of the call, the result last.
  virtual std::vector<size_t> bufferBytes() const = 0;
  /// What every tensor has if every buffer has `given`.
  virtual size_t alignment(size_t given) const { return given; }
  virtual bool allowsTensorCores() const { return true; }
  /// Which of the library's executables is taken, from 0; the first where there are fewer.
  virtual size_t proposal() const { return 0; }

  /// All of the call.
  virtual Status build(Graph &graph) const = 0;
  /// Whether it may be done by two graphs, the second in place, if no engine does all of it.
  virtual bool canSplit() const { return false; }
  virtual Status buildFirst(Graph &) const { return Status::ok(); }
  virtual Status buildRest(Graph &) const { return Status::ok(); }

  virtual void *pointerOf(int64_t id, std::span<void *const> buffers) const {
    return id == kResultAsInput ? buffers.back() : buffers[static_cast<size_t>(id)];
  }

  /// Factors that graphs take from the host.
  std::vector<float> numbers;
};

/// The type as the library names it; none for those that it is not called for.
std::optional<DataType> dataTypeOf(DType type);

/// LibraryUnsupported if the library is not to be asked.
Result<std::unique_ptr<Problem>> problemOf(const engine::ConvCall &call,
                                           std::span<const int64_t> sizes);
Result<std::unique_ptr<Problem>> problemOf(const engine::AttentionCall &call,
                                           std::span<const int64_t> sizes);

} // namespace tenon::library::cudnn
