// Checks are made before any file is read.

#include "tools/tenon/verbs/QuantizeFlags.h"

#include "support/files/MappedFile.h"
#include "tools/view/Escape.h"

#include <fmt/format.h>

#include <algorithm>

namespace tenon::tool {

using quant::Treatment;

std::string defaultOutput(const QuantizeFlags &flags) {
  std::string_view model = flags.request.model;
  model.remove_suffix(model.ends_with(".onnx") ? 5 : 0);
  std::string kind = flags.dynamic               ? "dynamic"
                     : flags.weightsOnly.empty() ? flags.precision
                                                 : "w" + flags.weightsOnly;
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

Status checkFlags(const QuantizeFlags &flags) {
  auto refuse = [](std::string what, std::string next) {
    return Status::error(ErrorId::BadArgument, std::move(what), std::move(next));
  };
  bool isWeightsOnly = !flags.weightsOnly.empty();
  if (flags.request.data.empty() && !isWeightsOnly && !flags.dynamic) {
    return refuse("there are no samples to calibrate with",
                  "give them with --data, or do without: scales found at run time (--dynamic), or "
                  "weights alone "
                  "(--weights-only 8)");
  }
  if (flags.dynamic && (isWeightsOnly || flags.precision != "int8")) {
    return refuse(fmt::format("--dynamic computes in int8, and {} asks for something else",
                              isWeightsOnly ? "--weights-only" : "--precision"),
                  "leave one of both out");
  }
  if (isWeightsOnly && flags.precision != "int8") {
    return refuse(
        "--weights-only computes wide, and --precision says in what narrow layers compute",
        "leave one of both out");
  }
  if (flags.dynamic && !flags.request.data.empty()) {
    return refuse("--dynamic finds scales when it runs and needs no samples, and --data gives some",
                  "leave one of both out");
  }
  if (flags.perTensor && !flags.dynamic) {
    return refuse("--per-tensor says how --dynamic finds its scales, which is not asked for",
                  "add --dynamic");
  }
  if (flags.weightsOnly == "8" && !flags.request.data.empty()) {
    return refuse("--weights-only 8 needs no samples, and --data gives some",
                  "leave one of both out");
  }
  if (flags.int4Form != "nbits" && flags.weightsOnly != "4") {
    return refuse("--int4-form says how weights of 4 bits are stored, which is not asked for",
                  "add --weights-only 4");
  }
  if (isWeightsOnly && !flags.narrow.empty()) {
    return refuse("--weights-only computes every layer wide, and --narrow asks for one in int8",
                  "leave one of both out");
  }
  if (flags.percentile && flags.ranges != "percentile") {
    return refuse(fmt::format("--percentile says nothing to --ranges {}", flags.ranges),
                  "add --ranges percentile");
  }
  TENON_TRY(
      checkSearchFlags(flags.search, isWeightsOnly || flags.dynamic || flags.precision != "int8"));
  for (const std::string &name : flags.keep) {
    if (std::ranges::count(flags.narrow, name) > 0) {
      return refuse(fmt::format("--keep and --narrow both name '{}'", view::visible(name)),
                    "leave one of both out");
    }
  }
  return Status::ok();
}

quant::Settings settingsOf(const QuantizeFlags &flags) {
  quant::Settings settings;
  for (quant::RangeMethod method : quant::kRangeMethods) {
    if (quant::nameOf(method) == flags.ranges) {
      settings.method = method;
    }
  }
  settings.percentile = flags.percentile.value_or(settings.percentile);
  settings.scheme =
      flags.dynamic ? (flags.perTensor ? quant::Scheme::DynamicTensor : quant::Scheme::DynamicToken)
      : flags.precision == "fp8" ? quant::Scheme::Float8
                                 : quant::Scheme::Static;
  settings.weightBits = flags.weightsOnly.empty() ? 0 : flags.weightsOnly == "8" ? 8 : 4;
  settings.blockForm =
      flags.int4Form == "qdq" ? quant::BlockForm::Dequantize : quant::BlockForm::Product;
  settings.reducesRange = flags.reduceRange;
  settings.smooths = !flags.noSmoothing;
  settings.correctsBias = !flags.noBiasCorrection;
  for (const std::string &name : flags.keep) {
    settings.overrides[name] = {Treatment::Wide, "--keep"};
  }
  for (const std::string &name : flags.narrow) {
    settings.overrides[name] = {Treatment::Narrow, ""};
  }
  return settings;
}

} // namespace tenon::tool
