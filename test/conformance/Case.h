// One case of ONNX's test suites: a model and data sets of inputs with the outputs it must give.

#pragma once

#include "runtime/core/Engine.h"
#include "tools/tenon/target/Target.h"

#include <memory>
#include <string>
#include <vector>

namespace tenon::conformance {

struct Case {
  std::string name; ///< "node/test_abs"
  std::string folder;
};

enum class Verdict { Pass, Fail, Unsupported, NotRun };

struct Outcome {
  Verdict verdict = Verdict::Fail;
  std::string reason; ///< one line; for a pass, the inputs that had to be constants
};

struct CaseOptions {
  tool::Targets targets; ///< a single one
  unsigned threads = 1;
  std::string scratchFolder; ///< for the engine file
  bool compileOnly = false;  ///< for machines that cannot run the target
};

/// "avx512" or "sm_90".
std::string_view variantOf(const tool::Targets &targets);
/// The engine on the variant that the options name.
Result<std::shared_ptr<const runtime::Engine>> openEngine(const std::string &path,
                                                          const CaseOptions &options);
/// The outcome of a case that ended so.
Outcome judge(const Status &status);

/// Cases in the folders below `root` that hold a model.onnx, sorted by name.
std::vector<Case> findCases(const std::string &root);

/// Compiles the model, runs every data set on the engine and compares.
Outcome runCase(const Case &testCase, const CaseOptions &options);

} // namespace tenon::conformance
