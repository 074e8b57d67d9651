// A program as a folder of C99: header, code, constants, the kernels used, self-test, Makefile. The
// kernels are static functions of the one file that calls them, so that two models link together.
#include "compiler/codegen/edge/Program.h"
#include "compiler/codegen/edge/Report.h"
#include "support/text/Text.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>
#include <cstdio>
#include <cstring>

namespace tenon::codegen::edge {
namespace {

constexpr std::array<std::string_view, 37> kKeywords = {
    "auto",     "break",  "case",   "char",     "const",     "continue", "default",  "do",
    "double",   "else",   "enum",   "extern",   "float",     "for",      "goto",     "if",
    "inline",   "int",    "long",   "register", "restrict",  "return",   "short",    "signed",
    "sizeof",   "static", "struct", "switch",   "typedef",   "union",    "unsigned", "void",
    "volatile", "while",  "_Bool",  "_Complex", "_Imaginary"};

std::string upper(std::string_view name) {
  std::string text(name);
  std::ranges::transform(text, text.begin(),
                         [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  return text;
}

/// One line for a comment.
std::string commentText(std::string_view text) {
  std::string plain;
  for (unsigned char c : text) {
    plain += c < ' ' || c > '~' || c == '*' || c == '\\' || c == '?' ? '_' : static_cast<char>(c);
  }
  return plain;
}

/// So that it reads back as the same double.
std::string numberText(double value) {
  char text[40];
  std::snprintf(text, sizeof(text), "%.17g", value);
  std::string plain = text;
  return plain.find_first_of(".en") == std::string::npos ? plain + ".0" : plain;
}

std::string elementText(const Constant &constant, size_t index) {
  const char *bytes = constant.bytes.data() + index * constant.elementBytes;
  if (constant.type == "int8_t") {
    return strCat(static_cast<int>(static_cast<int8_t>(*bytes)));
  }
  if (constant.type == "uint8_t") {
    return strCat(static_cast<int>(static_cast<uint8_t>(*bytes)));
  }
  if (constant.type == "uint16_t") {
    uint16_t value = 0;
    std::memcpy(&value, bytes, sizeof(value));
    return strCat(static_cast<int>(value));
  }
  if (constant.type == "int32_t") {
    int32_t value = 0;
    std::memcpy(&value, bytes, sizeof(value));
    return value == INT32_MIN ? "INT32_MIN" : strCat(value);
  }
  int64_t value = 0;
  std::memcpy(&value, bytes, sizeof(value));
  return strCat("INT64_C(", value, ")");
}

std::string arrayText(const Constant &constant) {
  constexpr size_t kPerLine = 20;
  std::string text;
  size_t count = constant.bytes.size() / constant.elementBytes;
  for (size_t i = 0; i < count; ++i) {
    text += i % kPerLine == 0 ? "\n  " : " ";
    text += elementText(constant, i) + ",";
  }
  return text + "\n";
}

class Printer {
public:
  Printer(const Program &printed, const std::string &modelName)
      : program(printed), name(modelName), capital(upper(modelName)),
        hashes(printed.roundsTwice ? layerHashesTwice(printed) : layerHashes(printed)) {}

  std::vector<File> files() const {
    return {{name + ".h", header()},          {name + ".c", code()},
            {name + "_weights.c", weights()}, {name + "_weights.h", weightsHeader()},
            {name + "_kernels.h", kernels()}, {name + "_selftest.c", selfTest()},
            {"Makefile", makefile()}};
  }

  std::string report() const { return reportOf(program, name, hashes); }

private:
  std::string begin(std::string_view what) const {
    return strCat("/* ", name, ": ", what, " Written by tenon compile. */\n");
  }

  void addPorts(std::string &text, const std::vector<Port> &ports, std::string_view kind) const {
    for (size_t i = 0; i < ports.size(); ++i) {
      const Port &port = ports[i];
      std::string prefix =
          strCat("#define ", capital, "_", kind, ports.size() > 1 ? strCat(i) : std::string());
      std::string dims;
      for (int64_t dim : port.dims) {
        dims += strCat(dims.empty() ? "" : ", ", dim);
      }
      const Tensor &tensor = program.tensors[port.tensor];
      text += strCat("\n/* ", commentText(port.name), ": [", dims, "] */\n");
      text += strCat(prefix, "_OFFSET ", tensor.offset, "\n");
      text += strCat(prefix, "_BYTES ", tensor.bytes, "\n");
      text += strCat(prefix, "_SCALE ", numberText(port.scale), "\n");
      text += strCat(prefix, "_ZERO_POINT ", port.zero < 0 ? "(" : "", port.zero,
                     port.zero < 0 ? ")" : "", "\n");
    }
  }

  std::string header() const {
    std::string text = begin("a model in 8-bit integers.");
    text += strCat("#ifndef ", capital, "_H\n#define ", capital, "_H\n\n#include <stdint.h>\n\n",
                   "#ifdef __cplusplus\nextern \"C\" {\n#endif\n\n");
    text += strCat("/* Memory of one run, aligned to 4. It belongs to the caller; runs with arenas "
                   "of their own may overlap. */\n#define ",
                   capital, "_ARENA_BYTES ", program.arenaBytes, "\n");
    text += strCat("\n/* Inputs and outputs lie in the arena, at their offsets, in the model's "
                   "order of dims. A number q\n   stands for (q - ZERO_POINT) * SCALE. */\n");
    addPorts(text, program.inputs, "INPUT");
    addPorts(text, program.outputs, "OUTPUT");
    text += strCat("\n/* From the inputs to the outputs. The inputs are overwritten. */\nvoid ",
                   name, "_run(void *arena);\n");
    if (!program.states.empty()) {
      text += strCat("\n/* The arena keeps what a run leaves to the next. This is what the first "
                     "one finds: call it before. */\nvoid ",
                     name, "_reset(void *arena);\n");
    }
    text +=
        strCat("\n/* The same layer by layer, in order from 0. */\n#define ", capital, "_LAYERS ",
               program.calls.size(), "\nvoid ", name, "_layer(void *arena, int layer);\n");
    text += strCat("\n/* 0, or 1 and the first layer whose output differs from what the compiler "
                   "found. */\nint ",
                   name, "_selftest(void *arena, int *layer);\nconst char *", name,
                   "_layer_name(int layer);\n");
    text += "\n#ifdef __cplusplus\n}\n#endif\n\n#endif\n";
    return text;
  }

  std::string arrayName(size_t call, const Constant &constant) const {
    return strCat(name, "_", call, "_", constant.name);
  }

  std::string weightsHeader() const {
    std::string text = begin("its constants.");
    text += strCat("#ifndef ", capital, "_WEIGHTS_H\n#define ", capital,
                   "_WEIGHTS_H\n\n#include <stdint.h>\n\n");
    forConstants([&](size_t call, const Constant &constant) {
      text += strCat("extern const ", constant.type, " ", arrayName(call, constant), "[",
                     constant.bytes.size() / constant.elementBytes, "];\n");
    });
    return text + "\n#endif\n";
  }

  std::string weights() const {
    std::string text = begin("its constants.");
    text += strCat("#include \"", name,
                   "_weights.h\"\n\n/* Where the constants go: flash by "
                   "default. */\n#ifndef ",
                   capital, "_WEIGHT\n#define ", capital, "_WEIGHT\n#endif\n");
    size_t last = program.calls.size();
    forConstants([&](size_t call, const Constant &constant) {
      if (call != last) {
        text += strCat("\n/* ", commentText(program.calls[call].node), " */\n");
        last = call;
      }
      text += strCat(capital, "_WEIGHT const ", constant.type, " ", arrayName(call, constant), "[",
                     constant.bytes.size() / constant.elementBytes, "] = {", arrayText(constant),
                     "};\n");
    });
    return text;
  }

  template <typename F> void forConstants(F function) const {
    for (size_t i = 0; i < program.calls.size(); ++i) {
      for (const Constant &constant : program.calls[i].constants) {
        function(i, constant);
      }
    }
  }

  static std::string withoutPreamble(std::string_view text) {
    std::string kept;
    while (!text.empty()) {
      size_t end = std::min(text.find('\n'), text.size() - 1) + 1;
      std::string_view line = text.substr(0, end);
      bool isPreamble = line.starts_with("#pragma once") || line.starts_with("#include \"edge/");
      kept += isPreamble ? "" : line;
      text.remove_prefix(end);
    }
    return kept;
  }

  std::string kernels() const {
    std::string text = begin("the kernels that it uses.");
    text += strCat("#ifndef ", capital, "_KERNELS_H\n#define ", capital, "_KERNELS_H\n\n",
                   program.roundsTwice ? "#define TN_ROUND_TWICE\n\n" : "",
                   withoutPreamble(commonKernelText()));
    std::array<bool, kKernels> isUsed{};
    for (const Call &call : program.calls) {
      isUsed[static_cast<size_t>(call.kernel)] = true;
    }
    for (size_t i = 0; i < kKernels; ++i) {
      if (isUsed[i]) {
        text += "\n" + withoutPreamble(infoOf(static_cast<Kernel>(i)).text);
      }
    }
    return text + "\n#endif\n";
  }

  std::string callText(size_t index) const {
    const Call &call = program.calls[index];
    std::string text = strCat("tn_", infoOf(call.kernel).name, "(&shape_", index);
    auto at = [&](int tensor) { return strCat(", bytes + ", program.tensors[tensor].offset); };
    for (int tensor : call.reads) {
      text += at(tensor);
    }
    for (const Constant &constant : call.constants) {
      text += strCat(", ", arrayName(index, constant));
    }
    return text + at(call.writes) + ");";
  }

  std::string reset() const {
    if (program.states.empty()) {
      return "";
    }
    std::string arrays, code;
    for (size_t i = 0; i < program.states.size(); ++i) {
      const State &state = program.states[i];
      bool isEven = std::ranges::all_of(
          state.initial, [&](int8_t number) { return number == state.initial.front(); });
      std::string number = strCat(static_cast<int>(state.initial.front()));
      if (!isEven) {
        Constant constant{"", "int8_t", 1, {state.initial.begin(), state.initial.end()}};
        arrays += strCat("\nstatic const int8_t state_", i, "[] = {", arrayText(constant), "};\n");
        number = strCat("state_", i, "[i]");
      }
      code += strCat("  for (int32_t i = 0; i < ", state.initial.size(), "; ++i) {\n    bytes[",
                     program.tensors[state.tensor].offset, " + i] = ", number, ";\n  }\n");
    }
    return strCat(arrays, "\nvoid ", name, "_reset(void *arena) {\n  int8_t *bytes = arena;\n",
                  code, "}\n");
  }

  std::string code() const {
    std::string text = begin("its layers in order.");
    text += strCat("#include \"", name, ".h\"\n#include \"", name, "_kernels.h\"\n#include \"",
                   name, "_weights.h\"\n");
    for (size_t i = 0; i < program.calls.size(); ++i) {
      const Call &call = program.calls[i];
      const KernelInfo &info = infoOf(call.kernel);
      text += strCat("\n/* ", commentText(call.node), " */\nstatic const tn_", info.name,
                     "_shape shape_", i, " = {\n");
      for (size_t field = 0; field < call.shape.size(); ++field) {
        text += strCat("  .", info.fields[field], " = ", call.shape[field], ",\n");
      }
      text += "};\n";
    }
    text += reset();
    text += strCat("\nvoid ", name, "_layer(void *arena, int layer) {\n  int8_t *bytes = arena;\n",
                   "  switch (layer) {\n");
    for (size_t i = 0; i < program.calls.size(); ++i) {
      text += strCat("  case ", i, ":\n    ", callText(i), "\n    break;\n");
    }
    text += "  default:\n    (void)bytes;\n    break;\n  }\n}\n";
    text += strCat("\nvoid ", name, "_run(void *arena) {\n  for (int layer = 0; layer < ", capital,
                   "_LAYERS; ++layer) {\n    ", name, "_layer(arena, layer);\n  }\n}\n");
    return text;
  }

  std::string selfTest() const {
    std::string text = begin("its self-test; with -DSELFTEST_MAIN a program.");
    text += strCat("#include \"", name, ".h\"\n\n",
                   "/* Where a layer's output lies and what its bytes hash to (FNV-1a). A layer of "
                   "no bytes leaves its\n   output to be completed by the next. */\n",
                   "typedef struct {\n  const char *name;\n  int32_t offset, bytes;\n  uint32_t "
                   "hash;\n} selftest_layer;\n\n",
                   "static const selftest_layer selftest_layers[] = {\n");
    for (size_t i = 0; i < program.calls.size(); ++i) {
      const Call &call = program.calls[i];
      const Tensor &tensor = program.tensors[call.writes];
      char hash[16];
      std::snprintf(hash, sizeof(hash), "0x%08xu", hashes[i]);
      std::string shown = commentText(call.node);
      std::ranges::replace(shown, '"', '_');
      text += strCat("  {\"", shown, "\", ", tensor.offset, ", ", call.completes ? tensor.bytes : 0,
                     ", ", hash, "},\n");
    }
    text += strCat("};\n\nconst char *", name,
                   "_layer_name(int layer) { return selftest_layers[layer].name; }\n\n");
    text += strCat("static uint32_t selftest_fill(uint8_t *bytes, int32_t count, uint32_t state) "
                   "{\n  for (int32_t i = 0; i < count; ++i) {\n    state = state * 1664525u + "
                   "1013904223u;\n    bytes[i] = (uint8_t)(state >> 24);\n  }\n  return state;\n}\n"
                   "\nint ",
                   name, "_selftest(void *arena, int *layer) {\n  uint8_t *bytes = arena;\n",
                   "  uint32_t state = ", kSelfTestSeed, "u;\n");
    if (!program.states.empty()) {
      text += strCat("  ", name, "_reset(arena);\n");
    }
    for (const Port &port : program.inputs) {
      const Tensor &tensor = program.tensors[port.tensor];
      text += strCat("  state = selftest_fill(bytes + ", tensor.offset, ", ", tensor.bytes,
                     ", state);\n");
    }
    text += strCat("  for (int i = 0; i < ", capital, "_LAYERS; ++i) {\n    ", name,
                   "_layer(arena, i);\n",
                   "    const selftest_layer *expected = &selftest_layers[i];\n    uint32_t hash = "
                   "2166136261u;\n    for (int32_t k = 0; k < expected->bytes; ++k) {\n      hash "
                   "= (hash ^ bytes[expected->offset + k]) * 16777619u;\n    }\n    if "
                   "(expected->bytes > 0 && hash != expected->hash) {\n      *layer = i;\n      "
                   "return 1;\n    }\n  }\n  (void)state;\n  return 0;\n}\n");
    text += strCat(
        "\n#ifdef SELFTEST_MAIN\n#include <stdio.h>\n\nint main(void) {\n  static "
        "uint32_t arena[(",
        capital, "_ARENA_BYTES + 3) / 4];\n  int layer = 0;\n  if (", name,
        "_selftest(arena, &layer)) {\n    printf(\"", name, ": layer %d (%s) differs\\n\", layer, ",
        name, "_layer_name(layer));\n    return 1;\n  }\n  printf(\"", name,
        ": %d layers are as compiled\\n\", ", capital, "_LAYERS);\n  return 0;\n}\n", "#endif\n");
    return text;
  }

  std::string makefile() const {
    return strCat(
        "# `make` builds the library, `make test` runs the self-test on this machine. CC "
        "and CFLAGS may name a board's.\nCC ?= cc\nAR ?= ar\nCFLAGS ?= -std=c99 -O2 -Wall "
        "-Wextra -pedantic\n\nlib",
        name, ".a: ", name, ".o ", name, "_weights.o\n\t$(AR) rcs $@ $^\n\n", name, ".o: ", name,
        ".c ", name, ".h ", name, "_kernels.h ", name,
        "_weights.h\n\t$(CC) $(CFLAGS) -c $< -o $@\n\n", name, "_weights.o: ", name, "_weights.c ",
        name, "_weights.h\n\t$(CC) $(CFLAGS) -c $< -o $@\n\n", name, "_selftest: ", name,
        "_selftest.c lib", name, ".a\n\t$(CC) $(CFLAGS) -DSELFTEST_MAIN $^ -o $@\n\ntest: ", name,
        "_selftest\n\t./", name, "_selftest\n\nclean:\n\trm -f *.o lib", name, ".a ", name,
        "_selftest\n\n.PHONY: test clean\n");
  }

  const Program &program;
  const std::string &name;
  std::string capital;
  std::vector<uint32_t> hashes;
};

} // namespace

bool isIdentifier(std::string_view name) {
  bool isWord = !name.empty() && std::isdigit(static_cast<unsigned char>(name.front())) == 0 &&
                std::ranges::all_of(name, [](unsigned char c) {
                  return c < 128 && (std::isalnum(c) != 0 || c == '_');
                });
  return isWord && std::ranges::find(kKeywords, name) == kKeywords.end();
}

Folder printFolder(const Program &program, const std::string &name) {
  Printer printer(program, name);
  Folder folder{printer.files(), printer.report()};
  folder.files.push_back({name + ".json", folder.report});
  for (const Call &call : program.calls) {
    for (const Constant &constant : call.constants) {
      bool isWeight = constant.name == "weights" || constant.name == "bias";
      (isWeight ? folder.weightBytes : folder.scaleBytes) +=
          static_cast<int64_t>(constant.bytes.size());
    }
  }
  return folder;
}

} // namespace tenon::codegen::edge
