// The compiler's library writes the file; the loss is that of `tenon score`.
#include "tools/tenon/quant/QuantizeLanguage.h"

#include "compiler/frontend/language/Quantize.h"
#include "compiler/frontend/weights/gguf/Gguf.h"
#include "generate/session/Score.h"
#include "support/files/MappedFile.h"
#include "tools/tenon/engines/OutputCheck.h"
#include "tools/tenon/generate/MeanText.h"
#include "tools/tenon/generate/OpenModel.h"
#include "tools/tenon/print/Format.h"
#include "tools/view/Escape.h"

#include <fmt/format.h>

#include <cmath>
#include <filesystem>
#include <optional>

namespace tenon::tool {
namespace {

using view::visible;

std::string outputOf(const QuantizeRequest &request) {
  std::string_view model = request.calibration.model;
  while (model.size() > 1 && model.ends_with('/')) {
    model.remove_suffix(1);
  }
  model.remove_suffix(model.ends_with(".gguf") ? 5 : 0);
  return fmt::format("{}.int{}.gguf", model, request.weightsOnly);
}

Status checkLanguageRequest(const QuantizeRequest &request) {
  auto refuse = [](std::string what, std::string next) {
    return Status::error(ErrorId::BadArgument, std::move(what), std::move(next));
  };
  if (request.weightsOnly.empty()) {
    return refuse("a language model is quantized in its weights, and their type is not given",
                  "add --weights int4 or --weights int8");
  }
  if (!request.output.ends_with(".gguf")) {
    return refuse(fmt::format("'{}': a language model is written as GGUF, no other format",
                              visible(request.output)),
                  "name the output with .gguf; `tenon compile` makes an engine of it");
  }
  bool hasOthers = !request.calibration.data.empty() || request.dynamic || request.perTensor ||
                   request.precision != "int8" || request.int4Form != "nbits" ||
                   request.ranges != "mse" || request.percentile || !request.keep.empty() ||
                   !request.narrow.empty() || request.reduceRange || request.noSmoothing ||
                   request.noBiasCorrection || request.search.isAsked() ||
                   !request.search.report.empty();
  return hasOthers ? refuse("of a language model only the weights are rounded, so options for "
                            "samples and layers have no effect",
                            "leave out all but --weights, --text, --threads and -o")
                   : Status::ok();
}

/// How well both foresee a text, and how far one is from the other.
struct Loss {
  generate::TextScore before, after;
};

Result<Loss> measureLoss(const QuantizeRequest &request, TaskListener &listener) {
  TENON_ASSIGN(MappedFile file, MappedFile::open(request.text));
  std::string_view text(reinterpret_cast<const char *>(file.bytes().data()), file.bytes().size());
  OpenRequest open;
  open.useCache = request.calibration.useCache;
  open.path = request.calibration.model;
  TENON_ASSIGN(OpenModel original, OpenModel::open(open, listener));
  open.path = request.output;
  TENON_ASSIGN(OpenModel made, OpenModel::open(open, listener));
  generate::ScoreOptions options;
  options.threads = request.calibration.threads;
  auto score = [&](const OpenModel &model, const OpenModel *reference, std::string_view what) {
    return generate::scoreText(*model.model, reference ? reference->model.get() : nullptr, text,
                               options, [&](double share) {
                                 listener.progress(what, share);
                                 return true;
                               });
  };
  Loss loss;
  TENON_ASSIGN(loss.before, score(original, nullptr, "reading with the original"));
  TENON_ASSIGN(loss.after, score(made, &original, "reading with both"));
  listener.clearProgress();
  return loss;
}

double perplexityOf(const generate::TextScore &score) { return std::exp(score.surprise.value); }

std::string languageReportText(const QuantizeRequest &request, const language::QuantizedFile &made,
                               const std::optional<Loss> &loss) {
  std::string text = fmt::format("{}: weights of {}, from {}\n", visible(request.output),
                                 formatBytes(made.after), formatBytes(made.before));
  for (const language::StoredType &type : made.types) {
    text += fmt::format("  {:<5} {:>5} tensors in {:>10}", type.name, type.tensors,
                        formatBytes(type.bytes));
    text += type.error == 0
                ? "  as they were\n"
                : fmt::format("  error {:.2f} %, at most {:.2f} % ({})\n", 100 * type.error,
                              100 * type.worstError, visible(type.worst));
  }
  if (loss) {
    text += fmt::format("perplexity      {:.4g}, before {:.4g}  over {} tokens\n"
                        "KL divergence   {}  nats a token, 95 % interval\n"
                        "same top token  {}\n",
                        perplexityOf(loss->after), perplexityOf(loss->before), loss->after.tokens,
                        meanText(*loss->after.divergence), meanText(*loss->after.sameTop));
  }
  return text;
}

Json languageReportJson(const QuantizeRequest &request, const language::QuantizedFile &made,
                        const std::optional<Loss> &loss) {
  Json types = Json::array();
  for (const language::StoredType &type : made.types) {
    types.push_back({{"type", type.name},
                     {"tensors", type.tensors},
                     {"bytes", type.bytes},
                     {"error", type.error},
                     {"worst", type.worst},
                     {"worst_error", type.worstError}});
  }
  Json value = {{"output", request.output},
                {"weights_before", made.before},
                {"weights_after", made.after},
                {"types", std::move(types)}};
  if (loss) {
    value["text"] = {{"tokens", loss->after.tokens},
                     {"perplexity_before", perplexityOf(loss->before)},
                     {"perplexity", perplexityOf(loss->after)},
                     {"kl_divergence", meanJson(*loss->after.divergence)},
                     {"same_top_token", meanJson(*loss->after.sameTop)}};
  }
  return value;
}

} // namespace

bool isLanguageModel(const std::string &path) {
  std::error_code error;
  if (std::filesystem::is_directory(path, error)) {
    return true;
  }
  Result<MappedFile> file = MappedFile::open(path);
  return file && gguf::looksLikeGguf(file->bytes());
}

Result<QuantizedModel> quantizeLanguage(QuantizeRequest request, TaskListener &listener) {
  if (request.output.empty()) {
    request.output = outputOf(request);
  }
  TENON_TRY(checkLanguageRequest(request));
  std::vector<std::string> reads;
  if (!request.text.empty()) {
    reads.push_back(request.text);
  }
  TENON_TRY(checkOutput(request.output, request.calibration.model, reads));
  language::QuantizeOptions options = {
      .model = request.calibration.model,
      .output = request.output,
      .bits = request.weightsOnly == "8" ? 8 : 4,
      .threads = request.calibration.threads,
      .progress = [&](double share) { listener.progress("quantizing", share); }};
  TENON_ASSIGN(language::QuantizedFile made, language::quantizeModel(options));
  listener.clearProgress();
  for (const std::string &note : made.notes) {
    listener.note(note);
  }
  std::optional<Loss> loss;
  if (!request.text.empty()) {
    TENON_ASSIGN(loss, measureLoss(request, listener));
  }
  return QuantizedModel{
      languageReportJson(request, made, loss), languageReportText(request, made, loss), {}};
}

} // namespace tenon::tool
