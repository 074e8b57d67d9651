// How well a model did on each sample, and what these scores are together. It relies on every model
// of a comparison having scores of the same samples in the same order.

#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <unordered_map>
#include <vector>

namespace tenon::tool {

class Scores {
public:
  virtual ~Scores() = default;

  virtual size_t samples() const = 0;
  /// What counts of each sample, for how long a resampling takes.
  virtual size_t parts() const { return samples(); }
  /// Together, with each sample as often as `times` says; not a number where nothing counts.
  virtual double value(std::span<const uint32_t> times) const = 0;
  /// Whether each sample is right or wrong, and nothing between: 1 or 0 in `right`.
  virtual bool isShare() const { return false; }
  virtual bool isRight(size_t) const { return false; }

  double overall() const { return value(std::vector<uint32_t>(samples(), 1)); }
};

/// What a ratio of sums is: what is right of all, a mean of any numbers, or the exponential of one.
enum class RatioKind : uint8_t { Share, Mean, Exponential };

/// The sum of `part` over that of `whole`.
class RatioScores final : public Scores {
public:
  explicit RatioScores(RatioKind ofWhat) : kind(ofWhat) {}

  void add(double part, double whole);
  size_t samples() const override { return part.size(); }
  double value(std::span<const uint32_t> times) const override;
  bool isShare() const override { return isOneOrZero && kind == RatioKind::Share; }
  bool isRight(size_t sample) const override { return part[sample] == 1; }

private:
  std::vector<double> part;
  std::vector<double> whole;
  RatioKind kind;
  bool isOneOrZero = true;
};

/// F1 of each class that is a label or was predicted, averaged over the classes ("macro"). It keeps
/// counts of the classes of each sample, not its places: a picture has few classes and many pixels.
class F1Scores final : public Scores {
public:
  void beginSample();
  /// A prediction of the sample begun last; one that is none, as of values that are not numbers, is
  /// -1.
  void add(int64_t label, int64_t predicted);
  size_t samples() const override { return starts.size(); }
  size_t parts() const override { return counts.size(); }
  double value(std::span<const uint32_t> times) const override;

private:
  /// Of a class in a sample.
  struct Count {
    size_t number = 0; ///< of the class
    uint32_t labelled = 0;
    uint32_t predicted = 0;
    uint32_t right = 0;
  };
  Count &countOf(int64_t number);

  std::vector<size_t> starts; ///< for each sample its first count
  std::vector<Count> counts;
  std::unordered_map<int64_t, size_t>
      places; ///< of the classes of the sample begun last, in `counts`
  size_t classes = 0;
};

} // namespace tenon::tool
