// What the cost model's parts of a GPU's kernel say at a measured time: the causes that keep it
// from its limits, and what other configurations, more rows or other numbers would take. Relies on
// compiler/dispatch/Records.h for what parts are.

#pragma once

#include "tools/tenon/profile/Profile.h"

#include <optional>
#include <string>
#include <vector>

namespace tenon::tool {

/// Reads the record "time" of the chosen candidate. Nothing is taken of parts that do not add up
/// to its prediction.
void readParts(const Json &candidates, RegionFigures &region);

/// Seconds of all parts; 0 without any.
double predictedOf(const RegionFigures &region);

/// What keeps the region from its nearest floor, the largest first: each part beyond what the floor
/// needs, and what was measured beyond the prediction. Parts together take the measured time.
std::vector<Cause> causesOf(const RegionFigures &region, int multiprocessors);
/// The largest causes with their shares, as a sentence; empty without any.
std::string causesText(const RegionFigures &region);

/// Of the candidates that were possible, the one that is predicted to be the fastest, if it is
/// faster than the chosen one.
struct OtherKernel {
  std::string kernel;
  double seconds = 0; ///< by its ratio to the chosen one's prediction, from the measured time
};
std::optional<OtherKernel> fasterKernel(const RegionFigures &region);

/// Seconds of a run of `factor` times the rows; none without parts.
std::optional<double> secondsWithRows(const RegionFigures &region, double factor);
/// Seconds with products of 8-bit floats, quantization included, by the constants by which the
/// compiler decides; none for what these do not compute.
std::optional<double> secondsInFloat8(const RegionFigures &region);

} // namespace tenon::tool
