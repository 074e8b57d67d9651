// Files that are written are opened first: what cannot be is said before the work.

#include "tools/tenon/quant/QuantizeModel.h"

#include "compiler/quant/Quantize.h"
#include "support/files/AtomicFile.h"
#include "support/files/OutputPath.h"
#include "tools/tenon/engines/OutputCheck.h"
#include "tools/tenon/inputs/FileKind.h"
#include "tools/tenon/model/CompilerBridge.h"
#include "tools/tenon/model/DataFile.h"
#include "tools/tenon/quant/BeforeAfter.h"
#include "tools/tenon/quant/QuantizeLanguage.h"
#include "tools/tenon/quant/QuantizeText.h"
#include "tools/tenon/quant/SearchText.h"

#include <algorithm>
#include <optional>

namespace tenon::tool {
namespace {

/// What the page measures.
BeforeAfterRequest reportOf(const QuantizeRequest &request) {
  const CalibrationRequest &calibration = request.calibration;
  const std::string &data = request.search.test.empty() ? calibration.data : request.search.test;
  return {calibration.model,
          request.output,
          data,
          request.search.metric,
          {calibration.threads, calibration.useCache}};
}

Status commit(AtomicFile &file, const std::string &bytes) {
  TENON_TRY(file.append(std::as_bytes(std::span(bytes))));
  return file.commit();
}

void noteAll(const std::vector<std::string> &warnings, TaskListener &listener) {
  for (const std::string &warning : warnings) {
    listener.note(warning);
  }
}

/// What a search chose, or the front and why it chose nothing.
Result<QuantizedModel> searchAndWrite(const QuantizeRequest &request,
                                      const quant::Settings &settings, AtomicFile &file,
                                      std::optional<AtomicFile> &page, TaskListener &listener) {
  TENON_ASSIGN(SearchRequest wanted,
               searchRequest(request.search, request.calibration, settings, request.output));
  TENON_ASSIGN(Searched searched, search(wanted, listener));
  noteAll(searched.calibration.warnings, listener);
  noteAll(searched.warnings, listener);
  QuantizedModel made = {
      {{"search", searchJson(searched)}}, searchText(searched), searched.refusal};
  if (searched.info) {
    TENON_TRY(commit(file, searched.bytes));
    forgetState(request.search, wanted);
    Quantized outcome{*searched.info, searched.calibration, bytesOfModel(request.calibration.model),
                      searched.bytes.size()};
    made.json.update(quantizedJson(request, outcome));
    made.text += quantizedText(request, outcome);
  }
  TENON_TRY(writeReport(reportOf(request), page, made.json, listener));
  return made;
}

Result<QuantizedModel> calibrateAndWrite(const QuantizeRequest &request,
                                         quant::Quantizer &quantizer, AtomicFile &file,
                                         std::optional<AtomicFile> &page, TaskListener &listener) {
  Calibration calibration;
  if (!request.calibration.data.empty()) {
    TENON_ASSIGN(calibration, calibrate(quantizer, request.calibration, listener));
  }
  noteAll(calibration.warnings, listener);
  quantizer.setGrams(std::move(calibration.grams));
  TENON_TRY(quantizer.chooseRanges(calibration.seen, calibration.runs));
  const std::string &model = request.calibration.model;
  TENON_ASSIGN(std::string place, resolveOutput(request.output));
  std::vector<std::string> inputs = dataFilesOf(model);
  inputs.push_back(model);
  DataFile data(place, dataNameOf(place), std::move(inputs));
  TENON_ASSIGN(std::string bytes, quantizer.write(kCalibrationKey, calibration.fingerprint, &data));
  TENON_TRY(data.commit());
  TENON_TRY(commit(file, bytes));
  if (data.isUsed()) {
    listener.note(noteOfData(data));
  }
  Quantized outcome{quantizer.info(), calibration, bytesOfModel(model), bytes.size() + data.size()};
  QuantizedModel made = {quantizedJson(request, outcome), quantizedText(request, outcome), {}};
  TENON_TRY(writeReport(reportOf(request), page, made.json, listener));
  return made;
}

} // namespace

Result<QuantizedModel> quantizeModel(QuantizeRequest request, TaskListener &listener) {
  const CalibrationRequest &calibration = request.calibration;
  TENON_TRY(isModel(calibration.model, Takes::Model).takeStatus());
  if (isLanguageModel(calibration.model)) {
    return quantizeLanguage(std::move(request), listener);
  }
  if (request.output.empty()) {
    request.output = defaultOutput(request);
  }
  TENON_TRY(checkRequest(request));
  TENON_TRY(checkIsOnnx(calibration.model));
  std::vector<std::string> reads;
  if (!calibration.data.empty()) {
    reads.push_back(calibration.data);
  }
  TENON_TRY(checkOutput(request.output, calibration.model, reads));
  quant::Settings settings = settingsOf(request);
  TENON_ASSIGN(quant::Quantizer quantizer, quant::Quantizer::open(calibration.model, settings));
  reads.push_back(calibration.model);
  TENON_ASSIGN(AtomicFile file, AtomicFile::create(request.output, reads));
  std::optional<AtomicFile> page;
  if (!request.search.report.empty()) {
    reads.push_back(request.output);
    TENON_ASSIGN(page, AtomicFile::create(request.search.report, reads));
  }
  return request.search.isAsked() ? searchAndWrite(request, settings, file, page, listener)
                                  : calibrateAndWrite(request, quantizer, file, page, listener);
}

} // namespace tenon::tool
