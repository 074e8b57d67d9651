// The comparison follows _Feature.compare of bindings/python/tenon/drift.py line by line.

#include "server/monitoring/drift/DriftWindow.h"

#include "server/monitoring/drift/Distributions.h"

#include <algorithm>
#include <cmath>

namespace tenon::server {
namespace {

constexpr size_t kPending = 512;
// How the allowed false alarms are shared out among the statistics of a feature; one of few values
// has no KS, one whose values do not come again no new and lost ones.
constexpr double kContinuousShare = 0.45, kRepeatedShare = 0.35, kValuesShare = 0.7,
                 kNewShare = 0.1, kMissingShare = 0.05, kRangeShare = 0.05;

/// Of PSI, and of KS where there is one.
double shapeShare(const DriftFeature &feature) {
  return feature.hasOwnBins ? kValuesShare : feature.isRepeated ? kRepeatedShare : kContinuousShare;
}

/// The largest distance of the two empirical distribution functions, which is behind some cell.
double ksOf(const DriftFeature &feature, std::span<const uint32_t> cells, uint64_t present) {
  int64_t n = static_cast<int64_t>(present), m = static_cast<int64_t>(feature.present()), seen = 0,
          before = 0, largest = 0; // times n m
  for (size_t i = 0; i < feature.values.size(); ++i) {
    seen += cells[2 * i] * m;
    largest = std::max(largest, std::abs(before - seen));
    seen += cells[2 * i + 1] * m;
    before = static_cast<int64_t>(feature.upTo[i]) * n;
    largest = std::max(largest, std::abs(before - seen));
  }
  return static_cast<double>(largest) / (static_cast<double>(n) * static_cast<double>(m));
}

} // namespace

DriftWindow::DriftWindow(std::shared_ptr<const DriftReference> given, uint64_t rows,
                         double falseAlarms)
    : reference(std::move(given)), size(rows),
      share(falseAlarms / static_cast<double>(reference->features().size())),
      ksQuantile(kolmogorovQuantile(share * kContinuousShare)),
      ksQuantileOfRepeated(kolmogorovQuantile(share * kRepeatedShare)) {
  for (const DriftFeature &feature : reference->features()) {
    counted.push_back({.cells = std::vector<uint32_t>(feature.cells()), .pending = {}});
    counted.back().pending.reserve(kPending);
  }
}

void DriftWindow::countPending(const DriftFeature &feature, Counts &counts) {
  for (double value : counts.pending) {
    if (std::isnan(value)) {
      ++counts.missing;
    } else {
      ++counts.cells[feature.cellOf(value)];
    }
  }
  counts.rows += counts.pending.size();
  counts.pending.clear();
}

std::vector<DriftReport> DriftWindow::add(std::span<const SampledRows> ports) {
  std::vector<DriftReport> reports;
  uint64_t most = 0;
  for (const SampledRows &port : ports) {
    most = std::max(most, port.rows);
  }
  for (uint64_t r = 0; r < most; ++r) {
    if (count == 0) {
      since = std::chrono::system_clock::now();
    }
    for (size_t p = 0; p < ports.size(); ++p) {
      if (r >= ports[p].rows) {
        continue;
      }
      const MonitoredPort &port = reference->ports()[p];
      uint64_t bytes = ports[p].elements.size() / ports[p].rows;
      row.resize(port.features);
      featuresOfRow(port, ports[p].elements.subspan(r * bytes, bytes), row.data());
      for (size_t i = 0; i < port.features; ++i) {
        Counts &counts = counted[port.firstFeature + i];
        counts.pending.push_back(row[i]);
        if (counts.pending.size() == kPending) {
          countPending(reference->features()[port.firstFeature + i], counts);
        }
      }
    }
    if (++count == size) {
      reports.push_back(report());
    }
  }
  return reports;
}

DriftReport DriftWindow::report() {
  DriftReport report = {
      .since = since, .until = std::chrono::system_clock::now(), .rows = count, .features = {}};
  for (size_t i = 0; i < counted.size(); ++i) {
    countPending(reference->features()[i], counted[i]);
    FeatureDrift found = compare(reference->features()[i], counted[i]);
    report.isDrift = report.isDrift || found.isDrift;
    report.isOutputDrift = report.isOutputDrift || (found.isDrift && !found.isInput);
    report.features.push_back(std::move(found));
    std::fill(counted[i].cells.begin(), counted[i].cells.end(), 0);
    counted[i].rows = counted[i].missing = 0;
  }
  count = 0;
  return report;
}

FeatureDrift DriftWindow::compare(const DriftFeature &feature, const Counts &counts) {
  FeatureDrift found;
  found.name = feature.name;
  found.isInput = feature.isInput;
  found.rows = counts.rows;
  if (counts.rows == 0) {
    return found;
  }
  uint64_t present = counts.rows - counts.missing, referencePresent = feature.present();
  found.missing = static_cast<double>(counts.missing) / static_cast<double>(counts.rows);
  found.isDrift = moreOftenTail(counts.missing, counts.rows, feature.rows - referencePresent,
                                feature.rows) < share * kMissingShare;
  if (present == 0) {
    return found;
  }
  uint64_t outside = counts.cells.front() + counts.cells.back();
  found.outOfRange = static_cast<double>(outside) / static_cast<double>(present);
  found.isDrift =
      found.isDrift || outsideTail(outside, present, referencePresent) < share * kRangeShare;
  if (feature.isRepeated) {
    found.isDrift = compareValues(feature, counts, found) || found.isDrift;
  }
  if (std::min(present, referencePresent) < kMinRows) {
    return found;
  }
  std::vector<uint64_t> own = feature.binsOf(counts.cells), base;
  std::vector<uint64_t> window;
  for (size_t i = 0; i < own.size(); ++i) {
    if (own[i] + feature.bins[i] > 0) {
      base.push_back(feature.bins[i]);
      window.push_back(own[i]);
    }
  }
  unsigned freedom = static_cast<unsigned>(base.size()) - 1;
  double unit = 1 / static_cast<double>(present) + 1 / static_cast<double>(referencePresent);
  double psiShare = share * shapeShare(feature);
  found.psi = psiOf(base, window);
  found.psiThreshold = freedom ? unit * psiQuantile(psiShare, freedom) : 0;
  found.isDrift = found.isDrift || (freedom && chi2Tail(*found.psi / unit, freedom) < psiShare);
  if (!feature.hasOwnBins) {
    double factor =
        kolmogorovFactor(static_cast<double>(present), static_cast<double>(referencePresent));
    found.ks = ksOf(feature, counts.cells, present);
    found.ksThreshold = (feature.isRepeated ? ksQuantileOfRepeated : ksQuantile) / factor;
    found.isDrift = found.isDrift || kolmogorovTail(*found.ks * factor) < psiShare;
  }
  return found;
}

bool DriftWindow::compareValues(const DriftFeature &feature, const Counts &counts,
                                FeatureDrift &found) const {
  uint64_t present = counts.rows - counts.missing, known = 0, lost = 0;
  std::map<uint64_t, uint64_t> sizes; // of the values in both samples together
  for (size_t i = 0; i < feature.values.size(); ++i) {
    uint64_t here = counts.cells[2 * i + 1], before = feature.times(i);
    known += here;
    lost += here == 0 ? before : 0;
    ++sizes[here + before];
  }
  // Which of the new rows are equal is not kept; as many different values are the likelier.
  uint64_t added = present - known;
  if (added > 0) {
    sizes[1] += added;
  }
  std::vector<std::pair<uint64_t, uint64_t>> groups(sizes.begin(), sizes.end());
  found.newValues = static_cast<double>(added) / static_cast<double>(present);
  found.lostValues = static_cast<double>(lost) / static_cast<double>(feature.present());
  return onlyInOneTail(added, present, feature.present(), groups) < share * kNewShare ||
         onlyInOneTail(lost, feature.present(), present, groups) < share * kNewShare;
}

double DriftWindow::psiQuantile(double tail, unsigned freedom) {
  double &quantile = quantiles[{tail, freedom}];
  return quantile > 0 ? quantile : quantile = chi2Quantile(tail, freedom);
}

} // namespace tenon::server
