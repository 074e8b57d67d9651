// Sizes of steps on a GPU, which keeps a graph for each that it has seen: fewer sizes are graphs
// that are there already.
#pragma once

#include "generate/session/StepSession.h"

#include <cstdint>
#include <vector>

namespace tenon::generate {

/// The smallest size that a GPU has a graph for and that holds `count`, at most `most`: powers of
/// two, and from 16 on what lies halfway between them.
int64_t stepSize(int64_t count, int64_t most);

/// The step with sequences, tokens and, if asked for, rows behind its own: such a sequence has one
/// token that is written nowhere, such a row is drawn greedily. Results of the step's own rows are
/// those that it has without. Rows are as many as sequences, unless there are more.
StepBatch padStep(const StepBatch &batch, const PageFacts &most, bool padsRows);

/// Those that padStep makes of steps of up to so many tokens and sequences, with a row for each
/// sequence at most; larger ones first, since what they need is there for the others.
std::vector<StepSize> stepSizes(const StepSize &upTo, const PageFacts &most);

/// A step of such a size that draws and writes nothing.
StepBatch emptyStep(const StepSize &size, const PageFacts &most);

} // namespace tenon::generate
