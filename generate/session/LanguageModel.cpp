// Relies on the ports that compiler/frontend/language gives an engine.
#include "generate/session/LanguageModel.h"

#include "generate/session/StepRun.h"
#include "generate/tokenizer/VocabularyJson.h"
#include "support/text/Text.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <numeric>

namespace tenon::generate {
namespace {

/// Positions of the cache are read in steps of so many: a run of sizes that were seen before plans
/// nothing anew.
constexpr int64_t kContextStep = 64;
/// The same on a GPU, which captures a graph for each size (some 20 ms): 1,500 positions more took
/// an H200 4 % of a token of a model of a billion parameters.
constexpr int64_t kContextStepOfGpu = 512;
/// Logits of more rows at once take more memory than they save time.
constexpr int64_t kMostRows = 32;

Result<Json> recordOf(const tenon_engine *engine, const char *name) {
  const char *text = nullptr;
  size_t bytes = 0;
  Status status = capi::takeStatus(tenon_engine_record(engine, name, &text, &bytes));
  Json value = status.isOk() ? parseJson({text, bytes}) : Json();
  if (!value.is_object()) {
    return Status::error(ErrorId::NotALanguageModel, "the engine holds no language model",
                         "compile a GGUF file: tenon compile model.gguf -o model.tenon");
  }
  return value;
}

} // namespace

Result<std::unique_ptr<LanguageModel>> LanguageModel::open(const std::string &path,
                                                           const tenon_engine_options &options) {
  tenon_engine *engine = nullptr;
  TENON_TRY(capi::takeStatus(tenon_engine_open(path.c_str(), &options, &engine)));
  return of(capi::EngineHandle(engine));
}

Result<std::unique_ptr<LanguageModel>> LanguageModel::of(capi::EngineHandle opened) {
  std::unique_ptr<LanguageModel> model(new LanguageModel());
  model->handle = std::move(opened);
  const tenon_engine *engine = model->engine();
  TENON_ASSIGN(Json facts, recordOf(engine, "language"));
  model->modelFacts = {.family = facts.value("family", ""),
                       .chatTemplate = facts.value("template", ""),
                       .context = facts.value("context", int64_t{0}),
                       .positions = facts.value("positions", int64_t{0}),
                       .vocabulary = facts.value("vocabulary", int64_t{0}),
                       .layers = facts.value("layers", int64_t{0})};
  if (facts.contains("pages")) {
    model->paged = PageFacts{.page = facts.value("page", int64_t{0}),
                             .pages = facts.value("pages", int64_t{0}),
                             .vocabulary = model->modelFacts.vocabulary};
    int64_t most = model->paged->page * model->paged->pages;
    model->modelFacts.positions = std::min(model->modelFacts.positions, most);
  }
  model->modelFacts.compiled = model->modelFacts.positions;
  TENON_ASSIGN(Json tokenizer, recordOf(engine, "tokenizer"));
  TENON_ASSIGN(Vocabulary vocabulary, vocabularyOf(tokenizer));
  TENON_ASSIGN(Tokenizer made, Tokenizer::create(std::move(vocabulary)));
  model->text = std::make_unique<Tokenizer>(std::move(made));
  TENON_TRY(model->readPorts());
  return model;
}

Status LanguageModel::readPorts() {
  static constexpr std::string_view kOne[] = {"tokens", "start", "rows", "context"};
  // The last three where the engine draws.
  static constexpr std::string_view kPaged[] = {"tokens",   "positions", "slots", "starts",
                                                "lengths",  "pages",     "rows",  "numbers",
                                                "integers", "fetched"};
  constexpr size_t kDrawPorts = 3, kDrawn = 2;
  size_t inputs = tenon_engine_input_count(engine()), outputs = tenon_engine_output_count(engine());
  isDrawing = paged && inputs == std::size(kPaged);
  std::span<const std::string_view> names(kPaged);
  names = !paged ? std::span<const std::string_view>(kOne)
                 : names.first(std::size(kPaged) - (isDrawing ? 0 : kDrawPorts));
  bool isRight = inputs == names.size() && outputs == (isDrawing ? 1 + kDrawn : 1);
  for (size_t i = 0; isRight && i < names.size(); ++i) {
    tenon_port_info port = {};
    port.struct_size = sizeof(port);
    TENON_TRY(capi::takeStatus(tenon_engine_input(engine(), i, &port)));
    bool isTable = names[i] == "pages", isReal = names[i] == "numbers";
    bool isWide = isTable || isReal || names[i] == "integers";
    isRight = port.name == names[i] && port.rank == (isWide ? 2 : 1) &&
              port.dtype == (isReal ? TENON_F64 : TENON_I64);
    if (!isRight) {
      break;
    }
    if (i == 0) {
      most = port.max_dims[0];
    }
    if (paged && isTable) {
      paged->sequences = port.max_dims[0];
      paged->table = port.max_dims[1];
    } else if (paged && names[i] == "rows") {
      paged->rows = port.max_dims[0];
    }
  }
  if (paged) {
    paged->tokens = most;
    isRight &= paged->page > 0 && paged->pages > 0 && paged->table > 0;
  }
  return isRight ? Status::ok()
                 : Status::error(ErrorId::NotALanguageModel,
                                 "the engine's inputs are not those of a language model",
                                 "compile the model's file again");
}

bool LanguageModel::draws() const { return isDrawing && tenon_engine_gpu(engine()) >= 0; }

Status ModelFacts::checkRoom(size_t tokens) const {
  return tokens <= static_cast<size_t>(positions)
             ? Status::ok()
             : Status::error(
                   ErrorId::PromptTooLong,
                   strCat(tokens, " tokens do not fit into ",
                          positions < compiled ? "" : "the engine's ", positions, " positions"),
                   positions < compiled
                       ? strCat("shorten the text, or give it up to ", compiled, " positions")
                       : std::string("shorten the text, or compile the model with --shape "
                                     "context:[1..N] for N positions"));
}

Status ModelFacts::checkTokens(std::span<const int32_t> tokens) const {
  for (int32_t token : tokens) {
    if (token < 0 || token >= vocabulary) {
      return Status::error(ErrorId::BadArgument,
                           strCat("token ", token, " is not in the vocabulary"),
                           strCat("tokens are numbers from 0 to ", vocabulary - 1));
    }
  }
  return Status::ok();
}

Result<capi::SessionHandle> LanguageModel::makeSession(unsigned threads, int64_t count) const {
  const tenon_session_value value = {"pages", count};
  tenon_session_options options = {};
  options.struct_size = sizeof(options);
  options.threads = threads;
  options.values = &value;
  options.value_count = pages() ? 1 : 0;
  options.memory_limit = pages() ? UINT64_MAX : 0; // who says how many has counted
  tenon_session *session = nullptr;
  TENON_TRY(capi::takeStatus(tenon_session_create(engine(), &options, &session)));
  return capi::SessionHandle(session);
}

Result<Sequence> Sequence::create(const LanguageModel &model, unsigned threads, int64_t positions) {
  Sequence sequence;
  sequence.model = &model;
  sequence.ownFacts = model.facts();
  int64_t pages = 0;
  if (const PageFacts *paged = model.pages()) {
    int64_t &most = sequence.ownFacts.positions;
    most = positions > 0 ? std::min(positions, most) : most;
    pages = paged->pagesFor(most);
  }
  TENON_ASSIGN(sequence.session, model.makeSession(threads, pages));
  return sequence;
}

void Sequence::cut(size_t count) {
  kept.resize(std::min(kept.size(), count));
  ++changeCount;
}

void Sequence::begin(std::span<const int32_t> tokens, int64_t rows) {
  ids.assign(tokens.begin(), tokens.end());
  rowNumbers.resize(rows);
  std::iota(rowNumbers.begin(), rowNumbers.end(), static_cast<int64_t>(tokens.size()) - rows);
}

void Sequence::keep(std::span<const int32_t> tokens) {
  kept.insert(kept.end(), tokens.begin(), tokens.end());
  ++changeCount;
}

Status Sequence::run(std::span<const int32_t> tokens, int64_t rows) {
  int64_t count = static_cast<int64_t>(tokens.size());
  begin(tokens, rows);
  logits.resize(rows * model->facts().vocabulary);
  TENON_TRY(model->pages() ? runPaged(count, logits, {}, {}) : runOne(count, rows));
  keep(tokens);
  return Status::ok();
}

Status Sequence::runDrawing(std::span<const int32_t> tokens, const DrawParameters &parameters,
                            Draw &draw) {
  begin(tokens, 1);
  TENON_TRY(runPaged(static_cast<int64_t>(tokens.size()), {}, std::span(&parameters, 1),
                     std::span(&draw, 1)));
  keep(tokens);
  return Status::ok();
}

/// The pages in their order: a position is its own slot.
Status Sequence::runPaged(int64_t count, std::span<float> ownLogits,
                          std::span<const DrawParameters> parameters, std::span<Draw> draws) {
  int64_t start = static_cast<int64_t>(kept.size()), end = start + count;
  places.resize(count);
  std::iota(places.begin(), places.end(), start);
  pages.resize(model->pages()->table);
  for (int64_t i = 0; i < model->pages()->table; ++i) {
    pages[i] = std::min(i, model->pages()->pagesFor(ownFacts.positions) - 1);
  }
  const std::array<int64_t, 2> starts = {0, count};
  return runStep(*model, session.get(),
                 {.tokens = ids,
                  .positions = places,
                  .slots = places,
                  .starts = starts,
                  .lengths = std::span(&end, 1),
                  .pages = pages,
                  .rows = rowNumbers,
                  .draws = parameters},
                 ownLogits, draws);
}

Status Sequence::runOne(int64_t count, int64_t rows) {
  int64_t start = static_cast<int64_t>(kept.size()), end = start + count;
  int64_t step = tenon_engine_gpu(model->engine()) < 0 ? kContextStep : kContextStepOfGpu;
  int64_t read = (end + step - 1) / step * step;
  context.resize(std::min(read, model->facts().positions));
  std::iota(context.begin(), context.end(), 0);
  int64_t one = 1, seen = static_cast<int64_t>(context.size());
  const tenon_input inputs[] = {{ids.data(), &count, 1},
                                {&start, &one, 1},
                                {rowNumbers.data(), &rows, 1},
                                {context.data(), &seen, 1}};
  const tenon_output output = {logits.data(), logits.size() * sizeof(float)};
  return capi::takeStatus(tenon_session_run(session.get(), inputs, std::size(inputs), &output, 1));
}

Result<std::span<const float>> Sequence::append(std::span<const int32_t> tokens) {
  TENON_TRY(ownFacts.checkRoom(kept.size() + tokens.size()));
  while (!tokens.empty()) {
    size_t count = std::min(tokens.size(), static_cast<size_t>(model->mostTokens()));
    TENON_TRY(run(tokens.first(count), 1));
    tokens = tokens.subspan(count);
  }
  return row(0);
}

Result<Draw> Sequence::appendAndDraw(std::span<const int32_t> tokens,
                                     const DrawParameters &parameters) {
  TENON_TRY(ownFacts.checkRoom(kept.size() + tokens.size()));
  Draw draw;
  while (!tokens.empty()) {
    size_t count = std::min(tokens.size(), static_cast<size_t>(model->mostTokens()));
    TENON_TRY(runDrawing(tokens.first(count), parameters, draw));
    tokens = tokens.subspan(count);
  }
  return draw;
}

Status Sequence::appendAll(std::span<const int32_t> tokens,
                           const std::function<Status(int64_t, std::span<const float>)> &take) {
  TENON_TRY(ownFacts.checkRoom(kept.size() + tokens.size()));
  while (!tokens.empty()) {
    size_t count =
        std::min(tokens.size(), static_cast<size_t>(std::min(model->mostTokens(), kMostRows)));
    int64_t first = static_cast<int64_t>(kept.size()), rows = static_cast<int64_t>(count);
    TENON_TRY(run(tokens.first(count), rows));
    for (int64_t i = 0; i < rows; ++i) {
      TENON_TRY(take(first + i, row(i)));
    }
    tokens = tokens.subspan(count);
  }
  return Status::ok();
}

Result<uint64_t> Sequence::memory() const {
  tenon_memory_use use = {};
  use.struct_size = sizeof(use);
  TENON_TRY(capi::takeStatus(tenon_session_memory(session.get(), &use)));
  return use.arena + use.state + use.scratch + use.workspace + use.ports;
}

} // namespace tenon::generate
