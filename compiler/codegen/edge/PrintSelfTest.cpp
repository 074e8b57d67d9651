// The self-test of a folder: inputs from a seed, and a hash of what each layer makes. By rows, a
// hash also covers where each row lies, so that a wrong place is found at the layer that it belongs
// to.
#include "compiler/codegen/edge/PrintText.h"
#include "support/text/Text.h"

#include <algorithm>
#include <cstdio>

namespace tenon::codegen::edge {
namespace {

class SelfTest {
public:
  SelfTest(const Program &tested, const std::string &modelName,
           const std::vector<LayerHash> &expected)
      : program(tested), name(modelName), capital(upper(modelName)), hashes(expected) {}

  std::string text() const {
    bool isByRows = !program.steps.empty();
    return strCat(beginText(name, "its self-test; with -DSELFTEST_MAIN a program."), "#include \"",
                  name, ".h\"\n", isByRows ? rows() : layers(), mainText());
  }

private:
  static std::string shownName(const Call &call) {
    std::string shown = commentText(call.node);
    std::ranges::replace(shown, '"', '_');
    return shown;
  }

  static std::string hashText(uint32_t hash) {
    char text[16];
    std::snprintf(text, sizeof(text), "0x%08xu", hash);
    return text;
  }

  /// What the function of both kinds begins with.
  std::string functions() const {
    return strCat(
        "};\n\nconst char *", name,
        "_layer_name(int layer) { return selftest_layers[layer].name; }\n\n",
        "static uint32_t selftest_fill(uint8_t *bytes, int32_t count, uint32_t state) {\n",
        "  for (int32_t i = 0; i < count; ++i) {\n    state = state * 1664525u + 1013904223u;\n",
        "    bytes[i] = (uint8_t)(state >> 24);\n  }\n  return state;\n}\n\n",
        "static uint32_t selftest_hash(const uint8_t *bytes, int32_t count, uint32_t hash) {\n",
        "  for (int32_t i = 0; i < count; ++i) {\n    hash = (hash ^ bytes[i]) * 16777619u;\n  }\n",
        "  return hash;\n}\n\nint ", name, "_selftest(void *arena, int *layer) {\n",
        "  uint8_t *bytes = arena;\n  uint32_t state = ", kSelfTestSeed, "u;\n",
        program.states.empty() ? "" : strCat("  ", name, "_reset(arena);\n"),
        program.isInputByRows ? std::string() : fillInputs());
  }

  std::string fillInputs() const {
    std::string text;
    for (const Port &port : program.inputs) {
      const Tensor &tensor = program.tensors[port.tensor];
      text += strCat("  state = selftest_fill(bytes + ", tensor.offset, ", ", tensor.bytes,
                     ", state);\n");
    }
    return text;
  }

  std::string layers() const {
    std::string text =
        strCat("\n/* Where a layer's output lies and what its bytes hash to (FNV-1a). A layer of ",
               "no bytes leaves its\n   output to be completed by the next. */\n",
               "typedef struct {\n  const char *name;\n  int32_t offset, bytes;\n",
               "  uint32_t hash;\n} selftest_layer;\n\n",
               "static const selftest_layer selftest_layers[] = {\n");
    for (size_t i = 0; i < program.calls.size(); ++i) {
      const Call &call = program.calls[i];
      MadeRow made = madeRow(program, {static_cast<int>(i), 0});
      text += strCat("  {\"", shownName(call), "\", ", made.offset, ", ", made.bytes, ", ",
                     hashText(hashes[i].bytes), "},\n");
    }
    return strCat(
        text, functions(), "  for (int i = 0; i < ", capital, "_LAYERS; ++i) {\n    ", name,
        "_layer(arena, i);\n    const selftest_layer *expected = &selftest_layers[i];\n",
        "    uint32_t hash = selftest_hash(bytes + expected->offset, expected->bytes, ",
        "2166136261u);\n    if (expected->bytes > 0 && hash != expected->hash) {\n",
        "      *layer = i;\n      return 1;\n    }\n  }\n  (void)state;\n  return 0;\n}\n");
  }

