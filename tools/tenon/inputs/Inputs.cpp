// Implements the way from flags to input tensors; nothing is converted or guessed on the way.

#include "tools/tenon/inputs/Inputs.h"

#include "runtime/tensors/Image.h"
#include "runtime/tensors/Npy.h"
#include "runtime/tensors/Seeded.h"
#include "runtime/tensors/ShapeText.h"
#include "support/text/NearestName.h"
#include "tools/tenon/inputs/FileKind.h"
#include "tools/tenon/inputs/StepFill.h"
#include "tools/tenon/print/Format.h"

#include <fmt/format.h>

#include <filesystem>
#include <set>

namespace tenon::tool {
namespace {

using engine::Plan;
using engine::Port;

Status badInput(std::string message) {
  return Status::error(ErrorId::RunInputCount, std::move(message),
                       "tenon inspect lists the inputs");
}

/// The path of `[NAME=]PATH`, where a file of the whole name does not exist.
std::string pathOf(const std::string &argument) {
  std::error_code ignored;
  size_t equals = argument.find('=');
  bool isPath = equals == std::string::npos || std::filesystem::exists(argument, ignored);
  return isPath ? argument : argument.substr(equals + 1);
}

std::vector<std::string> inputNames(const Plan &plan) {
  std::vector<std::string> names;
  for (const Port &port : plan.inputs) {
    names.push_back(port.name);
  }
  return names;
}

Status unknownInput(const Plan &plan, const std::string &where, const std::string &name) {
  return Status::error(ErrorId::RunInputCount,
                       fmt::format("{}: the model has no input '{}'", where, name),
                       didYouMean(name, inputNames(plan), "tenon inspect lists the inputs"));
}

/// Constant dims of an input, -1 where they are free.
std::vector<int64_t> knownDims(const Plan &plan, const Port &port) {
  std::vector<int64_t> dims;
  for (engine::ExprId expr : port.dims) {
    dims.push_back(plan.exprs.constantValue(expr).value_or(-1));
  }
  return dims;
}

/// What the model carries, with what the flags say over it.
Preprocessing preprocessingFor(const InputFlags &flags, const runtime::Engine &engine) {
  std::map<std::string, std::string> metadata = metadataOf(engine.file());
  Preprocessing result = parsePreprocessing(metadata["preprocessing"]);
  if (!flags.mean.empty()) {
    result.mean = flags.mean;
  }
  if (!flags.deviation.empty()) {
    result.deviation = flags.deviation;
  }
  if (!flags.layout.empty()) {
    result.layout = flags.layout == "nchw" ? ImageLayout::Nchw : ImageLayout::Nhwc;
  }
  result.resize |= flags.resize;
  return result;
}

/// Arrays up to this are read whatever their dims, so that the run says what is wrong with them.
constexpr uint64_t kBytesOfAnyArray = 16 << 20;

/// Whether the expression is largest where its symbols are.
bool isRising(std::span<const engine::ExprTerm> program) {
  return std::ranges::none_of(program, [](const engine::ExprTerm &term) {
    return term.op == engine::ExprOp::Sub || term.op == engine::ExprOp::Mod ||
           (term.op == engine::ExprOp::Constant && term.value < 0);
  });
}

/// That a large array is not larger than the engine takes; whether it fits, the run checks.
Status checkWithinDeclared(const Plan &plan, const Port &port, std::span<const int64_t> dims) {
  std::vector<int64_t> most;
  for (const engine::Symbol &symbol : plan.symbols) {
    most.push_back(symbol.max);
  }
  if (dims.size() != port.dims.size()) {
    return Status::error(ErrorId::RunInputRank,
                         fmt::format("input '{}' has rank {}, but the array has rank {}", port.name,
                                     port.dims.size(), dims.size()),
                         "tenon inspect lists the inputs");
  }
  uint32_t input = static_cast<uint32_t>(&port - plan.inputs.data());
  for (size_t i = 0; i < dims.size(); ++i) {
    std::optional<uint32_t> symbol = symbolAt(plan, input, i);
    std::span<const engine::ExprTerm> program = plan.exprs.program(port.dims[i]);
    std::optional<int64_t> largest = symbol              ? most[*symbol]
                                     : isRising(program) ? engine::evaluate(program, most)
                                                         : std::nullopt;
    if (largest && dims[i] > *largest) {
      return Status::error(
          ErrorId::RunInputDim,
          fmt::format("input '{}' has {} in dim {}, but the engine accepts at most {}", port.name,
                      dims[i], i, *largest),
          "pass dims in this range, or compile with a wider --shape range");
    }
  }
  return Status::ok();
}

/// Collects the tensors that files give, each under the index of its input.
class FileInputs {
public:
  FileInputs(const InputFlags &inputFlags, const runtime::Engine &opened)
      : flags(inputFlags), engine(opened), plan(opened.plan()) {}

