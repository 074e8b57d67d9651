// Implements the costs. Times are of two or three engines, errors of one for each candidate.

#include "tools/tenon/quant/CandidateCosts.h"

#include "tools/tenon/task/TaskListener.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>

namespace tenon::tool {
namespace {

using quant::Treatment;

/// Latency of whole forms, to know how often regions can be timed.
constexpr double kSecondsOfWhole = 1;
constexpr double kFewestRounds = 9, kMaxRounds = 99;
/// Numbers of outputs that are kept.
constexpr size_t kMaxOutputs = 8 << 20;

/// For the names of nodes the candidate that they belong to.
struct Owners {
  std::map<std::string, size_t> layers;
  std::map<std::string, size_t> conversions; ///< as quant::QdqWriter names them

  explicit Owners(const std::vector<quant::Candidate> &candidates) {
    for (size_t i = 0; i < candidates.size(); ++i) {
      for (const quant::CandidateLayer &layer : candidates[i].layers) {
        layers[layer.name] = i;
      }
      for (const std::string &tensor : candidates[i].tensors) {
        conversions[tensor + "_QuantizeLinear"] = conversions[tensor + "_DequantizeLinear"] = i;
      }
    }
  }

  /// Those that share a region.
  std::vector<size_t> of(const RegionTime &region) const {
    std::vector<size_t> own, converted;
    for (const std::string &node : region.nodes) {
      if (auto layer = layers.find(node); layer != layers.end()) {
        own.push_back(layer->second);
      } else if (auto conversion = conversions.find(node); conversion != conversions.end()) {
        converted.push_back(conversion->second);
      }
    }
    return own.empty() ? converted : own;
  }
};

/// What a candidate's operands lose, relative to themselves.
double noiseOf(const quant::Candidate &candidate, const quant::QuantizationInfo &info) {
  double noise = 1e-9;
  for (const quant::TensorInfo &tensor : info.tensors) {
    bool isRead = std::ranges::any_of(candidate.layers, [&](const quant::CandidateLayer &layer) {
      return std::ranges::count(tensor.readers, layer.name) > 0;
    });
    noise += isRead ? std::pow(10, -tensor.decibels / 10) : 0;
  }
  return noise;
}

} // namespace

Result<CandidateTimes> timeCandidates(const FormMaker &maker, const Dataset &data, double seconds,
                                      TaskListener &listener) {
  std::vector<Treatment> kinds;
  std::vector<std::unique_ptr<Form>> forms;
  std::vector<const Form *> views;
  std::string widest = maker.uniform(Treatment::Wide);
  for (Treatment treatment : quant::kTreatments) {
    if (treatment == Treatment::Wide || maker.uniform(treatment) != widest) {
      TENON_ASSIGN(Form form, maker.compile(maker.uniform(treatment), listener));
      kinds.push_back(treatment);
      forms.push_back(std::make_unique<Form>(std::move(form)));
      views.push_back(forms.back().get());
    }
  }
  TENON_ASSIGN(std::vector<Latency> whole,
               timeInterleaved(views, data, kSecondsOfWhole, maker.options(), listener));
  double round = 1e-6; // a run that brings the caches back, and one that counts
  for (const Latency &latency : whole) {
    round += 2 * latency.milliseconds / 1000;
  }
  size_t rounds = static_cast<size_t>(std::clamp(seconds / round, kFewestRounds, kMaxRounds));
  TENON_ASSIGN(std::vector<std::vector<RegionTime>> regions,
               timeRegions(views, data, rounds, maker.options()));
  CandidateTimes times{whole.front().milliseconds, {}};
  Owners owners(maker.candidates());
  for (const quant::Candidate &candidate : maker.candidates()) {
    times.treatments.emplace_back(candidate.treatments.size());
  }
  for (size_t kind = 0; kind < kinds.size(); ++kind) {
    std::vector<double> sums(maker.candidates().size());
    for (const RegionTime &region : regions[kind]) {
      std::vector<size_t> own = owners.of(region);
      for (size_t candidate : own) {
        sums[candidate] += region.milliseconds / static_cast<double>(own.size());
      }
    }
    for (size_t i = 0; i < sums.size(); ++i) {
      const std::vector<Treatment> &treatments = maker.candidates()[i].treatments;
      auto place = std::ranges::find(treatments, kinds[kind]);
      if (place != treatments.end()) {
        times.treatments[i][static_cast<size_t>(place - treatments.begin())].milliseconds = sums[i];
      }
    }
  }
  return times;
}

Result<ErrorMeter> ErrorMeter::open(const FormMaker &maker, const Form &model, const Dataset &data,
                                    size_t most) {
  ErrorMeter meter;
  meter.maker = &maker;
  meter.data = &data;
  size_t count = std::min(most, data.samples());
  for (size_t i = 0; i < count; ++i) {
    meter.places.push_back(i * data.samples() / count);
    TENON_ASSIGN(Rows row, rowsOf(model, data, std::span(meter.places).last(1), maker.options()));
    meter.right.push_back(std::move(row.front()));
    size_t fit = kMaxOutputs / std::max<size_t>(meter.right.back().size(), 1);
    count = std::min(count, std::max<size_t>(fit, 1));
  }
  return meter;
}

Result<double> ErrorMeter::errorOf(const std::string &letters, TaskListener &listener) {
  std::string widest = maker->uniform(Treatment::Wide);
  if (!ofWidest) {
    ofWidest = 0;
    if (!maker->isModel(widest)) {
      TENON_ASSIGN(ofWidest, errorOf(widest, listener));
    }
  }
  TENON_ASSIGN(Form form, maker->compile(letters, listener));
  TENON_ASSIGN(Rows rows, rowsOf(form, *data, places, maker->options()));
  return std::max(squaredDistance(rows, right) - *ofWidest, 0.0);
}

std::vector<std::vector<bool>>
estimateErrors(const FormMaker &maker, std::vector<std::vector<MeasuredTreatment>> &treatments) {
  std::vector<double> ratios;
  for (size_t i = 0; i < treatments.size(); ++i) {
    const MeasuredTreatment &narrow = treatments[i].back();
    if (narrow.error && std::isfinite(*narrow.error)) {
      ratios.push_back(*narrow.error / noiseOf(maker.candidates()[i], maker.narrowInfo()));
    }
  }
  std::ranges::sort(ratios);
  double ratio = ratios.empty() ? 1 : ratios[ratios.size() / 2];
  std::vector<std::vector<bool>> isEstimated;
  for (size_t i = 0; i < treatments.size(); ++i) {
    isEstimated.emplace_back();
    for (MeasuredTreatment &treatment : treatments[i]) {
      isEstimated.back().push_back(!treatment.error);
      treatment.error =
          treatment.error.value_or(ratio * noiseOf(maker.candidates()[i], maker.narrowInfo()));
    }
  }
  return isEstimated;
}

} // namespace tenon::tool
