// What a language model takes of memory, alone and for many users, and what would fit into what is
// there.
// Relies on the ports that compiler/frontend/language gives an engine.
#pragma once

#include "runtime/core/MemoryForecast.h"
#include "support/Result.h"

#include <cstdint>
#include <string>
#include <string_view>

namespace tenon::generate {

/// Of one sequence.
struct Fit {
  uint64_t weights = 0;   ///< bytes: of the engine's file on a CPU, copied to a GPU
  uint64_t position = 0;  ///< bytes of the keys and values of one position
  uint64_t session = 0;   ///< bytes that a session holds, once its sequence is full
  uint64_t available = 0; ///< bytes that weights and session may take
  int64_t positions = 0;  ///< of the sequence
  int64_t compiled = 0;   ///< positions that the engine gives a sequence
  int64_t trained = 0;    ///< positions that the model was trained for
  int64_t longest = 0;    ///< positions that would fit, at most `trained`; 0 for none
  int64_t page = 0;       ///< positions of a page; 0 for an engine without pages

  bool fits() const { return weights + session <= available; }
};

/// Of many sequences at once.
struct ServiceFit {
  uint64_t weights = 0;   ///< bytes of the engine's file, which a server copies; of a GPU as Fit's
  uint64_t runs = 0;      ///< bytes of the memory of runs: arena, scratch, workspace, ports, logits
  uint64_t worker = 0;    ///< bytes of the process that serves it, with the tokenizer
  uint64_t cache = 0;     ///< bytes of keys and values
  uint64_t draft = 0;     ///< bytes of all that a model takes which guesses
  uint64_t available = 0; ///< bytes that they all may take
  int64_t users = 0;      ///< sequences
  int64_t tokens = 0;     ///< positions of each
  int64_t page = 0;       ///< positions of a page; 0 for an engine without pages
  int64_t pages = 0;      ///< of all users
  int64_t maxUsers = 0;   ///< of so many positions, that would fit

  uint64_t needed() const { return weights + runs + worker + cache + draft; }
  bool fits() const { return needed() <= available; }
};

/// What the record "language" says of an engine's positions.
struct Positions {
  int64_t compiled = 0, trained = 0;
  /// Positions of a page, and pages of a session at most; 0 without pages.
  int64_t page = 0, pages = 0;
  int64_t vocabulary = 0;
  uint64_t tableBytes = 0; ///< of each position, in the weights
  /// Whether fewer positions are those of another session of the engine, whose tables stay as they
  /// are, and not of another engine.
  bool keepsTables = false;
};

/// Reads the record. TN0615 for a text that is not one.
Result<Positions> positionsIn(std::string_view record);

/// TN0105 where an engine has fewer positions for a sequence.
Status checkTokens(const Positions &positions, int64_t tokens);

/// Allocates nothing of what it counts; `asked` are the sequence's positions, 0 for all of the
/// engine. TN0615 for an engine without a language model's inputs.
Result<Fit> fitOf(const runtime::MemoryForecast &forecast, const Positions &positions,
                  int64_t asked, uint64_t available);

/// A smaller model, which guesses tokens: it has as many pages, or sequences, as the one it is for.
struct DraftForecast {
  const runtime::MemoryForecast &forecast;
  Positions positions;
  uint64_t fileBytes = 0, tokenizerBytes = 0; ///< as of ServiceRequest
};

struct ServiceRequest {
  int64_t users = 1;
  int64_t tokens = 0; ///< of each, within the engine's; 0 for all of them
  /// Where they do not fit: over pages fewer pages, at least those of one user; without, fewer
  /// users.
  bool mayShrink = false;
  uint64_t fileBytes = 0;      ///< of the engine, where it runs on a CPU; 0 on a GPU
  uint64_t tokenizerBytes = 0; ///< of the record "tokenizer", where it runs on a CPU; 0 on a GPU
  uint64_t available = 0;
  const DraftForecast *draft = nullptr; ///< null: none
};
Result<ServiceFit> serviceFitOf(const runtime::MemoryForecast &forecast, const Positions &positions,
                                const ServiceRequest &request);

/// ", draft model 9.3 MiB", where there is one.
std::string draftText(const ServiceFit &fit);
/// TN0606 with what is needed, what is there and what would fit; ok where it fits.
Status checkFit(const Fit &fit);
Status checkFit(const ServiceFit &fit);

} // namespace tenon::generate
