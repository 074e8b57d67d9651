// Exponentials of many logits at once: softmax over a vocabulary of a hundred thousand tokens is
// computed for each token that is drawn.
#pragma once

#include <span>

namespace tenon::generate {

/// exp(logits[i] - largest) for each, to within 3e-7 of itself; 0 where it is below 2e-38.
/// `largest` is at least all of them. The same bits on each machine.
void exponentials(std::span<const float> logits, float largest, std::span<float> results);

/// The sum of these, in one order.
double sumOfExponentials(std::span<const float> logits, float largest);

/// The sum of the exponentials of those that are not below `least`, in shares (GumbelNoise.h): of
/// at most kMostShares logits exact. The largest logit is 0.
double sumOfShares(std::span<const float> logits, float least);

} // namespace tenon::generate
