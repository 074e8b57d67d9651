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

void F1Scores::add(int64_t label, int64_t predicted) {
  labels.push_back(label);
  predictions.push_back(predicted);
  classes = std::max({classes, label + 1, predicted + 1});
}

double F1Scores::value(std::span<const uint32_t> times) const {
  size_t count = static_cast<size_t>(classes);
  std::vector<double> right(count), labelled(count), predicted(count);
  for (size_t sample = 0; sample < starts.size(); ++sample) {
    size_t end = sample + 1 < starts.size() ? starts[sample + 1] : labels.size();
    for (size_t i = starts[sample]; i < end && times[sample] > 0; ++i) {
      labelled[static_cast<size_t>(labels[i])] += times[sample];
      if (predictions[i] >= 0) {
        predicted[static_cast<size_t>(predictions[i])] += times[sample];
      }
      right[static_cast<size_t>(labels[i])] += labels[i] == predictions[i] ? times[sample] : 0;
    }
  }
  double sum = 0, seen = 0;
  for (size_t i = 0; i < count; ++i) {
    double both = labelled[i] + predicted[i];
    sum += both > 0 ? 2 * right[i] / both : 0;
    seen += both > 0 ? 1 : 0;
  }
  return sum / seen;
}

} // namespace tenon::tool
