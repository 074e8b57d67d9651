// Keys and values grow with the positions alone; what else a session holds is asked for at each
// number of positions.
#include "generate/session/Fit.h"

#include "support/json/Json.h"
#include "support/text/ByteCount.h"
#include "support/text/Text.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <vector>

namespace tenon::generate {
namespace {

/// Engines are compiled for whole steps, so that a little more or less free memory asks for the
/// same engine.
constexpr int64_t kStep = 64;
/// Of an engine without pages, of one with pages, and which of those have the sequences' lengths,
/// their pages, and the rows whose logits are asked for.
constexpr size_t kInputs = 4, kPagedInputs = 7, kDrawingInputs = 10, kLengths = 4, kTable = 5,
                 kRows = 6;

/// Numbers of a row that a draw depends on, of each type.
constexpr int64_t kDrawParameters = 3;

/// Of a process that serves a model: measured. An instruction is in the plan and in the shapes of
/// steps that a session remembers; a tokenizer is tables, for each byte of its record.
constexpr uint64_t kWorkerBytes = uint64_t(8) << 19, kInstructionBytes = 8 << 10,
                   kTokenizerShare = 12;
/// Tokens of a step of a service, at most.
constexpr int64_t kStepTokens = 512;

int64_t pagesFor(const Positions &positions, int64_t count) {
  return (count + positions.page - 1) / positions.page;
}

/// What sessions hold beside the weights and their state.
uint64_t runBytes(const runtime::MemoryUse &use) {
  return use.arenaBytes + use.scratchBytes + use.workspaceBytes + use.portBytes;
}

/// Of a session of so many pages, and a step of so many sequences.
Result<runtime::MemoryUse> useOfPages(const runtime::MemoryForecast &forecast, int64_t tokens,
                                      int64_t sequences, int64_t pages) {
  const runtime::SymbolValue value = {"pages", pages};
  std::vector<int64_t> dims = {
      tokens,   tokens, tokens, sequences + 1, sequences, sequences, forecast.mostOf(kTable, 1),
      sequences};
  if (forecast.inputs() == kDrawingInputs) {
    dims.insert(dims.end(), {sequences, kDrawParameters, sequences, kDrawParameters, sequences});
  }
  return forecast.of(dims, {&value, 1});
}

class Search {
public:
  Search(const runtime::MemoryForecast &theForecast, const Positions &thePositions, Fit &theFit)
      : forecast(theForecast), positions(thePositions), fit(theFit) {}