  std::string rows() const {
    std::string text = strCat(
        "#include \"", name, "_weights.h\"\n\n",
        "/* Where rows of a layer's output lie, the step's row from which on they are whole, and ",
        "what their\n   offsets and their bytes hash to (FNV-1a). A layer of no bytes leaves its ",
        "output to be completed by\n   the next. */\n",
        "typedef struct {\n  const char *name;\n  const uint16_t *places;\n",
        "  int32_t offset, bytes, first;\n  uint32_t hashes[2];\n} selftest_layer;\n\n",
        "static const selftest_layer selftest_layers[] = {\n");
    for (size_t i = 0; i < program.calls.size(); ++i) {
      const Call &call = program.calls[i];
      const Tensor &tensor = program.tensors[call.writes];
      int64_t first = call.form == RowForm::Sum ? program.tensors[call.reads.front()].rows - 1 : 0;
      MadeRow made = madeRow(program, {static_cast<int>(i), static_cast<int>(first)});
      text += strCat("  {\"", shownName(call), "\", ",
                     tensor.places.empty() ? "0" : placesText(name, call.writes), ", ",
                     tensor.offset, ", ", made.bytes, ", ", first, ", {",
                     hashText(hashes[i].places), ", ", hashText(hashes[i].bytes), "}},\n");
    }
    text += strCat(functions(), "  /* First where rows lie, then what they hold. */\n",
                   "  for (int pass = 0; pass < 2; ++pass) {\n    uint32_t hashes[", capital,
                   "_LAYERS];\n    for (int i = 0; i < ", capital,
                   "_LAYERS; ++i) {\n      hashes[i] = 2166136261u;\n    }\n",
                   "    for (int step = 0; step < ", capital,
                   "_STEPS; ++step) {\n      int at = ", name,
                   "_step_layers[step];\n      int32_t row = ", name, "_step_rows[step];\n");
    if (program.isInputByRows) {
      text += strCat("      if (at == ", capital, "_LAYERS) {\n",
                     "        state = pass == 0 ? state : selftest_fill(",
                     rowText(program, name, program.inputs.front().tensor), ", ", capital,
                     "_INPUT_ROW_BYTES, state);\n        continue;\n      }\n");
    }
    return strCat(
        text, "      if (pass == 1) {\n        ", name, "_step(arena, step);\n      }\n",
        "      const selftest_layer *made = &selftest_layers[at];\n",
        "      if (made->bytes == 0 || row < made->first) {\n        continue;\n      }\n",
        "      int32_t offset = made->offset + (row - made->first) * made->bytes;\n",
        "      offset = made->places ? ", kPlaceUnit, " * made->places[row] : offset;\n",
        "      uint8_t place[4];\n      for (int i = 0; i < 4; ++i) {\n",
        "        place[i] = (uint8_t)(offset >> 8 * i);\n      }\n",
        "      hashes[at] = pass == 0 ? selftest_hash(place, 4, hashes[at])\n",
        "                             : selftest_hash(bytes + offset, made->bytes, hashes[at]);\n",
        "    }\n    for (int i = 0; i < ", capital, "_LAYERS; ++i) {\n",
        "      if (selftest_layers[i].bytes > 0 && hashes[i] != selftest_layers[i].hashes[pass]) "
        "{\n",
        "        *layer = i;\n        return 1;\n      }\n    }\n  }\n  (void)state;\n",
        "  return 0;\n}\n");
  }

  std::string mainText() const {
    return strCat("\n#ifdef SELFTEST_MAIN\n#include <stdio.h>\n\nint main(void) {\n",
                  "  static uint32_t arena[(", capital, "_ARENA_BYTES + 3) / 4];\n",
                  "  int layer = 0;\n  if (", name, "_selftest(arena, &layer)) {\n    printf(\"",
                  name, ": layer %d (%s) differs\\n\", layer, ", name,
                  "_layer_name(layer));\n    return 1;\n  }\n  printf(\"", name,
                  ": %d layers are as compiled\\n\", ", capital,
                  "_LAYERS);\n  return 0;\n}\n#endif\n");
  }

  const Program &program;
  const std::string &name;
  std::string capital;
  const std::vector<LayerHash> &hashes;
};

} // namespace

std::string selfTestText(const Program &program, const std::string &name,
                         const std::vector<LayerHash> &hashes) {
  return SelfTest(program, name, hashes).text();
}

} // namespace tenon::codegen::edge
