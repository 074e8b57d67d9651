// One case of ONNX's test suites: a model and data sets of inputs with the outputs it must give.

#pragma once

#include "engine/CpuLevel.h"

#include <string>
#include <vector>

namespace tenon::conformance {

struct Case {
  std::string name; ///< "node/test_abs"
  std::string folder;
};

enum class Verdict { Pass, Fail, Unsupported };

struct Outcome {
  Verdict verdict = Verdict::Fail;
  std::string reason; ///< one line; for a pass, the inputs that had to be constants
};

struct CaseOptions {
  engine::CpuLevel level = engine::CpuLevel::X86_64_V3;
  unsigned threads = 1;
  std::string scratchFolder; ///< for the engine file
};

/// Cases in the folders below `root` that hold a model.onnx, sorted by name.
std::vector<Case> findCases(const std::string &root);

/// Compiles the model, runs every data set on the engine and compares.
Outcome runCase(const Case &testCase, const CaseOptions &options);

} // namespace tenon::conformance
