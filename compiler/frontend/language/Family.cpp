// The table. A new family is one more row.
#include "compiler/frontend/language/Family.h"

namespace tenon::language {
namespace {

constexpr Family kFamilies[] = {
    {.name = "llama", .rope = Rope::Pairs}, // also Mistral, SmolLM2
    {.name = "qwen2", .hasProjectionBias = true},
    {.name = "qwen3", .normalizesHeads = true},
    {.name = "smollm3", .rope = Rope::Pairs, .noRopeEvery = 4},
};

} // namespace

const Family *familyOf(std::string_view name) {
  for (const Family &family : kFamilies) {
    if (family.name == name) {
      return &family;
    }
  }
  return nullptr;
}

} // namespace tenon::language
