// How many texts a language model continues at once, and how many pages it has for them: known
// before any of that memory is taken.
#pragma once

#include "generate/session/Fit.h"
#include "server/ipc/ModelInfo.h"
#include "support/Result.h"
#include "tenon/tenon.h"

namespace tenon::server {

/// An engine and the bytes of its file.
struct OpenedFile {
  const tenon_engine *engine = nullptr;
  uint64_t bytes = 0;
};

/// What is asked for of an engine, or TN0606 if it does not fit; where
/// nobody asked, `running` texts of all the engine's positions, or what fits of them. TN0105 for
/// texts that the engine cannot have.
/// `draft`, which may be null, is counted too.
Result<generate::ServiceFit> fitTexts(const OpenedFile &engine, const OpenedFile *draft,
                                      unsigned threads, const TextRoom &room, int64_t running);

} // namespace tenon::server
