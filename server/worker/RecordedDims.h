// Which dims of an engine's inputs and outputs are one symbol, as the compiler recorded it: ports tell only the range of each dim.

#pragma once

#include "server/ipc/ModelFacts.h"
#include "tenon/tenon.h"

#include <map>
#include <string>

namespace tenon::server {

struct RecordedSymbol {
  int64_t least = 1;
  int64_t most = 1;
  int64_t typical = 1;
};

/// Fills ModelPort::dims from the engine's record "graph", and gives the symbols by name. Where the engine has no such record, or one
/// that does not fit its ports, dims stay empty and there is no symbol.
std::map<std::string, RecordedSymbol> readRecordedDims(const tenon_engine *engine, ModelPorts &ports);

} // namespace tenon::server
