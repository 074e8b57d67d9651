// How long the model takes before and after pruning: predicted by the compiler, and measured in
// turn.

#pragma once

#include "tools/tenon/bench/Interleaved.h"
#include "tools/tenon/bench/Statistics.h"
#include "tools/tenon/engines/EngineSource.h"

#include <optional>
#include <string>
#include <vector>

namespace tenon::tool {

struct TimingRequest {
  std::vector<std::string> shapes; ///< of every input: constants
  TargetFlags target;
  runtime::SessionOptions session;
  bool useCache = true;
  double seconds = 1;
};

struct Timing {
  double before = 0, after = 0; ///< medians of ms
  double predicted =
      0; ///< ms afterwards: what is measured before times what the kernels are predicted to save
  RatioSummary ratio; ///< of after to before
};

/// The model before, compiled and ready, against which narrower ones are measured.
class Stopwatch {
public:
  static Result<Stopwatch> start(const std::string &model, const TimingRequest &request,
                                 TaskListener &listener);
  Result<Timing> measure(const std::string &pruned, TaskListener &listener);
  /// ms of the model before, measured alone.
  Result<double> before(TaskListener &listener);

private:
  struct Entry {
    Subject subject;
    double predicted = 0; ///< us
  };
  Result<Entry> load(const std::string &model, TaskListener &listener) const;

  TimingRequest request;
  std::string model;
  std::vector<Subject> first; ///< one
  double predictedBefore = 0;
};

} // namespace tenon::tool
