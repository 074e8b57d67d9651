// Implements guesses token by token, those of all answers in one run. The last token of a guess is
// in no page of this model when it turns out to be right: the next step begins with it.
#include "generate/service/DraftModel.h"

#include "support/text/Text.h"

#include <algorithm>
#include <limits>

namespace tenon::generate {

StepBatch batchOf(std::span<const Work> works, const PageFacts &pages) {
  StepBatch batch;
  batch.starts.push_back(0);
  for (const Work &work : works) {
    int64_t known = static_cast<int64_t>(work.tokens.size());
    for (int64_t position = work.start; position < work.end; ++position) {
      batch.tokens.push_back(position < known ? work.tokens[position]
                                              : work.draft[position - known]);
      batch.positions.push_back(position);
      batch.slots.push_back(work.pages[position / pages.page] * pages.page + position % pages.page);
    }
    batch.starts.push_back(static_cast<int64_t>(batch.tokens.size()));
    batch.lengths.push_back(work.end);
    batch.pages.insert(batch.pages.end(), work.pages.begin(), work.pages.end());
    batch.pages.resize(batch.lengths.size() * pages.table);
    for (int64_t row = work.rows; row > 0; --row) {
      batch.rows.push_back(static_cast<int64_t>(batch.tokens.size()) - row);
    }
  }
  if (batch.rows.empty()) {
    batch.rows.push_back(0);
  }
  return batch;
}

Result<std::unique_ptr<DraftModel>> DraftModel::create(std::unique_ptr<StepEngine> engine,
                                                       const PageFacts &target, int64_t requests) {
  const PageFacts &own = engine->facts();
  auto refuse = [](std::string_view what, int64_t has, int64_t needs) {
    return Status::error(ErrorId::BadArgument,
                         strCat("the draft model has ", has, ' ', what, ", and the model ", needs),
                         "compile both with the same --pages and --shape");
  };
  if ((own.table == 1) != (target.table == 1) || (own.table > 1 && own.page != target.page)) {
    return refuse("positions in a page", own.page, target.page);
  }
  if (own.pages < target.pages) {
    return refuse("pages", own.pages, target.pages);
  }
  if (own.page * own.table < target.page * target.table) {
    return refuse("positions", own.page * own.table, target.page * target.table);
  }
  // A step may begin one token earlier for each of its requests.
  requests = std::min({requests, target.sequences, target.rows, target.tokens});
  if (own.sequences < requests || own.rows < requests) {
    return refuse("sequences in a step", std::min(own.sequences, own.rows), requests);
  }
  if (own.tokens < 2 * requests) {
    return refuse("tokens in a step", own.tokens, 2 * requests);
  }
  return std::unique_ptr<DraftModel>(
      new DraftModel(std::move(engine), target.vocabulary, requests));
}

Status DraftModel::checkTokens(const Tokenizer &draft, const Tokenizer &target) {
  size_t both = std::min(draft.size(), target.size());
  for (size_t i = 0; i < both; ++i) {
    int32_t token = static_cast<int32_t>(i);
    if (draft.bytesOf(token) != target.bytesOf(token)) {
      return Status::error(ErrorId::BadArgument,
                           strCat("token ", i, " of the draft model is not that of the model"),
                           "take a smaller model of the same family");
    }
  }
  return Status::ok();
}

/// Of a row of the draft model: tokens that it does not have are the least probable.
std::span<const float> DraftModel::inTargetsVocabulary(std::span<const float> own) {
  if (static_cast<int64_t>(own.size()) >= tokens) {
    return own.first(tokens);
  }
  row.assign(tokens, std::numeric_limits<float>::lowest());
  std::ranges::copy(own, row.begin());
  return row;
}

Status DraftModel::run(const Step &step, std::span<const int64_t> counts, const Choose &choose) {
  std::vector<Work> works = step.work;
  for (size_t i = 0; i < works.size(); ++i) {
    auto last = guesses.find(works[i].serial);
    works[i].start =
        last == guesses.end() ? works[i].start : std::min(works[i].start, last->second.end);
    works[i].rows = counts[i] > 0 ? 1 : 0;
  }
  guesses.clear();
  int64_t vocabulary = engine->facts().vocabulary;
  std::vector<int64_t> left(counts.begin(), counts.end());
  while (!works.empty()) {
    StepBatch batch = batchOf(works, engine->facts());
    logits.resize(batch.rows.size() * vocabulary);
    TENON_TRY(engine->run(batch, logits, {}));
    std::span<const float> rest = logits;
    std::vector<Work> next;
    std::vector<int64_t> nextLeft;
    for (size_t i = 0; i < works.size(); ++i) {
      Work &work = works[i];
      if (work.rows == 0) {
        continue;
      }
      TENON_ASSIGN(int32_t token,
                   choose(work, inTargetsVocabulary(rest.first(vocabulary)), work.end));
      work.draft.push_back(token);
      rest = rest.subspan(vocabulary);
      if (left[i] == 1) {
        guesses[work.serial] = {std::move(work.draft), work.end};
        continue;
      }
      work.start = work.end++;
      next.push_back(std::move(work));
      nextLeft.push_back(left[i] - 1);
    }
    works = std::move(next);
    left = std::move(nextLeft);
  }
  return Status::ok();
}

std::span<const int32_t> DraftModel::guess(const Work &work, int64_t count) const {
  auto found = guesses.find(work.serial);
  if (found == guesses.end()) {
    return {};
  }
  return std::span(found->second.tokens)
      .first(std::min<size_t>(found->second.tokens.size(), count));
}

} // namespace tenon::generate
