// Implements ratios and F1 of resampled samples.

#include "tools/tenon/accuracy/Scores.h"

#include <algorithm>
#include <cmath>

namespace tenon::tool {

void RatioScores::add(double samplePart, double sampleWhole) {
  part.push_back(samplePart);
  whole.push_back(sampleWhole);
  isOneOrZero = isOneOrZero && sampleWhole == 1 && (samplePart == 0 || samplePart == 1);
}

double RatioScores::value(std::span<const uint32_t> times) const {
  double parts = 0, wholes = 0;
  for (size_t i = 0; i < part.size(); ++i) {
    if (times[i] > 0) { // 0 times infinity is not a number
      parts += part[i] * times[i];
      wholes += whole[i] * times[i];
    }
  }
  return kind == RatioKind::Exponential ? std::exp(parts / wholes) : parts / wholes;
}

void F1Scores::beginSample() {
  starts.push_back(counts.size());
  places.clear();
}

F1Scores::Count &F1Scores::countOf(int64_t number) {
  auto [place, isNew] = places.try_emplace(number, counts.size());
  if (isNew) {
    counts.push_back({.number = static_cast<size_t>(number)});
    classes = std::max(classes, counts.back().number + 1);
  }
  return counts[place->second];
}

void F1Scores::add(int64_t label, int64_t predicted) {
  countOf(label).labelled += 1;
  if (predicted >= 0) {
    countOf(predicted).predicted += 1;
  }
  countOf(label).right += label == predicted ? 1 : 0;
}

double F1Scores::value(std::span<const uint32_t> times) const {
  std::vector<double> right(classes), labelled(classes), predicted(classes);
  for (size_t sample = 0; sample < starts.size(); ++sample) {
    size_t end = sample + 1 < starts.size() ? starts[sample + 1] : counts.size();
    double weight = times[sample];
    for (size_t i = starts[sample]; i < end && weight > 0; ++i) {
      const Count &count = counts[i];
      labelled[count.number] += weight * count.labelled;
      predicted[count.number] += weight * count.predicted;
      right[count.number] += weight * count.right;
    }
  }
  double sum = 0, seen = 0;
  for (size_t i = 0; i < classes; ++i) {
    double both = labelled[i] + predicted[i];
    sum += both > 0 ? 2 * right[i] / both : 0;
    seen += both > 0 ? 1 : 0;
  }
  return sum / seen;
}

} // namespace tenon::tool
