// The table. A new family is one more row.
#include "compiler/frontend/language/Family.h"

namespace tenon::language {
namespace {

constexpr Family kFamilies[] = {
    {.name = "gemma2",
     .normalizesResults = true,
     .activation = Activation::GeluTanh,
     .scalesEmbedding = true,
     .hasWindow = true,
     .noWindowEvery = 2,
     .scoreCap = 50,
     .logitCap = 30,
     .layersOfWideScale = 46},
    {.name = "gemma3",
     .ropeBase = 1e6,
     .windowRopeBase = 10000,
     .normalizesResults = true,
     .normalizesHeads = true,
     .activation = Activation::GeluTanh,
     .scalesEmbedding = true,
     .hasWindow = true,
     .noWindowEvery = 6,
     .layersOfWideScale = 62},
    {.name = "gpt2",
     .rope = Rope::None,
     .hasLayerNorm = true,
     .activation = Activation::GeluTanh,
     .isGated = false},
    // Its definition has the exact GELU; other readers of GGUF take the tanh form.
    {.name = "gptneox",
     .hasLayerNorm = true,
     .mayBeParallel = true,
     .activation = Activation::Gelu,
     .isGated = false},
    {.name = "llama", .rope = Rope::Pairs}, // also Mistral, SmolLM2
    {.name = "phi3", .hasWindow = true},
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
