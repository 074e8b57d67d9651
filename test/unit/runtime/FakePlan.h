// What kernels that the stand-in does not know take on it, and a clock that only they move, for
// programs that measure kernels. A kernel takes 5 to 45 microseconds by its name, with three digits
// behind the point, by which the lines of the file that the environment variable TENON_FAKE_GPU
// names call it:
//
//   wrong TIME              it writes other results than all others, which write none
//   whole TIME FACTOR       it takes longer in a module with more than two kernels
//   slow FIRST END FACTOR   all take longer from so many launches of `tenon_clock` on, which takes
//                           20 microseconds otherwise
//
// Without the variable nothing of this is in use.

#pragma once

#include "test/unit/runtime/FakeKernels.h"

#include <chrono>
#include <cstddef>
#include <map>
#include <set>
#include <string>
#include <vector>

namespace tenon::test {

class FakePlan {
public:
  /// Null where no file is named.
  static FakePlan *get();

  /// Of a module with so many kernels.
  int run(const std::string &kernel, size_t kernelsOfModule, const KernelCall &call);
  std::chrono::steady_clock::time_point now() const;

private:
  explicit FakePlan(const std::string &path);
  double slowdown() const;

  struct Window {
    size_t first, end;
    double factor;
  };
  std::map<long, double> wholes; ///< by nanoseconds
  std::set<long> wrong;
  std::vector<Window> windows;
  size_t clockLaunches = 0;
  double nanoseconds = 0; ///< on the clock
};

} // namespace tenon::test
