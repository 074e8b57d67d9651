// Reports a broken invariant and ends the process; relies on stderr only, as memory may be damaged.

#include "support/Check.h"

#include <cstdio>
#include <cstdlib>

namespace tenon {

void checkFailed(const char *file, int line, const char *condition, const char *explanation) {
  std::fprintf(stderr, "TN0902: an internal error in Tenon at %s:%d: %s (%s)\n", file, line,
               explanation, condition);
  std::abort();
}

} // namespace tenon
