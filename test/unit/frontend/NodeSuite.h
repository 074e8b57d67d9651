// Runs cases of ONNX's node suites through the importer and the reference interpreter: does the
// imported graph mean what ONNX says? Relies on the suites' layout: model.onnx beside
// test_data_set_N folders.
#pragma once

#include "compiler/frontend/onnx/wire/Model.h"

#include <functional>
#include <string>
#include <vector>

namespace tenon::onnx {

struct CaseResult {
  enum class Outcome { Passed, Gap, Refused, Wrong };
  std::string name;
  Outcome outcome = Outcome::Refused;
  std::string detail;
};

/// How a case is imported: as it is, or with a symbol for each input dim greater than 1 (equal dims
/// get the same symbol) and without the shapes that the model states for its results; or so for the
/// first dims alone.
enum class Shapes { Static, Symbolic, SymbolicBatch };

/// One case folder; inputs that decide shapes are fixed where the model does not import without.
CaseResult runCase(const std::string &folder, Shapes shapes = Shapes::Static);
/// The text of the module that a case's model imports to once `edit` has changed it, or the gap or
/// error instead. Inputs after the first that may decide shapes are fixed.
std::string importCase(const std::string &folder, const std::function<void(Model &)> &edit);
/// The case folders below `root`/node and its siblings, sorted.
std::vector<std::string> listCases(const std::string &root);

} // namespace tenon::onnx
