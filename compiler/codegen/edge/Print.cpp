// A program as a folder of C99: header, code, constants, the kernels used, self-test, Makefile. The
// kernels are static functions of the one file that calls them, so that two models link together.
// One file: all texts are made of the same names.
#include "compiler/codegen/edge/PrintText.h"
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

/// Before the number `index` of an array.
std::string_view lineBreak(size_t index) {
  constexpr size_t kPerLine = 20;
  return index % kPerLine == 0 ? "\n  " : " ";
}

std::string arrayText(const Constant &constant) {
  std::string text;
  size_t count = constant.bytes.size() / constant.elementBytes;
  for (size_t i = 0; i < count; ++i) {
    text += strCat(lineBreak(i), elementText(constant, i), ",");
  }
  return text + "\n";
}

class Printer {
public:
  Printer(const Program &printed, const std::string &modelName, const Footprint &made)
      : program(printed), name(modelName), footprint(made), capital(upper(modelName)),
        hashes(printed.roundsTwice ? layerHashesTwice(printed) : layerHashes(printed)) {}

  std::vector<File> files() const {
    if (!footprint.archive.empty()) {
      return {{name + ".h", header()}, {"lib" + name + ".a", footprint.archive}};
    }
    return {{name + ".h", header()},
            {name + ".c", code()},
            {name + "_weights.c", weights()},
            {name + "_weights.h", weightsHeader()},
            {name + "_kernels.h", kernels()},
            {name + "_selftest.c", selfTestText(program, name, hashes)},
            {"Makefile", makefile()}};
  }

  std::string report() const { return reportOf(program, name, hashes, footprint); }

private:
  std::string begin(std::string_view what) const { return beginText(name, what); }

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
      if (tensor.places.empty()) {
        text += strCat(prefix, "_OFFSET ", tensor.offset, "\n");
      } else {
        text += strCat(prefix, "_ROWS ", tensor.rows, "\n");
        text += strCat(prefix, "_ROW_BYTES ", tensor.bytes / tensor.rows, "\n");
      }
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
    text += strCat("\n/* Deepest stack of one run on a ", footprint.core,
                   footprint.archive.empty() ? ", as LLVM compiles this with -O2. Another compiler "
                                               "may need more. */\n#define "
                                             : ". */\n#define ",
                   capital, "_STACK_BYTES ", footprint.stackBytes, "\n");
    text += strCat("\n/* Inputs and outputs lie in the arena, at their offsets, in the model's "
                   "order of dims. A number q\n   stands for (q - ZERO_POINT) * SCALE. */\n");
    addPorts(text, program.inputs, "INPUT");
    addPorts(text, program.outputs, "OUTPUT");
    if (program.isInputByRows) {
      text += strCat("\n/* Before the first row. */\nvoid ", name, "_begin(void *arena);\n",
                     "\n/* The next row of the input, of ", capital,
                     "_INPUT_ROW_BYTES numbers. 1 with the last one: then the outputs are there, "
                     "and the next\n   row is the first of another input; else 0. */\nint ",
                     name, "_push_row(void *arena, const int8_t *row);\n");
    } else {
      text += strCat("\n/* From the inputs to the outputs. The inputs are overwritten. */\nvoid ",
                     name, "_run(void *arena);\n");
    }
    if (!program.states.empty()) {
      text += strCat("\n/* The arena keeps what a run leaves to the next. This is what the first "
                     "one finds: call it before. */\nvoid ",
                     name, "_reset(void *arena);\n");
    }
    text += strCat("\n#define ", capital, "_LAYERS ", program.calls.size(), "\n");
    if (program.steps.empty()) {
      text += strCat("\n/* The same layer by layer, in order from 0. */\nvoid ", name,
                     "_layer(void *arena, int layer);\n");
    }
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

  std::string placesName(int tensor) const { return placesText(name, tensor); }

  static std::string numberType(int64_t bytes) { return bytes == 1 ? "uint8_t" : "uint16_t"; }

  /// Tables of a plan by rows: which layer makes which row at each step, and where rows lie.
  template <typename F> void forRowTables(F function) const {
    if (program.steps.empty()) {
      return;
    }
    auto add = [&](const std::string &array, const std::string &type, auto numberOf) {
      std::string numbers;
      for (size_t i = 0; i < program.steps.size(); ++i) {
        numbers += strCat(lineBreak(i), numberOf(program.steps[i]), ",");
      }
      function(array, type, program.steps.size(), numbers);
    };
    add(name + "_step_layers", numberType(stepCallBytes(program)),
        [](const Step &step) { return step.call; });
    add(name + "_step_rows", numberType(stepRowBytes(program)),
        [](const Step &step) { return step.row; });
    for (size_t i = 0; i < program.tensors.size(); ++i) {
      const std::vector<uint16_t> &places = program.tensors[i].places;
      std::string numbers;
      for (size_t row = 0; row < places.size(); ++row) {
        numbers += strCat(lineBreak(row), static_cast<int>(places[row]), ",");
      }
      if (!places.empty()) {
        function(placesName(static_cast<int>(i)), std::string("uint16_t"), places.size(), numbers);
      }
    }
  }

