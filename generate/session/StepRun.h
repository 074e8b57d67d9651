// One run of an engine with pages: its inputs in their order, and what is wanted of its outputs.
#pragma once

#include "generate/sampling/Sampler.h"
#include "generate/session/LanguageModel.h"

#include <cstdint>
#include <span>

namespace tenon::generate {

/// As in StepBatch, whose ranges the caller keeps to.
struct StepInputs {
  std::span<const int64_t> tokens, positions, slots, starts, lengths, pages, rows;
  /// [L], or empty where nothing is drawn.
  std::span<const DrawParameters> draws = {};
  /// Of an engine with draws; empty: all rows.
  std::span<const int64_t> fetched = {};
};

/// Runs the step. Logits, [L or F, vocabulary], stay where they are computed if their span is
/// empty; draws are of LanguageModel::draws() alone, [L] or empty. A row whose logits are not
/// finite has -1 for its token. Errors are those of tenon_session_run.
Status runStep(const LanguageModel &model, tenon_session *session, const StepInputs &inputs,
               std::span<float> logits, std::span<Draw> draws);

} // namespace tenon::generate
