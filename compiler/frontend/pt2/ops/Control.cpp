#include "compiler/frontend/pt2/OpTable.h"

namespace tenon::pt2 {

llvm::ArrayRef<OpRow> controlRows() { return {}; }

} // namespace tenon::pt2
