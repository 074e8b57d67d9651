// Expressions over sizes: what is found valid has a value or says that it has none.
#include "engine/Expr.h"
#include "test/fuzz/Fuzz.h"

#include <cstring>
#include <vector>

using namespace tenon;

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  constexpr size_t bytes = 1 + sizeof(int64_t);
  std::vector<engine::ExprTerm> program;
  for (; size >= bytes; data += bytes, size -= bytes) {
    engine::ExprTerm term{static_cast<engine::ExprOp>(data[0]), 0};
    std::memcpy(&term.value, data + 1, sizeof(term.value));
    program.push_back(term);
  }
  if (!engine::isValidProgram(program, 3)) {
    return 0;
  }
  for (int64_t value : {int64_t(0), int64_t(1), int64_t(7), INT64_MAX, INT64_MIN}) {
    const int64_t symbols[] = {value, 2, value / 3};
    (void)engine::evaluate(program, symbols);
  }
  engine::ExprTable table;
  (void)table.format(table.append(program));
  return 0;
}
