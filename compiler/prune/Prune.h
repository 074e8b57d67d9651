// Structured pruning of an ONNX model: which channels, heads and widths can go, which matter least,
// and the narrower model. Free of MLIR; dims of values and measured times are the caller's affair.
//
// Of the other files, in the order of reading: AxisClasses (what goes together), Values (the axes
// of a model), Sizes (what is computed of
// them), Rules with PointwiseRules, ProductRules, MovementRules, SizeRules and NormRules
// (what each operator axisClasses), Groups (what can take another's place), Importance, and Shrink
// (the changed file).
#pragma once

#include "compiler/prune/ChannelRemover.h"
#include "compiler/prune/Importance.h"

#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace tenon::prune {

struct Settings {
  Importance importance = Importance::Magnitude;
  std::vector<ScoreTensor> scores; ///< for Importance::Scores
  /// Widths are multiples of it, where the width was one: what a kernel computes at once.
  uint32_t multiple = 8;
  /// Nodes whose groups stay as they are.
  std::vector<std::string> keep;
};

/// A layer, or layers that can only shrink together.
struct GroupInfo {
  std::vector<std::string> nodes; ///< that make it, in the model's order
  uint32_t width = 0;             ///< classes: channels, heads
  uint32_t unit = 1;              ///< indices of the widest node that go with one
  uint32_t step = 1;              ///< classes that are removed at once
  uint32_t kept = 0;              ///< after choose
  std::string reason;             ///< why all are kept, though they need not be
  bool isFallback = false;        ///< judged by magnitude, for want of what was asked for
};

/// A layer whose width stays.
struct FixedInfo {
  std::string node, op, reason;
  uint32_t width = 0;
};

struct PruneInfo {
  std::vector<GroupInfo> groups;
  std::vector<FixedInfo> fixed;
  std::vector<ShrunkTensor> tensors; ///< after write
  std::vector<ChangedSizes> sizes;   ///< after write
  uint64_t parametersBefore = 0,
           parametersAfter = 0; ///< elements of constants of floats; after write
};

class Pruner {
public:
  /// An error for a model that is quantized.
  static Result<Pruner> open(const std::string &path);
  Pruner(Pruner &&) noexcept;
  Pruner &operator=(Pruner &&) noexcept;
  ~Pruner();

  /// Of the model, without those that are constants.
  std::vector<std::string> inputNames() const;
  /// Of each dim of an input whose size the model leaves open its name, which may be empty. Dims of
  /// one name are equal.
  std::vector<std::optional<std::string>> freeDims(std::string_view input) const;
  /// Finds groups and ranks their classes. The samples are of all computed values and inputs. An
  /// error where nothing can be pruned, for scores that do not fit, and for names in `keep` that no
  /// layer has.
  Status analyze(SampledDims samples, Settings settings);
  /// Decides how wide each group becomes: of all together about this share is removed (0 to 1,
  /// exclusive). An error for a ratio that leaves no class of a group, or removes none at all; what
  /// was chosen before holds then.
  Status choose(double ratio);
  /// The narrower model, with all weights in the file, or in the sink where it has no room. After
  /// choose.
  Result<std::string> write(quant::ConstantSink *sink = nullptr);
  /// The dims that values have in it, for each sample; those that stay included.
  SampledDims dimsAfter() const;
  const PruneInfo &info() const;

private:
  struct Impl;
  explicit Pruner(std::unique_ptr<Impl> implementation);
  std::unique_ptr<Impl> impl;
};

} // namespace tenon::prune