  Status add(const std::string &argument) {
    std::string path = pathOf(argument);
    std::string name;
    if (path.size() < argument.size()) {
      name = argument.substr(0, argument.size() - path.size() - 1);
    }
    if (!name.empty() && findInput(name) == plan.inputs.size()) {
      return unknownInput(plan, "--inputs " + argument, name);
    }
    TENON_ASSIGN(FileContent content, contentOf(path));
    switch (content.kind) {
    case FileKind::Npz:
      return addArchive(path);
    case FileKind::Npy: {
      TENON_ASSIGN(size_t index, only(name, path));
      TENON_ASSIGN(Tensor tensor, readNpy(path));
      return put(index, std::move(tensor), path);
    }
    case FileKind::Picture: {
      TENON_ASSIGN(size_t index, only(name, path));
      const Port &port = plan.inputs[index];
      TENON_ASSIGN(Tensor tensor, loadImage(path, preprocessingFor(flags, engine), port.dtype,
                                            knownDims(plan, port)));
      return put(index, std::move(tensor), path);
    }
    default:
      std::string is = content.what.empty() ? "" : fmt::format(": it is {}", content.what);
      return Status::error(
          ErrorId::BadTensorFile,
          fmt::format("'{}' is not an npz, npy, PNG, JPEG, PPM or PGM file{}", path, is),
          "convert the file, for example with numpy.save");
    }
  }

  Result<std::vector<Tensor>> take() {
    std::vector<Tensor> result;
    for (size_t i = 0; i < plan.inputs.size(); ++i) {
      if (given.count(i) == 0) {
        return badInput(fmt::format("input '{}' is missing", plan.inputs[i].name));
      }
      result.push_back(std::move(given[i]));
    }
    return result;
  }

private:
  size_t findInput(const std::string &name) const {
    size_t index = 0;
    while (index < plan.inputs.size() && plan.inputs[index].name != name) {
      ++index;
    }
    return index;
  }

  /// The input of that name; without a name, the model's only one.
  Result<size_t> only(const std::string &name, const std::string &path) const {
    if (name.empty() && plan.inputs.size() != 1) {
      return badInput(fmt::format("'{}': the model has {} inputs; say which one with NAME={}", path,
                                  plan.inputs.size(), path));
    }
    return name.empty() ? 0 : findInput(name);
  }

  Status addArchive(const std::string &path) {
    AcceptArray accept = [&](const std::string &name, const NpyHeader &header) {
      size_t index = findInput(name);
      if (index == plan.inputs.size()) {
        return unknownInput(plan, path, name);
      }
      const Port &port = plan.inputs[index];
      TENON_TRY(checkType(port, header.dtype, path));
      return header.dataBytes > kBytesOfAnyArray ? checkWithinDeclared(plan, port, header.dims)
                                                 : Status::ok();
    };
    TENON_ASSIGN(std::vector<Tensor> tensors, readNpz(path, accept));
    for (Tensor &tensor : tensors) {
      size_t index = findInput(tensor.name);
      TENON_TRY(put(index, std::move(tensor), path));
    }
    return Status::ok();
  }

  /// NumPy has no low-bit types of its own: files hold their bytes.
  static bool isHeldAs(const Port &port, DType dtype) {
    return dtype == port.dtype || (isLowBit(port.dtype) && dtype == DType::U8);
  }

  static Status checkType(const Port &port, DType dtype, const std::string &path) {
    if (isHeldAs(port, dtype)) {
      return Status::ok();
    }
    return Status::error(ErrorId::WrongTensorType,
                         fmt::format("input '{}' is {}, but the array in {} is {}", port.name,
                                     nameOf(port.dtype), path, nameOf(dtype)),
                         "convert the array with numpy's astype before saving it");
  }

  Status put(size_t index, Tensor tensor, const std::string &path) {
    const Port &port = plan.inputs[index];
    TENON_TRY(checkType(port, tensor.dtype, path));
    tensor.dtype = port.dtype;
    tensor.name = port.name;
    if (!given.emplace(index, std::move(tensor)).second) {
      return badInput(fmt::format("input '{}' is given twice", port.name));
    }
    return Status::ok();
  }

