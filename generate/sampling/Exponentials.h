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

} // namespace tenon::generate
