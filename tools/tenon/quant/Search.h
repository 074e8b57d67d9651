// The search for the fastest form of a model that keeps its accuracy, or the most accurate one that
// keeps a latency.
//
// In order: all layers that can be are narrow, and calibrated once (compiler/quant/Candidates.h
// says what is decided together); times of the regions in engines with all layers wide and all
// narrow; the error at the outputs with one candidate narrow, on a few samples; a knapsack over
// both; forms on its front measured as a whole, by bisection; single changes to the best of these.
// The first of these steps that the budget does not reach ends it.

#pragma once

#include "compiler/quant/Candidates.h"
#include "compiler/quant/Quantize.h"
#include "tools/tenon/quant/FormMaker.h"
#include "tools/tenon/quant/SearchState.h"

#include <optional>
#include <string>
#include <vector>

namespace tenon::tool {

struct SearchRequest {
  CalibrationRequest calibration;
  quant::Settings settings;
  std::string statePath; ///< of the file that one that was ended goes on from
  std::string test;      ///< data that drops are measured on; empty for those of the calibration
  std::string metric;    ///< as Evaluator::open takes it
  std::optional<double> drop; ///< at most, as AccuracyResult::drop
  std::optional<double> milliseconds;
  double budget = 300; ///< seconds
  size_t samples = 32; ///< for the error of one candidate
};

/// A candidate with what was measured of it, treatments as in the candidate.
struct SearchedCandidate {
  quant::Candidate candidate;
  std::vector<MeasuredTreatment> treatments;
  std::vector<bool> isEstimated; ///< whether its error is a guess, for want of time
  size_t chosen = 0;             ///< 0, wide, where nothing was
  size_t placeOf(quant::Treatment treatment) const;
};

/// A form that was measured as a whole.
struct SearchedForm {
  std::string letters; ///< of each candidate: w wide, s weights only, n narrow
  MeasuredForm measured;
  bool fits = false; ///< what was asked for
  bool isChosen = false;
};

struct Searched {
  std::vector<SearchedCandidate> candidates;
  std::vector<SearchedForm> forms; ///< from the slowest to the fastest
  std::string metric;
  double baseline = 0; ///< of the model itself
  double modelMilliseconds = 0;
  bool isOutOfTime = false;
  double seconds = 0;
  std::vector<std::string> warnings;
  std::string testData;
  size_t testSamples = 0, errorSamples = 0;
  std::string level; ///< of the CPU
  unsigned threads = 0;
  Calibration calibration;
  quant::QuantizationInfo narrow; ///< of the ranges with all candidates narrow
  /// Of the chosen form; none where `refusal` says why.
  std::optional<quant::QuantizationInfo> info;
  std::string bytes;
  Status refusal;
};

/// Errors are those of the data, the model and the state; a search without an answer is none: see
/// Searched::refusal.
Result<Searched> search(const SearchRequest &request, TaskListener &listener);

} // namespace tenon::tool
