// The inputs of a step of a language model as numbers that agree with each other: some new tokens
// of sequences that are as long as a service's. For whoever runs an engine without a text.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace tenon {

/// Pages of a session, at most: more positions than any cache has, and slots fit into 32 bits.
inline constexpr int64_t kMaxPages = int64_t(1) << 24;

/// Dims of the inputs, by the roles that the record "language" gives them.
struct StepSizes {
  int64_t tokens = 0, rows = 0;
  int64_t context = 0;                      ///< without pages: positions that are read
  int64_t sequences = 0, table = 0;         ///< with pages: the two dims of the table
  int64_t page = 0, pages = 0, longest = 0; ///< positions of a page, pages, positions of a sequence
};

/// The elements of the input of a role, row-major; none for `tokens` and other roles. Sequences
/// have their new tokens in equal shares, behind from few to all of the positions that an equal
/// share of the pages allows.
std::optional<std::vector<int64_t>> stepInput(std::string_view role, const StepSizes &sizes);

} // namespace tenon