  std::string weightsHeader() const {
    std::string text = begin("its constants.");
    text += strCat("#ifndef ", capital, "_WEIGHTS_H\n#define ", capital,
                   "_WEIGHTS_H\n\n#include <stdint.h>\n\n");
    forConstants([&](size_t call, const Constant &constant) {
      text += strCat("extern const ", constant.type, " ", arrayName(call, constant), "[",
                     constant.bytes.size() / constant.elementBytes, "];\n");
    });
    forRowTables(
        [&](const std::string &array, const std::string &type, size_t count, const std::string &) {
          text += strCat("extern const ", type, " ", array, "[", count, "];\n");
        });
    if (!program.steps.empty()) {
      text += strCat("\n#define ", capital, "_STEPS ", program.steps.size(), "\nvoid ", name,
                     "_step(void *arena, int step);\n");
    }
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
    forRowTables([&](const std::string &array, const std::string &type, size_t count,
                     const std::string &numbers) {
      text += strCat("\n", capital, "_WEIGHT const ", type, " ", array, "[", count, "] = {",
                     numbers, "\n};\n");
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

  std::string rowText(int tensor) const { return edge::rowText(program, name, tensor); }

  std::string callText(size_t index) const {
    const Call &call = program.calls[index];
    const KernelInfo &info = infoOf(call.kernel);
    std::string text = strCat("tn_", info.name, "(&shape_", index);
    bool isWindow = std::ranges::find(info.fields, "kernel_h") != info.fields.end();
    bool isRow = call.form == RowForm::Window;
    auto rows = std::ranges::find(info.fields, "out_h") - info.fields.begin();
    if (isWindow) {
      text += isRow ? std::string(", row, row + 1")
                    : strCat(", 0, ", call.shape[static_cast<size_t>(rows)]);
    } else if (call.form == RowForm::Sum) {
      text += ", row";
    }
    for (size_t i = 0; i < call.reads.size(); ++i) {
      bool hasPlaces = isRow && !program.tensors[call.reads[i]].places.empty();
      text += readsRow(program, call, i) ? strCat(", ", rowText(call.reads[i]))
                                         : strCat(", bytes + ", readOffset(program, call, i, 0));
      if (isWindow) {
        text += strCat(", ", hasPlaces ? placesName(call.reads[i]) : std::string("0"));
      }
    }
    for (const Constant &constant : call.constants) {
      text += strCat(", ", arrayName(index, constant));
    }
    if (call.form == RowForm::Sum) {
      text += strCat(", (int32_t *)(void *)(bytes + ", program.tensors[call.sums].offset, ")");
    }
    bool makesRow = isRow || call.form == RowForm::Each;
    return strCat(text, ", ",
                  makesRow ? rowText(call.writes)
                           : strCat("bytes + ", program.tensors[call.writes].offset),
                  ");");
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
    bool isByRows = !program.steps.empty();
    text += isByRows ? strCat("\nvoid ", name, "_step(void *arena, int step) {\n",
                              "  int8_t *bytes = arena;\n  int32_t row = ", name,
                              "_step_rows[step];\n  switch (", name, "_step_layers[step]) {\n")
                     : strCat("\nvoid ", name, "_layer(void *arena, int layer) {\n",
                              "  int8_t *bytes = arena;\n  switch (layer) {\n");
    for (size_t i = 0; i < program.calls.size(); ++i) {
      text += strCat("  case ", i, ":\n    ", callText(i), "\n    break;\n");
    }
    text += strCat("  default:\n    (void)bytes;\n", isByRows ? "    (void)row;\n" : "",
                   "    break;\n  }\n}\n");
    if (program.isInputByRows) {
      return text + pushRow();
    }
    std::string_view one = isByRows ? "step" : "layer";
    text += strCat("\nvoid ", name, "_run(void *arena) {\n  for (int ", one, " = 0; ", one, " < ",
                   capital, isByRows ? "_STEPS; ++" : "_LAYERS; ++", one, ") {\n    ", name, "_",
                   one, "(arena, ", one, ");\n  }\n}\n");
    return text;
  }

  std::string pushRow() const {
    int input = program.inputs.front().tensor;
    std::string number = strCat("  int32_t *step = (int32_t *)(void *)((int8_t *)arena + ",
                                program.stepOffset, ");\n");
    std::string layer = strCat(name, "_step_layers[*step]");
    std::string advance = strCat("  while (*step < ", capital, "_STEPS && ", layer, " != ", capital,
                                 "_LAYERS) {\n    ", name, "_step(arena, (*step)++);\n  }\n");
    return strCat("\nvoid ", name, "_begin(void *arena) {\n", number, "  *step = 0;\n}\n\nint ",
                  name, "_push_row(void *arena, const int8_t *numbers) {\n", number, advance,
                  "  int8_t *bytes = arena;\n  int32_t row = ", name,
                  "_step_rows[(*step)++];\n  int8_t *to = ", rowText(input),
                  ";\n  for (int32_t i = 0; i < ", capital,
                  "_INPUT_ROW_BYTES; ++i) {\n    to[i] = numbers[i];\n  }\n", advance,
                  "  if (*step < ", capital, "_STEPS) {\n    return 0;\n  }\n  *step = 0;\n",
                  "  return 1;\n}\n");
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
  const Footprint &footprint;
  std::string capital;
  std::vector<LayerHash> hashes;
};

} // namespace

bool isIdentifier(std::string_view name) {
  bool isWord = !name.empty() && std::isdigit(static_cast<unsigned char>(name.front())) == 0 &&
                std::ranges::all_of(name, [](unsigned char c) {
                  return c < 128 && (std::isalnum(c) != 0 || c == '_');
                });
  return isWord && std::ranges::find(kKeywords, name) == kKeywords.end();
}

Folder printFolder(const Program &program, const std::string &name, const Footprint &footprint) {
  Printer printer(program, name, footprint);
  Folder folder{printer.files(), printer.report()};
  folder.rowBytes = rowTableBytes(program);
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
