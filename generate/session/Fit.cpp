// Keys and values grow with the positions alone; what else a session holds is asked for at each
// number of positions.
#include "generate/session/Fit.h"

#include "support/text/Text.h"

#include <algorithm>

namespace tenon::generate {
namespace {

/// Engines are compiled for whole steps, so that a little more or less free memory asks for the
/// same engine.
constexpr int64_t kStep = 64;
/// Of an engine without pages, of one with pages, and which of those is the table of pages.
constexpr size_t kInputs = 4, kPagedInputs = 7, kTable = 5;

class Search {
public:
  Search(const runtime::MemoryForecast &theForecast, const Positions &thePositions, Fit &theFit)
      : forecast(theForecast), tableBytes(thePositions.tableBytes),
        held(thePositions.pages > 0 ? thePositions.page * thePositions.pages : theFit.positions),
        isPaged(thePositions.pages > 0), fit(theFit) {}

  Status run() {
    TENON_ASSIGN(runtime::MemoryUse use, useOf(fit.positions));
    fit.weights = use.weightBytes;
    fit.position = use.stateBytes / static_cast<uint64_t>(std::max<int64_t>(held, 1));
    TENON_ASSIGN(fit.session, sessionOf(fit.positions));
    if (isPaged) {
      uint64_t others = fit.weights + fit.session - use.stateBytes,
               each = fit.position * static_cast<uint64_t>(fit.page);
      fit.maxPages = static_cast<int64_t>((fit.available - std::min(fit.available, others)) / each);
    }
    // The whole is the usual answer.
    TENON_ASSIGN(bool all, fitsAt(fit.trained));
    if (all) {
      fit.longest = fit.trained;
      return Status::ok();
    }
    int64_t fitting = 0, tooMany = fit.trained;
    while (tooMany - fitting > 1) {
      int64_t middle = fitting + (tooMany - fitting) / 2;
      TENON_ASSIGN(bool isMiddle, fitsAt(middle));
      (isMiddle ? fitting : tooMany) = middle;
    }
    fit.longest = fitting > kStep ? fitting / kStep * kStep : fitting;
    return Status::ok();
  }

private:
  /// Of the run of a prompt's last tokens.
  Result<runtime::MemoryUse> useOf(int64_t positions) const {
    int64_t tokens = std::min(forecast.mostOf(0, 0), positions);
    return isPaged ? forecast.of({tokens, tokens, tokens, 2, 1, 1, forecast.mostOf(kTable, 1), 1})
                   : forecast.of({tokens, 1, 1, positions});
  }

  Result<uint64_t> sessionOf(int64_t positions) const {
    TENON_ASSIGN(runtime::MemoryUse use, useOf(positions));
    uint64_t state = positions == fit.positions ? use.stateBytes
                                                : fit.position * static_cast<uint64_t>(positions);
    return state + use.arenaBytes + use.scratchBytes + use.workspaceBytes + use.portBytes;
  }

  Result<bool> fitsAt(int64_t positions) const {
    TENON_ASSIGN(uint64_t session, sessionOf(positions));
    // An engine for so many positions has tables of so many.
    uint64_t others = fit.weights - std::min(fit.weights, tableBytes * fit.positions);
    return others + tableBytes * positions + session <= fit.available;
  }

  const runtime::MemoryForecast &forecast;
  uint64_t tableBytes;
  int64_t held; ///< positions of a session's state
  bool isPaged;
  Fit &fit;
};

} // namespace

Result<Fit> fitOf(const runtime::MemoryForecast &forecast, const Positions &positions,
                  uint64_t available) {
  if (forecast.inputs() != (positions.pages > 0 ? kPagedInputs : kInputs)) {
    return Status::error(ErrorId::NotALanguageModel,
                         "the engine's inputs are not those of a language model",
                         "compile the model's file again");
  }
  Fit fit;
  fit.positions = positions.compiled;
  fit.trained = std::max(positions.trained, positions.compiled);
  fit.available = available;
  fit.page = positions.page;
  fit.pages = positions.pages;
  TENON_TRY(Search(forecast, positions, fit).run());
  return fit;
}

Status checkFit(const Fit &fit) {
  if (fit.fits()) {
    return Status::ok();
  }
  if (fit.pages > 0) {
    return Status::error(
        ErrorId::RunOutOfMemory,
        strCat(fit.pages, " pages of ", fit.page, " positions need ", fit.weights + fit.session,
               " bytes (", fit.weights, " of weights, ", fit.position, " for each position), and ",
               fit.available, " bytes are free"),
        fit.maxPages == 0 ? std::string("free memory, or use a model with smaller weights")
                          : strCat("at most ", fit.maxPages,
                                   " pages fit: compile the model with --pages ", fit.maxPages));
  }
  return Status::error(
      ErrorId::RunOutOfMemory,
      strCat(fit.positions, " positions need ", fit.weights + fit.session, " bytes (", fit.weights,
             " of weights, ", fit.position, " for each position), and ", fit.available,
             " bytes are free"),
      fit.longest == 0 ? std::string("free memory, or use a model with smaller weights")
                       : strCat("at most ", fit.longest, " positions fit: --context ", fit.longest,
                                ", or tenon compile with --shape context:[1..", fit.longest, "]"));
}

} // namespace tenon::generate
