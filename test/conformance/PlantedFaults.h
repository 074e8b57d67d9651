// Engines for a GPU with one faulty kernel each, run as cases are: what a sanitizer must report, so
// that its silence on other cases says something.

#pragma once

#include "test/conformance/Case.h"

#include <vector>

namespace tenon::conformance {

/// A fault for each tool of compute-sanitizer, by its name: "memcheck", "racecheck", "initcheck",
/// "synccheck".
std::vector<Case> plantedFaults();

/// Runs the faulty kernel. The fault of memcheck ends in an error, the others go unnoticed without
/// the sanitizer.
Outcome runPlantedFault(const Case &fault, const CaseOptions &options);

} // namespace tenon::conformance
