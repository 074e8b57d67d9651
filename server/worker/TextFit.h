// How many texts a language model continues at once, and how many pages it has for them: known
// before any of that memory is taken.
#pragma once

#include "generate/session/Fit.h"
#include "server/ipc/ModelInfo.h"
#include "support/Result.h"
#include "tenon/tenon.h"

namespace tenon::server {

/// What is asked for of an engine whose file has so many bytes, or TN0606 if it does not fit; where
/// nobody asked, `running` texts of all the engine's positions, or what fits of them. TN0105 for
/// texts that the engine cannot have.
Result<generate::ServiceFit> fitTexts(const tenon_engine &engine, uint64_t fileBytes,
                                      unsigned threads, const TextRoom &room, int64_t running);

} // namespace tenon::server
