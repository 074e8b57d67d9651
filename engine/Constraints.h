// What a plan's constraints say: whether they hold for values of the symbols, and in words.
#pragma once

#include "engine/Plan.h"
#include "support/Result.h"

namespace tenon::engine {

/// Whether it holds for these values, one for each symbol of the plan. False where a side
/// overflows.
bool holds(const Plan &plan, const Constraint &constraint, std::span<const int64_t> symbols);

/// "N is 4 or 1", "H + 2 is a multiple of 16", "H is at least 3", or the text of a guard.
std::string describe(const Plan &plan, const Constraint &constraint);

/// Whether a constraint names none but the first `known` symbols.
bool isDecided(const Plan &plan, const Constraint &constraint, size_t known);

/// An error for the first constraint over the first `known` symbols that does not hold; it names
/// node, dims and values. TN0612, or TN0611 where data decides a value.
Status checkConstraints(const Plan &plan, std::span<const int64_t> symbols, size_t known);

/// Values for the symbols that satisfy the plan's constraints on dims of inputs, near `values`,
/// which are in range and are changed, but for those of the session. False if a short search finds
/// none.
bool satisfyConstraints(const Plan &plan, std::span<int64_t> values);

} // namespace tenon::engine
