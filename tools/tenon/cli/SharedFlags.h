// The flags that several verbs share: what a model is compiled to, how it is run, and on what.

#pragma once

#include "tools/tenon/engines/EngineSource.h"
#include "tools/tenon/generate/Fitting.h"
#include "tools/tenon/inputs/Inputs.h"
#include "tools/tenon/target/TargetFlags.h"

#include <string>

namespace CLI {
class App;
} // namespace CLI

namespace tenon::tool {

void declareTargetFlags(CLI::App &command, TargetFlags &flags);
/// How an engine is opened: `--variant avx2`, also called `--isa`, and `--no-verify-weights`.
void declareOpenFlags(CLI::App &command, OpenRequest &request);
void declareThreadsFlag(CLI::App &command, unsigned &threads, const std::string &description);
/// `--budget 5s` (or 2m, or seconds without a unit).
void declareBudgetFlag(CLI::App &command, double &seconds);
/// --users, --tokens, --max-memory: a server's users, whose memory is asked for.
void declareUsersFlags(CLI::App &command, UsersRequest &request);
/// `--strict`: sizes that are fewer than declared are an error.
void declareStrictFlag(CLI::App &command, bool &strict);
/// `--store DIR`.
void declareStoreFlag(CLI::App &command, std::string &store);
/// --shape, --batch, --fill, --seed: what seeded inputs need.
void declareSeededFlags(CLI::App &command, InputFlags &flags);
/// --inputs and the flags of pictures.
void declareSessionFlag(CLI::App &command, InputFlags &flags);
void declareFileFlags(CLI::App &command, InputFlags &flags);

} // namespace tenon::tool
