// What is counted of a version of a model: requests by how they ended, and the time that each stage
// took.

#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>

namespace tenon::server {

struct DurationSum {
  uint64_t count = 0;
  uint64_t nanoseconds = 0;
  void add(uint64_t duration) {
    ++count;
    nanoseconds += duration;
  }
};

/// Durations in bins whose upper ends are kBounds, and one for all above.
class Histogram {
public:
  /// In microseconds.
  static constexpr std::array<uint64_t, 18> kBounds = {
      50,     100,     250,     500,     1'000,     2'500,     5'000,     10'000,     25'000,
      50'000, 100'000, 250'000, 500'000, 1'000'000, 2'500'000, 5'000'000, 10'000'000, 60'000'000};

  void add(uint64_t nanoseconds) {
    size_t bin = 0;
    while (bin < kBounds.size() && nanoseconds > kBounds[bin] * 1000) {
      ++bin;
    }
    ++bins[bin];
    total.add(nanoseconds);
  }
  /// Durations up to the end of bin `bin`.
  uint64_t upTo(size_t bin) const {
    uint64_t count = 0;
    for (size_t i = 0; i <= bin; ++i) {
      count += bins[i];
    }
    return count;
  }
  const DurationSum &sum() const { return total; }

private:
  std::array<uint64_t, kBounds.size() + 1> bins = {};
  DurationSum total;
};

/// Nanoseconds that a request spent in each stage.
struct StageTimes {
  uint64_t queue = 0;
  uint64_t copyIn = 0;
  uint64_t compute = 0;
  uint64_t copyOut = 0;
};

/// Runs of one number of rows.
struct BatchStatistics {
  DurationSum copyIn, compute;
  uint64_t copyOut = 0; ///< nanoseconds of all replies
};

/// Texts of a language model.
struct TextStatistics {
  Histogram firstToken; ///< from the arrival of a request to an answer's first token
  Histogram nextToken;  ///< from a token of an answer to the next
  uint64_t promptTokens = 0, answerTokens = 0;
  uint64_t cachedTokens = 0; ///< of prompts, that were not computed again
};

struct VersionStatistics {
  DurationSum success; ///< from the arrival of a request to its reply
  DurationSum failure; ///< of all others but those that were cancelled
  Histogram request, queue, copyIn, compute, copyOut;
  uint64_t inferences = 0; ///< rows of batches, requests where there is no batch
  uint64_t executions = 0; ///< runs of the model
  std::map<uint64_t, BatchStatistics> batches; ///< by rows; of versions with a batch
  uint64_t rejected = 0;                       ///< by a full queue
  uint64_t timedOut = 0;
  uint64_t invalid = 0; ///< answered with an error of the client's, 4xx
  uint64_t unready = 0; ///< that came while the version took none
  uint64_t cancelled = 0;
  uint64_t lastInference = 0; ///< milliseconds since 1970
  TextStatistics texts;

  /// Requests that the version failed.
  uint64_t failed() const { return failure.count - rejected - timedOut - invalid - unready; }
};

} // namespace tenon::server