  const InputFlags &flags;
  const runtime::Engine &engine;
  const Plan &plan;
  std::map<size_t, Tensor> given;
};

/// The values of seeded inputs that --fill gives.
Status addFills(const InputFlags &flags, const Plan &plan,
                std::map<std::string, ValueRange> &ranges) {
  for (const std::string &text : flags.fills) {
    TENON_ASSIGN(FillArgument fill, parseFillArgument(text));
    const Port *port = nullptr;
    for (const Port &candidate : plan.inputs) {
      port = candidate.name == fill.input ? &candidate : port;
    }
    if (!port) {
      return unknownInput(plan, "--fill " + text, fill.input);
    }
    if (!holds(port->dtype, {fill.low, fill.high})) {
      return Status::error(ErrorId::BadArgument,
                           fmt::format("--fill {}: '{}' is {}, which cannot hold these values",
                                       text, port->name, nameOf(port->dtype)),
                           "give a range inside the type's range");
    }
    ranges[fill.input] = {fill.low, fill.high};
  }
  return Status::ok();
}

/// The largest values that the model declares for its integer inputs: {"input_ids": 30521}.
Json inputLimits(const runtime::Engine &engine) {
  std::map<std::string, std::string> metadata = metadataOf(engine.file());
  Json limits = parseJson(metadata["input_limits"]);
  return limits.is_object() ? limits : Json::object();
}

Result<std::vector<Tensor>> makeSeeded(const InputFlags &flags, const runtime::Engine &engine) {
  const Plan &plan = engine.plan();
  TENON_ASSIGN(std::vector<ShapeArgument> shapes, parseShapeArguments(flags.shapes));
  std::map<std::string, ValueRange> ranges;
  Json limits = inputLimits(engine);
  for (auto &[name, limit] : limits.items()) {
    if (limit.is_number()) {
      ranges[name] = {0, limit.get<double>()};
    }
  }
  TENON_TRY(addFills(flags, plan, ranges));
  TENON_ASSIGN(std::vector<runtime::SymbolValue> symbols, sessionSymbols(flags));
  TENON_ASSIGN(std::vector<int64_t> session, runtime::sessionValues(plan, symbols));
  TENON_ASSIGN(std::vector<std::vector<int64_t>> dims,
               chooseDims(plan, shapes, flags.batch, session));
  std::vector<Tensor> tensors;
  for (size_t i = 0; i < plan.inputs.size(); ++i) {
    const Port &port = plan.inputs[i];
    if (!isNumeric(port.dtype)) {
      return badInput(fmt::format("input '{}' of type {} cannot be seeded; give it with --inputs",
                                  port.name, nameOf(port.dtype)));
    }
    TENON_ASSIGN(Tensor tensor, Tensor::create(port.name, port.dtype, dims[i]));
    std::map<std::string, ValueRange>::iterator found = ranges.find(port.name);
    fillSeeded(tensor, flags.seed,
               found != ranges.end() ? found->second : defaultRange(port.dtype));
    tensors.push_back(std::move(tensor));
  }
  std::set<std::string> filled;
  for (const std::string &text : flags.fills) {
    TENON_ASSIGN(FillArgument fill, parseFillArgument(text));
    filled.insert(fill.input);
  }
  int64_t pages = 1;
  for (size_t i = 0; i < session.size(); ++i) {
    pages = plan.symbols[i].name == "pages" ? session[i] : pages;
  }
  fillStep(tensors, engine, pages, filled);
  return tensors;
}

} // namespace

std::vector<std::string> inputPaths(const InputFlags &flags) {
  std::vector<std::string> paths;
  for (const std::string &argument : flags.files) {
    paths.push_back(pathOf(argument));
  }
  return paths;
}

Result<std::vector<runtime::SymbolValue>> sessionSymbols(const InputFlags &flags) {
  std::vector<runtime::SymbolValue> symbols;
  for (const std::string &text : flags.session) {
    TENON_ASSIGN(SessionArgument given, parseSessionArgument(text));
    symbols.push_back({std::move(given.symbol), given.value});
  }
  return symbols;
}

Result<std::vector<Tensor>> makeInputs(const InputFlags &flags, const runtime::Engine &engine) {
  if (flags.files.empty()) {
    return makeSeeded(flags, engine);
  }
  FileInputs inputs(flags, engine);
  for (const std::string &file : flags.files) {
    TENON_TRY(inputs.add(file));
  }
  return inputs.take();
}

std::map<std::string, std::string> metadataOf(const engine::EngineFile &file) {
  std::map<std::string, std::string> metadata;
  Result<std::string_view> text = file.record("metadata");
  if (!text) {
    return metadata;
  }
  Json json = parseJson(*text);
  if (json.is_object()) {
    for (auto &[key, value] : json.items()) {
      metadata[key] = value.is_string() ? value.get<std::string>() : dumpJson(value);
    }
  }
  return metadata;
}

} // namespace tenon::tool
