// Classes that were answered to requests with an id, kept until their labels come: for some time,
// and not more than so many. One thread.

#pragma once

#include "server/batching/Request.h"

#include <deque>
#include <list>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace tenon::server {

/// Of the last labelled rows of a version.
struct SampledAccuracy {
  static constexpr size_t kMaxRows = 10'000;
  std::deque<bool> rows; ///< whether each was right
  uint64_t right = 0;

  void add(bool isRight);
};

/// The class of each row: the largest element of the first output, or its only one where that is an
/// integer. Empty where that output is neither.
std::vector<int64_t> classesOf(const InferResult &result);

class Predictions {
public:
  Predictions(size_t maxRows, Clock::duration age) : maxRows(maxRows), age(age) {}

  /// Remembers what a version answered. An id that was there before belongs to the newer request.
  void keep(const std::string &model, const std::string &id,
            std::shared_ptr<SampledAccuracy> version, std::vector<int64_t> classes,
            Clock::time_point now);
  /// Rows of the request `id`; 0 where it is not kept.
  size_t rowsOf(const std::string &model, const std::string &id, Clock::time_point now);
  /// Counts for each version that answered the request, and forgets it. It is kept, with as many
  /// rows.
  void label(const std::string &model, const std::string &id, std::span<const int64_t> labels);
  size_t size() const { return entries.size(); }

private:
  struct Entry {
    std::vector<std::pair<std::shared_ptr<SampledAccuracy>, std::vector<int64_t>>>
        answers; ///< by the version that serves, and by its shadow
    Clock::time_point time;
    std::list<std::string>::iterator place; ///< in `order`
  };
  using Entries = std::unordered_map<std::string, Entry>;
  void forget(Entries::iterator entry);
  void expire(Clock::time_point now);

  const size_t maxRows;
  const Clock::duration age;
  Entries entries;              ///< by model and id
  std::list<std::string> order; ///< keys, the oldest first
  size_t rows = 0;
};

} // namespace tenon::server
