// What somebody meant who misspelled a name: errors about unknown names end with it. It relies on a
// few candidates of a few letters; it compares each.

#pragma once

#include <span>
#include <string>
#include <string_view>

namespace tenon {

/// The candidate with the fewest letters inserted, left out, replaced or swapped with a neighbour;
/// case does not count. Empty where none is near: more than a third of the letters, rounded, would
/// differ.
std::string nearestName(std::string_view word, std::span<const std::string> candidates);

/// "did you mean 'NEAREST'?"; `otherwise` where no candidate is near.
std::string didYouMean(std::string_view word, std::span<const std::string> candidates,
                       std::string_view otherwise);

} // namespace tenon
