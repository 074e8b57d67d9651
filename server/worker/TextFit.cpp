// Relies on the record "language" for the engine's positions, and on its plan for what runs take.
#include "server/worker/TextFit.h"

#include "runtime/capi/Opened.h"

#include <optional>
#include <utility>

namespace tenon::server {

namespace {

/// What a language model's engine says of itself.
struct Opened {
  runtime::MemoryForecast forecast;
  generate::Positions positions;
  uint64_t fileBytes = 0, tokenizerBytes = 0; ///< 0 on a GPU
};

Result<Opened> read(const OpenedFile &file, unsigned threads) {
  const runtime::Engine &engine = capi::engineOf(*file.engine);
  TENON_ASSIGN(std::string_view record, engine.file().record("language"));
  TENON_ASSIGN(generate::Positions positions, generate::positionsIn(record));
  Result<std::string_view> tokenizer = engine.file().record("tokenizer");
  size_t variant = static_cast<size_t>(&engine.variant() - engine.file().variants().data());
  return Opened{runtime::MemoryForecast(engine.file(), variant, threads), positions,
                engine.gpu() ? 0 : file.bytes, tokenizer ? tokenizer->size() : 0};
}

} // namespace

Result<generate::ServiceFit> fitTexts(const OpenedFile &engine, const OpenedFile *draft,
                                      unsigned threads, const TextRoom &room, int64_t running) {
  TENON_ASSIGN(Opened opened, read(engine, threads));
  TENON_TRY(generate::checkTokens(opened.positions, static_cast<int64_t>(room.tokens)));
  std::optional<Opened> guessing;
  std::optional<generate::DraftForecast> guesses;
  if (draft) {
    TENON_ASSIGN(Opened found, read(*draft, threads));
    guessing.emplace(std::move(found));
    guesses.emplace(guessing->forecast, guessing->positions, guessing->fileBytes,
                    guessing->fileBytes == 0 ? 0 : guessing->tokenizerBytes);
  }
  generate::ServiceRequest request = {.users = room.users > 0 ? static_cast<int64_t>(room.users)
                                                              : running,
                                      .tokens = static_cast<int64_t>(room.tokens),
                                      .mayShrink = room.users == 0 && room.tokens == 0,
                                      .fileBytes = opened.fileBytes,
                                      .tokenizerBytes = opened.tokenizerBytes,
                                      .available = room.memory > 0 ? room.memory : UINT64_MAX,
                                      .draft = guesses ? &*guesses : nullptr};
  TENON_ASSIGN(generate::ServiceFit fit,
               generate::serviceFitOf(opened.forecast, opened.positions, request));
  TENON_TRY(generate::checkFit(fit));
  return fit;
}

} // namespace tenon::server
