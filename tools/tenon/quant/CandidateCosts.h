// What each treatment of each candidate costs: time of its regions, and error at the model's
// outputs with it alone.

#pragma once

#include "tools/tenon/quant/FormMaker.h"
#include "tools/tenon/quant/SearchState.h"

#include <vector>

namespace tenon::tool {

struct CandidateTimes {
  double modelMilliseconds = 0; ///< a sample in the widest form
  std::vector<std::vector<MeasuredTreatment>> treatments;
};
/// In engines with each treatment wherever it can be: a region counts for the candidates whose
/// layers are in it, a conversion for those that read the tensor. Between two narrow layers there
/// is none, beside a wide one there is; so a time is that of a layer whose neighbours are treated
/// alike.
Result<CandidateTimes> timeCandidates(const FormMaker &maker, const Dataset &data, double seconds,
                                      TaskListener &listener);

/// Errors of forms at the outputs, on a few samples that are spread over the data: those of a class
/// often stand together.
class ErrorMeter {
public:
  /// `model` is the model as it is. Fewer samples than `most` where outputs are large.
  static Result<ErrorMeter> open(const FormMaker &maker, const Form &model, const Dataset &data,
                                 size_t most);

  /// Squared and relative, as squaredDistance, without what the widest form has.
  Result<double> errorOf(const std::string &letters, TaskListener &listener);
  size_t samples() const { return places.size(); }

private:
  const FormMaker *maker = nullptr;
  const Dataset *data = nullptr;
  std::vector<size_t> places;
  Rows right;
  std::optional<double> ofWidest;
};

/// Errors that were not measured, for want of time: the noise of what a candidate reads, times what
/// the median of the measured ones makes of theirs. Says which they are.
std::vector<std::vector<bool>>
estimateErrors(const FormMaker &maker, std::vector<std::vector<MeasuredTreatment>> &treatments);

} // namespace tenon::tool
