// Implements the way from flags to input tensors; nothing is converted or guessed on the way.

#include "tools/tenon/Inputs.h"

#include "tools/tenon/Image.h"
#include "tools/tenon/Npy.h"
#include "tools/tenon/Seeded.h"
#include "tools/tenon/ShapeText.h"
#include "tools/tenon/Terminal.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

namespace tenon::tool {
namespace {

using engine::Plan;
using engine::Port;

std::string extensionOf(const std::string &path) {
  size_t dot = path.rfind('.');
  std::string extension = dot == std::string::npos ? "" : path.substr(dot + 1);
  std::transform(extension.begin(), extension.end(), extension.begin(),
                 [](unsigned char character) { return static_cast<char>(std::tolower(character)); });
  return extension;
}

Status badInput(std::string message) {
  return Status::error(ErrorId::RunInputCount, std::move(message), "tenon inspect lists the inputs");
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

/// Collects the tensors that files give, each under the index of its input.
class FileInputs {
public:
  FileInputs(const InputFlags &inputFlags, const runtime::Engine &opened)
      : flags(inputFlags), engine(opened), plan(opened.plan()) {}

  Status add(const std::string &argument) {
    std::string path = argument;
    std::string name;
    size_t equals = argument.find('=');
    if (equals != std::string::npos && findInput(argument.substr(0, equals)) < plan.inputs.size()) {
      name = argument.substr(0, equals);
      path = argument.substr(equals + 1);
    }
    std::string extension = extensionOf(path);
    if (extension == "npz") {
      return addArchive(path);
    }
    if (name.empty()) {
      if (plan.inputs.size() != 1) {
        return badInput(fmt::format("'{}': the model has {} inputs; say which one with NAME={}", path,
                                    plan.inputs.size(), path));
      }
      name = plan.inputs[0].name;
    }
    size_t index = findInput(name);
    if (extension == "npy") {
      TENON_ASSIGN(Tensor tensor, readNpy(path));
      return put(index, std::move(tensor), path);
    }
    if (extension == "png" || extension == "jpg" || extension == "jpeg") {
      const Port &port = plan.inputs[index];
      TENON_ASSIGN(Tensor tensor, loadImage(path, preprocessingFor(flags, engine), port.dtype,
                                            knownDims(plan, port)));
      return put(index, std::move(tensor), path);
    }
    return Status::error(ErrorId::BadArgument,
                         fmt::format("'{}': inputs are npz, npy, png or jpeg files", path),
                         "convert the file, for instance with numpy.save");
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

  Status addArchive(const std::string &path) {
    TENON_ASSIGN(std::vector<Tensor> tensors, readNpz(path));
    for (Tensor &tensor : tensors) {
      size_t index = findInput(tensor.name);
      if (index == plan.inputs.size()) {
        return badInput(fmt::format("{}: the model has no input '{}'", path, tensor.name));
      }
      TENON_TRY(put(index, std::move(tensor), path));
    }
    return Status::ok();
  }

  Status put(size_t index, Tensor tensor, const std::string &path) {
    const Port &port = plan.inputs[index];
    if (isLowBit(port.dtype) && tensor.dtype == DType::U8) {
      // NumPy has no such types of its own: files hold their bytes.
      tensor.dtype = port.dtype;
    }
    if (tensor.dtype != port.dtype) {
      return Status::error(ErrorId::WrongTensorType,
                           fmt::format("input '{}' is {}, the array in {} is {}", port.name,
                                       nameOf(port.dtype), path, nameOf(tensor.dtype)),
                           "convert the array with numpy's astype before saving it");
    }
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

/// The largest values that the model declares for its integer inputs: {"input_ids": 30521}.
Json inputLimits(const runtime::Engine &engine) {
  std::map<std::string, std::string> metadata = metadataOf(engine.file());
  Json limits = Json::parse(metadata["input_limits"], nullptr, false);
  return limits.is_object() ? limits : Json::object();
}

Result<std::vector<Tensor>> makeSeeded(const InputFlags &flags, const runtime::Engine &engine) {
  const Plan &plan = engine.plan();
  std::vector<ShapeArgument> shapes;
  for (const std::string &text : flags.shapes) {
    TENON_ASSIGN(ShapeArgument shape, parseShapeArgument(text));
    shapes.push_back(std::move(shape));
  }
  std::map<std::string, ValueRange> ranges;
  Json limits = inputLimits(engine);
  for (auto &[name, limit] : limits.items()) {
    if (limit.is_number()) {
      ranges[name] = {0, limit.get<double>()};
    }
  }
  for (const std::string &text : flags.fills) {
    TENON_ASSIGN(FillArgument fill, parseFillArgument(text));
    ranges[fill.input] = {fill.low, fill.high};
  }
  TENON_ASSIGN(std::vector<std::vector<int64_t>> dims, chooseDims(plan, shapes, flags.batch));
  std::vector<Tensor> tensors;
  for (size_t i = 0; i < plan.inputs.size(); ++i) {
    const Port &port = plan.inputs[i];
    if (!isNumeric(port.dtype)) {
      return badInput(fmt::format("input '{}' of type {} cannot be seeded; give it with --inputs",
                                  port.name, nameOf(port.dtype)));
    }
    TENON_ASSIGN(Tensor tensor, Tensor::create(port.name, port.dtype, dims[i]));
    std::map<std::string, ValueRange>::iterator found = ranges.find(port.name);
    fillSeeded(tensor, flags.seed, found != ranges.end() ? found->second : defaultRange(port.dtype));
    tensors.push_back(std::move(tensor));
  }
  return tensors;
}

} // namespace

void declareSeededFlags(CLI::App &command, InputFlags &flags) {
  command.add_option("--shape", flags.shapes, "Dimensions of an input: name:1x128 (repeat for more)")
      ->allow_extra_args(false);
  command.add_option("--batch", flags.batch, "Size of dimension 0 of every input")
      ->check(CLI::PositiveNumber);
  command.add_option("--fill", flags.fills,
                     "Range of a seeded input: name:0..30521; else integers are 0 or 1 (or what the "
                     "model says) and others in [-1, 1)")
      ->allow_extra_args(false);
  command.add_option("--seed", flags.seed, "Seed of the inputs");
}

void declareFileFlags(CLI::App &command, InputFlags &flags) {
  command.add_option("--inputs", flags.files,
                     "x.npz, [NAME=]x.npy or [NAME=]picture.png (repeat for more); else seeded")
      ->allow_extra_args(false);
  command.add_option("--mean", flags.mean, "Pictures: mean of each channel, in units of [0, 1]")
      ->delimiter(',')
      ->allow_extra_args(false);
  command.add_option("--std", flags.deviation, "Pictures: standard deviation of each channel")
      ->delimiter(',')
      ->allow_extra_args(false);
  command.add_option("--layout", flags.layout, "Pictures: order of the input's dimensions")
      ->check(CLI::IsMember({"nchw", "nhwc"}));
  command.add_flag("--resize", flags.resize, "Pictures: stretch to the input's size");
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
  Json json = Json::parse(*text, nullptr, false);
  if (json.is_object()) {
    for (auto &[key, value] : json.items()) {
      metadata[key] = value.is_string() ? value.get<std::string>() : dumpJson(value);
    }
  }
  return metadata;
}

} // namespace tenon::tool
