// Sizes of steps on a GPU, which keeps a graph for each that it has seen: fewer sizes are graphs
// that are there already.
#pragma once

#include "generate/session/StepSession.h"

#include <cstdint>

namespace tenon::generate {

/// The smallest size that a GPU has a graph for and that holds `count`, at most `most`: powers of
/// two, and from 16 on what lies halfway between them.
int64_t stepSize(int64_t count, int64_t most);

/// The step with sequences, tokens and, if asked for, rows behind its own: such a sequence has one
/// token that is written nowhere, such a row is drawn greedily. Results of the step's own rows are
/// those that it has without.
StepBatch padStep(const StepBatch &batch, const PageFacts &most, bool padsRows);

} // namespace tenon::generate
