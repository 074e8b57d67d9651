// Relies on the ports that compiler/frontend/language gives an engine with pages.
#include "generate/session/StepSession.h"

#include "generate/session/PadStep.h"
#include "generate/session/StepRun.h"
#include "support/text/Text.h"

#include <algorithm>
#include <numeric>
#include <vector>

namespace tenon::generate {
namespace {

Status bad(std::string_view what, std::string_view remedy) {
  return Status::error(ErrorId::BadArgument, std::string(what), std::string(remedy));
}

/// Whether every number is at least `low` and below `end`.
bool areWithin(std::span<const int64_t> numbers, int64_t low, int64_t end) {
  return std::ranges::all_of(numbers,
                             [&](int64_t number) { return number >= low && number < end; });
}

} // namespace

Result<StepSession> StepSession::create(const LanguageModel &model, unsigned threads,
                                        int64_t pages) {
  if (!model.pages()) {
    return Status::error(ErrorId::NotALanguageModel, "the engine has no pages",
                         "compile the model's file with --pages");
  }
  StepSession made;
  made.model = &model;
  made.pageFacts = *model.pages();
  made.pageFacts.pages = pages == 0 ? made.pageFacts.table : pages;
  TENON_ASSIGN(made.session, model.makeSession(threads, made.pageFacts.pages));
  return made;
}

Status StepSession::check(const StepBatch &batch, size_t logits, size_t drawn) const {
  const PageFacts &most = facts();
  size_t tokens = batch.tokens.size(), sequences = batch.lengths.size(), rows = batch.rows.size();
  size_t fetched = batch.fetched.empty() ? rows : batch.fetched.size();
  bool fits = tokens >= 1 && tokens <= static_cast<size_t>(most.tokens) && sequences >= 1 &&
              sequences <= static_cast<size_t>(most.sequences) && rows >= 1 &&
              rows <= static_cast<size_t>(most.rows);
  if (!fits) {
    return bad(strCat("a step of ", tokens, " tokens, ", sequences, " sequences and ", rows,
                      " rows is none of this engine"),
               strCat("it takes 1 to ", most.tokens, " tokens, ", most.sequences, " sequences and ",
                      most.rows, " rows"));
  }
  bool areSizes =
      batch.positions.size() == tokens && batch.slots.size() == tokens &&
      batch.starts.size() == sequences + 1 &&
      batch.pages.size() == sequences * static_cast<size_t>(most.table) &&
      (logits == fetched * static_cast<size_t>(most.vocabulary) || (logits == 0 && draws())) &&
      (batch.fetched.empty() || (model->hasDrawPorts() && fetched <= rows)) &&
      (batch.draws.empty() || batch.draws.size() == rows) &&
      (drawn == 0 || (draws() && drawn == batch.draws.size()));
  if (!areSizes) {
    return bad("the vectors of a step have sizes that do not fit each other",
               "generate/session/StepSession.h has the size of each");
  }
  bool areNumbers =
      areWithin(batch.tokens, 0, most.vocabulary) &&
      areWithin(batch.positions, 0, most.table * most.page) &&
      areWithin(batch.slots, -1, most.pages * most.page) && areWithin(batch.pages, 0, most.pages) &&
      areWithin(batch.rows, 0, static_cast<int64_t>(tokens)) &&
      areWithin(batch.fetched, 0, static_cast<int64_t>(rows)) && batch.starts.front() == 0 &&
      batch.starts.back() <= static_cast<int64_t>(tokens);
  for (size_t s = 0; areNumbers && s < sequences; ++s) {
    int64_t own = batch.starts[s + 1] - batch.starts[s];
    areNumbers = own >= 1 && own <= batch.lengths[s] && batch.lengths[s] <= most.table * most.page;
  }
  return areNumbers ? Status::ok()
                    : bad("a number of a step is beyond what the engine has",
                          "generate/session/StepSession.h has the range of each");
}

Status StepSession::runChecked(const StepBatch &batch, std::span<float> logits,
                               std::span<Draw> drawn) {
  return runStep(*model, session.get(),
                 {.tokens = batch.tokens,
                  .positions = batch.positions,
                  .slots = batch.slots,
                  .starts = batch.starts,
                  .lengths = batch.lengths,
                  .pages = batch.pages,
                  .rows = batch.rows,
                  .draws = batch.draws,
                  .fetched = batch.fetched},
                 logits, drawn);
}

Status StepSession::run(const StepBatch &batch, std::span<float> logits, std::span<Draw> drawn) {
  TENON_TRY(check(batch, logits.size(), drawn.size()));
  if (tenon_engine_gpu(model->engine()) < 0) {
    return runChecked(batch, logits, drawn);
  }
  return runPadded(batch, logits, drawn);
}

Status StepSession::runPadded(const StepBatch &batch, std::span<float> logits,
                              std::span<Draw> drawn) {
  StepBatch padded = padStep(batch, facts(), draws());
  std::vector<Draw> all(drawn.empty() ? 0 : padded.rows.size());
  size_t wanted = logits.size() / static_cast<size_t>(facts().vocabulary);
  std::vector<float> wide;
  if (draws() && wanted > 0) {
    if (padded.fetched.empty()) {
      padded.fetched.resize(wanted);
      std::iota(padded.fetched.begin(), padded.fetched.end(), 0);
    }
    padded.fetched.resize(stepSize(static_cast<int64_t>(wanted), facts().rows));
    wide.resize(padded.fetched.size() == wanted ? 0 : padded.fetched.size() * facts().vocabulary);
  }
  TENON_TRY(runChecked(padded, wide.empty() ? logits : std::span(wide), all));
  std::copy_n(wide.begin(), wide.empty() ? 0 : logits.size(), logits.begin());
  std::copy_n(all.begin(), drawn.size(), drawn.begin());
  return Status::ok();
}

std::vector<StepSize> StepSession::sizes(int64_t tokens, int64_t sequences) const {
  return draws() ? stepSizes({tokens, sequences}, facts()) : std::vector<StepSize>();
}

Status StepSession::rehearse(const StepSize &size) {
  constexpr int kRuns = 2; // a GPU's graph is made by the second
  StepBatch step = emptyStep(size, facts());
  std::vector<Draw> drawn(step.rows.size());
  for (int i = 0; i < kRuns; ++i) {
    TENON_TRY(run(step, {}, drawn));
  }
  return Status::ok();
}

Result<uint64_t> StepSession::memory() const {
  tenon_memory_use use = {};
  use.struct_size = sizeof(use);
  TENON_TRY(capi::takeStatus(tenon_session_memory(session.get(), &use)));
  return use.arena + use.state + use.scratch + use.workspace + use.ports;
}

} // namespace tenon::generate
