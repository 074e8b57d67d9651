// Several engines measured in turn, so that what disturbs the machine disturbs all of them alike.

#pragma once

#include "tools/tenon/bench/Subject.h"
#include "tools/tenon/task/TaskListener.h"

#include <vector>

namespace tenon::tool {

struct MeasureBudget {
  double seconds = 2;
  size_t runs = 0; ///< of each, exactly; 0 for what the time allows
};

/// Fills the times of each subject, after runs that warm up. There is one at least.
Status measureInterleaved(const MeasureBudget &budget, std::vector<Subject> &subjects,
                          TaskListener &listener);

} // namespace tenon::tool
