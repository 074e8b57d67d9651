// Every case of ONNX's node suites whose operators import gives the suite's results in the
// reference interpreter. Relies on Debian's libonnx-testdata; without it the test says so and is
// skipped.
#include "test/unit/frontend/NodeSuite.h"

#include <cstdlib>
#include <gtest/gtest.h>

namespace tenon::onnx {
namespace {

/// Cases that import and pass; may only grow.
constexpr size_t kLeastPassed = 700;

TEST(NodeSuite, ImportedCasesGiveTheSuitesResults) {
  const char *other = std::getenv("TENON_NODE_SUITE");
  std::vector<std::string> cases = listCases(other ? other : "/usr/share/libonnx-testdata/data");
  if (cases.empty()) {
    GTEST_SKIP() << "libonnx-testdata is not installed";
  }
  size_t passed = 0;
  size_t gaps = 0;
  for (const std::string &folder : cases) {
    CaseResult result = runCase(folder);
    passed += result.outcome == CaseResult::Outcome::Passed;
    gaps += result.outcome == CaseResult::Outcome::Gap;
    if (result.outcome == CaseResult::Outcome::Wrong ||
        result.outcome == CaseResult::Outcome::Refused) {
      ADD_FAILURE() << result.name << ": " << result.detail;
    } else if (std::getenv("TENON_LIST_GAPS") && result.outcome == CaseResult::Outcome::Gap) {
      std::printf("gap %s: %s\n", result.name.c_str(), result.detail.c_str());
    }
  }
  std::printf("%zu cases: %zu passed, %zu with gaps\n", cases.size(), passed, gaps);
  EXPECT_TRUE(other || passed >= kLeastPassed) << passed;
}

} // namespace
} // namespace tenon::onnx
