// Checks are made before any file is read.

#include "tools/tenon/quant/QuantizeRequest.h"

#include "support/files/MappedFile.h"
#include "tools/view/Escape.h"

#include <fmt/format.h>

#include <algorithm>

namespace tenon::tool {

using quant::Treatment;

std::string defaultOutput(const QuantizeRequest &request) {
  std::string_view model = request.calibration.model;
  model.remove_suffix(model.ends_with(".onnx") ? 5 : 0);
  std::string kind = request.dynamic               ? "dynamic"
                     : request.weightsOnly.empty() ? request.precision
                                                   : "w" + request.weightsOnly;
  return fmt::format("{}.{}.onnx", model, kind);
}

Status checkIsOnnx(const std::string &model) {
  TENON_ASSIGN(MappedFile file, MappedFile::open(model));
  constexpr std::string_view kZip = "PK\x03\x04";
  std::string_view bytes(reinterpret_cast<const char *>(file.bytes().data()), file.bytes().size());
  if (!bytes.starts_with(kZip)) {
    return Status::ok();
  }
  return Status::error(
      ErrorId::BadArgument,
      fmt::format("'{}' is a program from torch.export, but quantize writes ONNX",
                  view::visible(model)),
      "tenon.quantize(model, data) in Python exports it first (that needs torch and onnxscript); "
      "or export it yourself: torch.onnx.export(torch.export.load(PATH), (), \"model.onnx\", "
      "dynamo=True)");
}

Status checkRequest(const QuantizeRequest &request) {
  auto refuse = [](std::string what, std::string next) {
    return Status::error(ErrorId::BadArgument, std::move(what), std::move(next));
  };
  if (!request.text.empty()) {
    return refuse("--text measures language models, and the model is an ONNX file",
                  "give samples with --data and --report");
  }
  bool isWeightsOnly = !request.weightsOnly.empty();
  if (request.calibration.data.empty() && !isWeightsOnly && !request.dynamic) {
    return refuse("there are no samples for calibration",
                  "give them with --data, or do without: scales at run time (--dynamic), or "
                  "weights only (--weights-only 8)");
  }
  if (request.dynamic && (isWeightsOnly || request.precision != "int8")) {
    return refuse(fmt::format("--dynamic computes in int8, but {} asks for something else",
                              isWeightsOnly ? "--weights-only" : "--precision"),
                  "leave one of them out");
  }
  if (isWeightsOnly && request.precision != "int8") {
    return refuse(
        "--weights-only computes in FP32, but --precision sets a type for quantized layers",
        "leave one of them out");
  }
  if (request.dynamic && !request.calibration.data.empty()) {
    return refuse("--dynamic computes scales at run time and needs no samples, but --data is given",
                  "leave one of them out");
  }
  if (request.perTensor && !request.dynamic) {
    return refuse("--per-tensor is an option of --dynamic, which is not given", "add --dynamic");
  }
  if (request.weightsOnly == "8" && !request.calibration.data.empty()) {
    return refuse("--weights-only 8 needs no samples, but --data is given",
                  "leave one of them out");
  }
  if (request.int4Form != "nbits" && request.weightsOnly != "4") {
    return refuse("--int4-form is an option of --weights-only 4, which is not given",
                  "add --weights-only 4");
  }
  if (isWeightsOnly && !request.narrow.empty()) {
    return refuse("--weights-only computes every layer in FP32, but --narrow asks for int8",
                  "leave one of them out");
  }
  if (request.percentile && request.ranges != "percentile") {
    return refuse(fmt::format("--percentile has no effect with --ranges {}", request.ranges),
                  "add --ranges percentile");
  }
  TENON_TRY(
      checkSearch(request.search, isWeightsOnly || request.dynamic || request.precision != "int8"));
  for (const std::string &name : request.keep) {
    if (std::ranges::count(request.narrow, name) > 0) {
      return refuse(fmt::format("--keep and --narrow both name '{}'", view::visible(name)),
                    "leave one of them out");
    }
  }
  return Status::ok();
}

quant::Settings settingsOf(const QuantizeRequest &request) {
  quant::Settings settings;
  for (quant::RangeMethod method : quant::kRangeMethods) {
    if (quant::nameOf(method) == request.ranges) {
      settings.method = method;
    }
  }
  settings.percentile = request.percentile.value_or(settings.percentile);
  settings.scheme = request.dynamic              ? (request.perTensor ? quant::Scheme::DynamicTensor
                                                                      : quant::Scheme::DynamicToken)
                    : request.precision == "fp8" ? quant::Scheme::Float8
                                                 : quant::Scheme::Static;
  settings.weightBits = request.weightsOnly.empty() ? 0 : request.weightsOnly == "8" ? 8 : 4;
  settings.blockForm =
      request.int4Form == "qdq" ? quant::BlockForm::Dequantize : quant::BlockForm::Product;
  settings.reducesRange = request.reduceRange;
  settings.smooths = !request.noSmoothing;
  settings.correctsBias = !request.noBiasCorrection;
  for (const std::string &name : request.keep) {
    settings.overrides[name] = {Treatment::Wide, "--keep"};
  }
  for (const std::string &name : request.narrow) {
    settings.overrides[name] = {Treatment::Narrow, ""};
  }
  return settings;
}

} // namespace tenon::tool
