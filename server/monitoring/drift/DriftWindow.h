// Rows of requests, counted until there are enough to compare with the reference. Used by one
// thread.

#pragma once

#include "server/monitoring/drift/DriftReference.h"

#include <chrono>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace tenon::server {

struct FeatureDrift {
  std::string name;
  bool isInput = true;
  uint64_t rows = 0;
  double missing = 0;               ///< share of the rows
  std::optional<double> outOfRange; ///< share of those that are there; none where there is none
  std::optional<double> psi, psiThreshold; ///< from 30 rows on
  std::optional<double> ks, ksThreshold;   ///< of features of many values
  /// Of features whose values come again: the share of the rows whose values the reference does not
  /// have, and of the reference's whose values the window does not have.
  std::optional<double> newValues, lostValues;
  bool isDrift = false;
};

struct DriftReport {
  std::chrono::system_clock::time_point since, until; ///< when the window's rows came
  uint64_t rows = 0;
  bool isDrift = false, isOutputDrift = false; ///< of any feature, and of an output's
  std::vector<FeatureDrift> features;
};

/// The rows of a sampled request in one monitored port.
struct SampledRows {
  uint64_t rows = 0;
  Bytes elements;
};

class DriftWindow {
public:
  /// `rows` make a window; of windows without change, the share `falseAlarms` is called drift, all
  /// features together.
  DriftWindow(std::shared_ptr<const DriftReference> reference, uint64_t rows, double falseAlarms);

  /// Adds a request, `ports` in the order of the reference's. Gives a report for each window that
  /// is full with it.
  std::vector<DriftReport> add(std::span<const SampledRows> ports);
  /// In the window that is not full.
  uint64_t collected() const { return count; }

private:
  struct Counts {
    std::vector<uint32_t> cells;
    uint64_t rows = 0, missing = 0;
    /// Values that are not in the cells yet: counted together, they find the feature's tables in
    /// the cache.
    std::vector<double> pending;
  };
  static void countPending(const DriftFeature &feature, Counts &counts);
  DriftReport report();
  FeatureDrift compare(const DriftFeature &feature, const Counts &counts);
  /// Whether more values are new or lost than by chance.
  bool compareValues(const DriftFeature &feature, const Counts &counts, FeatureDrift &found) const;
  double psiQuantile(double tail, unsigned freedom);

  std::shared_ptr<const DriftReference> reference;
  uint64_t size;
  double share; ///< of the false alarms, for one feature
  uint64_t count = 0;
  std::chrono::system_clock::time_point since;
  std::vector<Counts> counted; ///< one for each feature
  std::map<std::pair<double, unsigned>, double> quantiles;
  double ksQuantile, ksQuantileOfRepeated;
  std::vector<double> row;
};

} // namespace tenon::server
