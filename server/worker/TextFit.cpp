// Relies on the record "language" for the engine's positions, and on its plan for what runs take.
#include "server/worker/TextFit.h"

#include "runtime/capi/Opened.h"

namespace tenon::server {

Result<generate::ServiceFit> fitTexts(const tenon_engine &opened, uint64_t fileBytes,
                                      unsigned threads, const TextRoom &room, int64_t running) {
  const runtime::Engine &engine = capi::engineOf(opened);
  TENON_ASSIGN(std::string_view record, engine.file().record("language"));
  TENON_ASSIGN(generate::Positions positions, generate::positionsIn(record));
  TENON_TRY(generate::checkTokens(positions, static_cast<int64_t>(room.tokens)));
  Result<std::string_view> tokenizer = engine.file().record("tokenizer");
  size_t variant = static_cast<size_t>(&engine.variant() - engine.file().variants().data());
  runtime::MemoryForecast forecast(engine.file(), variant, threads);
  generate::ServiceRequest request = {.users = room.users > 0 ? static_cast<int64_t>(room.users)
                                                              : running,
                                      .tokens = static_cast<int64_t>(room.tokens),
                                      .mayShrink = room.users == 0 && room.tokens == 0,
                                      .fileBytes = engine.gpu() ? 0 : fileBytes,
                                      .tokenizerBytes = tokenizer ? tokenizer->size() : 0,
                                      .available = room.memory > 0 ? room.memory : UINT64_MAX};
  TENON_ASSIGN(generate::ServiceFit fit, generate::serviceFitOf(forecast, positions, request));
  TENON_TRY(generate::checkFit(fit));
  return fit;
}

} // namespace tenon::server
