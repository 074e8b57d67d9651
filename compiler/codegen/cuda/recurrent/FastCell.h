// Recurrent cells of f32 on GPUs: sigmoid and tanh without quotients of IEEE, whose branches took
// most of a step.
#pragma once

#include "compiler/codegen/common/math/RecurrentCell.h"
#include "compiler/codegen/cuda/base/ThreadBuilder.h"

namespace tenon::codegen::cuda {

/// Sigmoid and tanh of an f32 err by up to 4e-7; other activations and types are those of all
/// targets.
RecurrentCell fastCell(const ThreadBuilder &t, tn::RecurrenceOp op);

} // namespace tenon::codegen::cuda
