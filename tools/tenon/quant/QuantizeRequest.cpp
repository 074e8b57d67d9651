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
      fmt::format("'{}' is a program of torch.export, and what is written here is ONNX",
                  view::visible(model)),
      "tenon.quantize(model, data) in Python exports it first (that needs torch and onnxscript); "
      "or do that yourself: "
      "torch.onnx.export(torch.export.load(PATH), (), \"model.onnx\", dynamo=True)");
}

Status checkRequest(const QuantizeRequest &request) {
  auto refuse = [](std::string what, std::string next) {
    return Status::error(ErrorId::BadArgument, std::move(what), std::move(next));
  };
  bool isWeightsOnly = !request.weightsOnly.empty();
  if (request.calibration.data.empty() && !isWeightsOnly && !request.dynamic) {
    return refuse("there are no samples to calibrate with",
                  "give them with --data, or do without: scales found at run time (--dynamic), or "
                  "weights alone "
                  "(--weights-only 8)");
  }
  if (request.dynamic && (isWeightsOnly || request.precision != "int8")) {
    return refuse(fmt::format("--dynamic computes in int8, and {} asks for something else",
                              isWeightsOnly ? "--weights-only" : "--precision"),
                  "leave one of both out");
  }
  if (isWeightsOnly && request.precision != "int8") {
    return refuse(
        "--weights-only computes wide, and --precision says in what narrow layers compute",
        "leave one of both out");
  }
  if (request.dynamic && !request.calibration.data.empty()) {
    return refuse("--dynamic finds scales when it runs and needs no samples, and --data gives some",
                  "leave one of both out");
  }
  if (request.perTensor && !request.dynamic) {
    return refuse("--per-tensor says how --dynamic finds its scales, which is not asked for",
                  "add --dynamic");
  }
  if (request.weightsOnly == "8" && !request.calibration.data.empty()) {
    return refuse("--weights-only 8 needs no samples, and --data gives some",
                  "leave one of both out");
  }
  if (request.int4Form != "nbits" && request.weightsOnly != "4") {
    return refuse("--int4-form says how weights of 4 bits are stored, which is not asked for",
                  "add --weights-only 4");
  }
  if (isWeightsOnly && !request.narrow.empty()) {
    return refuse("--weights-only computes every layer wide, and --narrow asks for one in int8",
                  "leave one of both out");
  }
  if (request.percentile && request.ranges != "percentile") {
    return refuse(fmt::format("--percentile says nothing to --ranges {}", request.ranges),
                  "add --ranges percentile");
  }
  TENON_TRY(
      checkSearch(request.search, isWeightsOnly || request.dynamic || request.precision != "int8"));
  for (const std::string &name : request.keep) {
    if (std::ranges::count(request.narrow, name) > 0) {
      return refuse(fmt::format("--keep and --narrow both name '{}'", view::visible(name)),
                    "leave one of both out");
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