  Status run() {
    TENON_ASSIGN(runtime::MemoryUse use, useOf(fit.positions));
    int64_t held = isPaged() ? pagesFor(positions, fit.positions) * fit.page : fit.compiled;
    fit.weights = use.weightBytes;
    fit.position = use.stateBytes / static_cast<uint64_t>(std::max<int64_t>(held, 1));
    TENON_ASSIGN(fit.session, sessionOf(fit.positions));
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
  bool isPaged() const { return positions.pages > 0; }

  /// Of the run of a prompt's last tokens.
  Result<runtime::MemoryUse> useOf(int64_t count) const {
    int64_t tokens = std::min(forecast.mostOf(0, 0), count);
    return isPaged() ? useOfPages(forecast, tokens, 1, pagesFor(positions, count))
                     : forecast.of({tokens, 1, 1, count});
  }

  Result<uint64_t> sessionOf(int64_t count) const {
    TENON_ASSIGN(runtime::MemoryUse use, useOf(count));
    bool isKnown = isPaged() || count == fit.compiled;
    uint64_t state = isKnown ? use.stateBytes : fit.position * static_cast<uint64_t>(count);
    return state + runBytes(use);
  }

  Result<bool> fitsAt(int64_t count) const {
    if (isPaged() && pagesFor(positions, count) > positions.pages) {
      return false;
    }
    TENON_ASSIGN(uint64_t session, sessionOf(count));
    // An engine for so many positions has tables of so many.
    uint64_t tables = positions.tableBytes * fit.compiled, own = positions.tableBytes * count;
    uint64_t others = fit.weights - std::min(fit.weights, tables);
    own = positions.keepsTables ? std::max(own, tables) : own;
    return others + own + session <= fit.available;
  }

  const runtime::MemoryForecast &forecast;
  const Positions &positions;
  Fit &fit;
};

Status checkInputs(const runtime::MemoryForecast &forecast, const Positions &positions) {
  size_t inputs = forecast.inputs();
  bool isRight =
      positions.pages > 0 ? inputs == kPagedInputs || inputs == kDrawingInputs : inputs == kInputs;
  return isRight ? Status::ok()
                 : Status::error(ErrorId::NotALanguageModel,
                                 "the engine's inputs are not those of a language model",
                                 "compile the model's file again");
}

/// What a worker holds of an engine on a CPU beside weights and sessions.
uint64_t engineBytes(const runtime::MemoryForecast &forecast, uint64_t tokenizerBytes) {
  return kInstructionBytes * forecast.instructions() + kTokenizerShare * tokenizerBytes;
}

/// How many users of so many bytes fit beside others.
int64_t usersIn(uint64_t available, uint64_t others, uint64_t ofUser) {
  uint64_t room = available - std::min(available, others);
  return static_cast<int64_t>(std::min<uint64_t>(room / std::max<uint64_t>(ofUser, 1), INT64_MAX));
}

/// Parts of what users take that grow with them, and what does not.
struct Growth {
  uint64_t fixed = 0, ofUser = 0, ofPage = 0;
};

/// Each user has a session.
Result<Growth> countSequences(const runtime::MemoryForecast &forecast, const Positions &positions,
                              ServiceFit &fit) {
  uint64_t users = static_cast<uint64_t>(fit.users);
  TENON_ASSIGN(Fit each, fitOf(forecast, positions, 0, fit.available));
  fit.weights = std::max(fit.weights, each.weights);
  fit.cache = users * each.position * static_cast<uint64_t>(each.compiled);
  fit.runs = users * each.session - fit.cache;
  return Growth{fit.weights + fit.worker, each.session, 0};
}

/// All users are in one session, of at most so many pages.
Result<Growth> countPages(const runtime::MemoryForecast &forecast, const Positions &positions,
                          int64_t most, ServiceFit &fit) {
  int64_t each = pagesFor(positions, fit.tokens);
  fit.pages = std::min(most, each * fit.users);
  int64_t tokens = std::min(kStepTokens, forecast.mostOf(0, 0));
  int64_t sequences =
      std::min({fit.users, tokens, forecast.mostOf(kLengths, 0), forecast.mostOf(kRows, 0)});
  TENON_ASSIGN(runtime::MemoryUse use, useOfPages(forecast, tokens, sequences, fit.pages));
  uint64_t logits = sizeof(float) * static_cast<uint64_t>(sequences * positions.vocabulary);
  fit.weights = std::max(fit.weights, use.weightBytes);
  fit.runs = runBytes(use) + logits;
  fit.cache = use.stateBytes;
  uint64_t ofPage = fit.cache / static_cast<uint64_t>(fit.pages);
  return Growth{fit.weights + fit.runs + fit.worker, ofPage * static_cast<uint64_t>(each), ofPage};
}

Result<Growth> count(const runtime::MemoryForecast &forecast, const Positions &positions,
                     int64_t mostPages, ServiceFit &fit) {
  return positions.pages > 0
             ? countPages(forecast, positions, std::min(mostPages, positions.pages), fit)
             : countSequences(forecast, positions, fit);
}

/// All that users take, with the model that guesses for them.
Result<Growth> countAll(const runtime::MemoryForecast &forecast, const Positions &positions,
                        const DraftForecast *draft, int64_t mostPages, ServiceFit &fit) {
  TENON_ASSIGN(Growth growth, count(forecast, positions, mostPages, fit));
  if (draft) {
    ServiceFit own = {
        .weights = draft->fileBytes,
        .worker = draft->fileBytes == 0 ? 0 : engineBytes(draft->forecast, draft->tokenizerBytes),
        .available = fit.available,
        .users = fit.users,
        .tokens = fit.tokens};
    TENON_ASSIGN(Growth more,
                 count(draft->forecast, draft->positions, std::max<int64_t>(fit.pages, 1), own));
    fit.draft = own.needed();
    growth = {growth.fixed + more.fixed, growth.ofUser + more.ofUser, growth.ofPage + more.ofPage};
  }
  fit.maxUsers = usersIn(fit.available, growth.fixed, growth.ofUser);
  return growth;
}

} // namespace

Result<Positions> positionsIn(std::string_view record) {
  Json facts = parseJson(record);
  if (!facts.is_object()) {
    return Status::error(ErrorId::NotALanguageModel, "the engine holds no language model",
                         "compile a GGUF file: tenon compile model.gguf -o model.tenon");
  }
  return Positions{.compiled = facts.value("positions", int64_t{0}),
                   .trained = facts.value("context", int64_t{0}),
                   .page = facts.value("page", int64_t{0}),
                   .pages = facts.value("pages", int64_t{0}),
                   .vocabulary = facts.value("vocabulary", int64_t{0}),
                   .tableBytes = facts.value("table_bytes", uint64_t{0})};
}

Status checkTokens(const Positions &positions, int64_t tokens) {
  return tokens <= positions.compiled
             ? Status::ok()
             : Status::error(ErrorId::BadArgument,
                             strCat("--tokens ", tokens, ": the engine has ", positions.compiled,
                                    " positions for a text"),
                             "ask for fewer, or compile the model with --shape context:[1..N]");
}

Result<Fit> fitOf(const runtime::MemoryForecast &forecast, const Positions &positions,
                  int64_t asked, uint64_t available) {
  TENON_TRY(checkInputs(forecast, positions));
  Fit fit;
  fit.compiled = positions.compiled;
  if (positions.pages > 0) {
    fit.compiled = std::min(fit.compiled, positions.page * positions.pages);
  }
  // Without pages, a session has all positions of the engine.
  bool isAsked = asked > 0 && positions.pages > 0;
  fit.positions = isAsked ? std::min(asked, fit.compiled) : fit.compiled;
  fit.trained = std::max(positions.trained, fit.compiled);
  fit.available = available;
  fit.page = positions.page;
  TENON_TRY(Search(forecast, positions, fit).run());
  return fit;
}

Result<ServiceFit> serviceFitOf(const runtime::MemoryForecast &forecast, const Positions &positions,
                                const ServiceRequest &request) {
  TENON_TRY(checkInputs(forecast, positions));
  bool isPaged = positions.pages > 0;
  ServiceFit fit;
  fit.available = request.available;
  fit.weights = request.fileBytes;
  fit.worker =
      request.fileBytes == 0 ? 0 : kWorkerBytes + engineBytes(forecast, request.tokenizerBytes);
  fit.users = request.users;
  fit.tokens = request.tokens == 0 ? positions.compiled : request.tokens;
  fit.page = positions.page;
  if (request.draft) {
    TENON_TRY(checkInputs(request.draft->forecast, request.draft->positions));
  }
  auto countUpTo = [&](int64_t pages) {
    return countAll(forecast, positions, request.draft, pages, fit);
  };
  TENON_ASSIGN(Growth growth, countUpTo(positions.pages));
  if (fit.fits() || !request.mayShrink || fit.maxUsers == 0) {
    return fit;
  }
  if (isPaged) {
    uint64_t room = fit.available - growth.fixed;
    TENON_TRY(countUpTo(static_cast<int64_t>(room / growth.ofPage)).status());
  } else {
    fit.users = fit.maxUsers;
    TENON_TRY(countUpTo(0).status());
  }
  return fit;
}

std::string draftText(const ServiceFit &fit) {
  return fit.draft == 0 ? std::string() : strCat(", draft model ", formatBytes(fit.draft));
}

Status checkFit(const Fit &fit) {
  if (fit.fits()) {
    return Status::ok();
  }
  return Status::error(
      ErrorId::RunOutOfMemory,
      strCat(fit.positions, " positions need ", fit.weights + fit.session, " bytes (", fit.weights,
             " of weights, ", fit.position, " for each position), and ", fit.available,
             " bytes are free"),
      fit.longest == 0 ? std::string("free memory, or use a model with smaller weights")
      : fit.page > 0   ? strCat("at most ", fit.longest, " positions fit: --context ", fit.longest)
                       : strCat("at most ", fit.longest, " positions fit: --context ", fit.longest,
                                ", or tenon compile with --shape context:[1..", fit.longest, "]"));
}

Status checkFit(const ServiceFit &fit) {
  if (fit.fits()) {
    return Status::ok();
  }
  return Status::error(
      ErrorId::RunOutOfMemory,
      strCat(fit.users, " users of ", fit.tokens, " tokens need ", formatBytes(fit.needed()),
             " (weights ", formatBytes(fit.weights), ", runs ", formatBytes(fit.runs), ", worker ",
             formatBytes(fit.worker), ", keys and values ", formatBytes(fit.cache), draftText(fit),
             "), and ", formatBytes(fit.available), " are free"),
      fit.maxUsers == 0
          ? std::string("free memory, ask for fewer tokens, or use a model with smaller weights")
          : strCat("at most ", fit.maxUsers, " users of ", fit.tokens, " tokens fit"));
}

} // namespace tenon::generate
