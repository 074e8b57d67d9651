// What the compiler recorded of an engine's graph: which dims of its inputs and outputs are one
// symbol (ports tell only the range of each dim), in which types it computes, where the rows of a
// batch meet, and which padded places reach an output.

#pragma once

#include "server/ipc/ModelInfo.h"
#include "tenon/tenon.h"

#include <map>
#include <optional>
#include <set>
#include <string>

namespace tenon::server {

struct RecordedSymbol {
  int64_t min = 1;
  int64_t max = 1;
  int64_t typical = 1;
};

/// What is recorded of a dim that may be padded.
struct RecordedPadding {
  std::string reach;          ///< how padded places reach an output; empty where they do not
  std::vector<PadRule> masks; ///< with what inputs must be padded for that
};

struct EngineRecord {
  std::map<std::string, RecordedSymbol> symbols; ///< by name
  std::set<DType> dtypes;                        ///< of what operations give
  /// By output, why its rows are not independent; empty where they are. None of an engine of a
  /// release that did not record it.
  std::optional<std::map<std::string, std::string>> meetings;
  std::map<std::string, RecordedPadding> padding; ///< by the symbol of the dim
  std::map<std::string, double> limits;           ///< the largest index that an input may hold
};

/// Fills ModelPort::dims from the engine's record "graph", and gives the rest of it. Where the
/// engine has no such record, or one that does not fit its ports, dims stay empty, and there are no
/// symbols and types.
EngineRecord readRecord(const tenon_engine *engine, ModelPorts &ports);

/// How far a floating output may differ between two orders of sums, as a share of its largest
/// value: by its type, and by the coarsest that the engine computes in, since an output is no more
/// exact than what it was computed from. 0 for other types.
double usualTolerance(DType output, const EngineRecord &record);

} // namespace tenon::server
