// A form of a model under search, as it is or with some layers in few bits: compiled for this
// machine, run on samples, its regions timed. Relies on the engine's records "fusion" and
// "placement" for the nodes of a step.

#pragma once

#include "tools/tenon/data/Dataset.h"
#include "tools/tenon/engines/EngineSource.h"

#include <memory>
#include <span>
#include <string>
#include <vector>

namespace tenon::tool {

struct FormOptions {
  unsigned threads = 0;
  bool useCache = true;
  runtime::SessionOptions session() const;
};

struct Form {
  EngineSource source;
  std::shared_ptr<const runtime::Engine> engine;

  static Result<Form> compile(const std::string &model, const FormOptions &options,
                              TaskListener &listener);
};

/// The first outputs of floating point of some samples, all outputs of a sample behind each other.
using Rows = std::vector<std::vector<double>>;
Result<Rows> rowsOf(const Form &form, const Dataset &data, std::span<const size_t> samples,
                    const FormOptions &options);

/// How far outputs are from the right ones: |a - b| / |b| as mean squares over the samples. Squares
/// of independent errors add up. Outputs that are not finite are infinitely far.
double squaredDistance(const Rows &rows, const Rows &right);

/// Nodes of a region of the engine, and what it takes.
struct RegionTime {
  std::vector<std::string> nodes;
  double milliseconds = 0;
};

/// Times of the regions of each form for one sample: the forms run in turn, and of each step the
/// lower quartile of `rounds` runs counts, which others at work on the machine disturb least.
Result<std::vector<std::vector<RegionTime>>> timeRegions(std::span<const Form *const> forms,
                                                         const Dataset &data, size_t rounds,
                                                         const FormOptions &options);

/// Median latency of one sample, the forms measured in turn, and the ratio of each to the first.
struct Latency {
  double milliseconds = 0;
  double ratio = 1, low = 1, high = 1; ///< with its 95 % interval
};
Result<std::vector<Latency>> timeInterleaved(std::span<const Form *const> forms,
                                             const Dataset &data, double seconds,
                                             const FormOptions &options, TaskListener &listener);

} // namespace tenon::tool
