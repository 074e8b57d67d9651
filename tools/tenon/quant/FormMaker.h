// Makes the forms of a model that a search weighs: calibrated once with all candidates narrow,
// written and compiled for each choice of treatments. A choice is a text with a letter for each
// candidate.

#pragma once

#include "compiler/quant/Candidates.h"
#include "compiler/quant/Quantize.h"
#include "support/files/ScratchFolder.h"
#include "tools/tenon/quant/Calibrate.h"
#include "tools/tenon/quant/Form.h"
#include "tools/tenon/quant/SearchRecord.h"

#include <optional>
#include <string>
#include <vector>

namespace tenon::tool {

/// 'w' wide, 's' weights only (stored in few bits), 'n' narrow.
char letterOf(quant::Treatment treatment);
quant::Treatment treatmentOf(char letter);

class FormMaker {
public:
  /// Calibrates. An error where nothing is left to decide about.
  static Result<FormMaker> open(const CalibrationRequest &request, const quant::Settings &settings,
                                TaskListener &listener);

  const std::vector<quant::Candidate> &candidates() const { return found; }
  const Calibration &calibration() const { return calibrated; }
  /// Of the ranges with all candidates narrow.
  const quant::QuantizationInfo &narrowInfo() const { return all->info(); }
  const FormOptions &options() const { return formOptions; }

  /// Each candidate that can be so.
  std::string uniform(quant::Treatment treatment) const;
  /// What the rules say, as far as treatments have it.
  std::string firstGuess() const;
  /// Whether the form is the model as it is, without a change.
  bool isModel(const std::string &letters) const;

  struct Written {
    std::string bytes;
    quant::QuantizationInfo info;
  };
  /// `reasons` has one for each candidate, or none at all; `record` goes into the metadata unless
  /// it is empty.
  Result<Written> write(const std::string &letters, std::span<const std::string> reasons = {},
                        const std::string &record = "") const;
  Result<Form> compile(const std::string &letters, TaskListener &listener) const;

private:
  FormMaker() = default;
  Status choose(quant::Quantizer &quantizer) const;

  CalibrationRequest request;
  quant::Settings settings;
  FormOptions formOptions;
  std::optional<ScratchFolder> scratch;
  std::optional<quant::Quantizer> all; ///< with every candidate narrow
  Calibration calibrated;
  std::vector<quant::Candidate> found;
  std::string guess;
  bool hasOthers = false; ///< whether more than the candidates changes
};

} // namespace tenon::tool
