// Implements forms as quantizers of their own over what was observed once.

#include "tools/tenon/quant/FormMaker.h"

#include "tools/tenon/task/TaskListener.h"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>

namespace tenon::tool {

using quant::Treatment;

namespace {

constexpr std::string_view kLetters = "wsn"; // in the order of quant::kTreatments

bool isAmong(const std::vector<Treatment> &treatments, Treatment treatment) {
  return std::ranges::count(treatments, treatment) > 0;
}

} // namespace

char letterOf(Treatment treatment) {
  return kLetters[static_cast<size_t>(std::ranges::find(quant::kTreatments, treatment) -
                                      quant::kTreatments)];
}

Treatment treatmentOf(char letter) { return quant::kTreatments[kLetters.find(letter)]; }

Result<FormMaker> FormMaker::open(const CalibrationRequest &request,
                                  const quant::Settings &settings, TaskListener &listener) {
  FormMaker maker;
  maker.request = request;
  maker.settings = settings;
  maker.settings.mayBeNone = true; // that the rules leave all wide says nothing yet
  maker.formOptions = {request.threads, request.useCache};
  TENON_ASSIGN(maker.scratch, ScratchFolder::create("tenon-search"));
  TENON_ASSIGN(quant::Quantizer first, quant::Quantizer::open(request.model, maker.settings));
  quant::Settings narrow = maker.settings;
  narrow.overrides = quant::narrowAll(first.graph(), first.plan(), settings.overrides);
  TENON_ASSIGN(maker.all, quant::Quantizer::open(request.model, narrow));
  TENON_ASSIGN(maker.calibrated, calibrate(*maker.all, request, listener));
  TENON_TRY(maker.choose(first)); // products of one row are known now
  TENON_TRY(maker.choose(*maker.all));
  maker.found =
      quant::findCandidates(first.graph(), first.plan(), maker.all->plan(), settings.overrides);
  if (maker.found.empty()) {
    return Status::error(ErrorId::BadArgument, "the search has no layer left to decide",
                         "leave out --keep and --narrow, or --accuracy-drop and --latency");
  }
  for (const quant::Candidate &candidate : maker.found) {
    Treatment guessed = candidate.layers.front().first;
    maker.guess += letterOf(isAmong(candidate.treatments, guessed) ? guessed : Treatment::Wide);
  }
  auto isTable = [](const quant::Embedding &table) { return table.treatment != Treatment::Wide; };
  auto isDecided = [](const auto &decided) { return decided.second.first != Treatment::Wide; };
  maker.hasOthers = std::ranges::any_of(first.plan().embeddings, isTable) ||
                    std::ranges::any_of(settings.overrides, isDecided);
  return maker;
}

/// Ranges of what observers saw, which is in the order of `all`.
Status FormMaker::choose(quant::Quantizer &quantizer) const {
  const std::vector<opt::Observation> &known = all->observations();
  std::vector<quant::Observed> seen;
  for (const opt::Observation &wanted : quantizer.observations()) {
    auto own = std::ranges::find_if(
        known, [&](const opt::Observation &one) { return one.name == wanted.name; });
    if (own == known.end() || (wanted.hasHistogram && !own->hasHistogram) ||
        (wanted.channels && !own->channels)) {
      return Status::error(
          ErrorId::InternalError,
          fmt::format("'{}' is quantized in a candidate model, but was not observed", wanted.name),
          "report this with the model");
    }
    seen.push_back(calibrated.seen[static_cast<size_t>(own - known.begin())]);
  }
  return quantizer.chooseRanges(seen, calibrated.runs);
}

std::string FormMaker::uniform(Treatment treatment) const {
  std::string letters;
  for (const quant::Candidate &candidate : found) {
    letters += letterOf(isAmong(candidate.treatments, treatment) ? treatment : Treatment::Wide);
  }
  return letters;
}

std::string FormMaker::firstGuess() const { return guess; }

bool FormMaker::isModel(const std::string &letters) const {
  return !hasOthers && letters == uniform(Treatment::Wide);
}

Result<FormMaker::Written> FormMaker::write(const std::string &letters,
                                            std::span<const std::string> reasons,
                                            const std::string &record) const {
  quant::Settings own = settings;
  for (size_t i = 0; i < letters.size(); ++i) {
    for (const quant::CandidateLayer &layer : found[i].layers) {
      own.overrides[layer.name] = {treatmentOf(letters[i]), reasons.empty() ? "" : reasons[i]};
    }
  }
  TENON_ASSIGN(quant::Quantizer quantizer, quant::Quantizer::open(request.model, own));
  TENON_TRY(choose(quantizer));
  if (!record.empty()) {
    quantizer.addMetadata(kSearchKey, record);
  }
  Written written;
  TENON_ASSIGN(written.bytes, quantizer.write(kCalibrationKey, calibrated.fingerprint));
  written.info = quantizer.info();
  return written;
}

Result<Form> FormMaker::compile(const std::string &letters, TaskListener &listener) const {
  if (isModel(letters)) {
    return Form::compile(request.model, formOptions, listener);
  }
  TENON_ASSIGN(Written written, write(letters));
  std::string path = scratch->path() + "/form.onnx";
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file.write(written.bytes.data(), static_cast<std::streamsize>(written.bytes.size()));
  file.close();
  if (!file) {
    return Status::error(ErrorId::FileWriteFailed,
                         fmt::format("{}: a candidate model cannot be written", path),
                         "free space there, or name another folder in TMPDIR");
  }
  return Form::compile(path, formOptions, listener);
}

} // namespace tenon::tool
