// Of a model every gap in one report, and what runs but not fast; of an engine whether each byte is
// what was written and which of its variants this machine runs, without loading any of its code.

#pragma once

#include "support/Result.h"
#include "support/json/Json.h"
#include "tools/tenon/compile/Board.h"
#include "tools/tenon/generate/Fitting.h"
#include "tools/tenon/target/KernelLibraries.h"

#include <nlohmann/json.hpp>

#include <string>
#include <vector>

namespace tenon::tool {

struct CheckRequest {
  std::string path; ///< of a model or an engine
  std::vector<std::string> targets = {"cpu"};
  std::vector<std::string> shapes; ///< of a model's inputs, as for compile
  KernelFlags ownKernels;
  BoardRequest board;  ///< of --target c
  UsersRequest users;  ///< of a language model, which is compiled for them
  bool strict = false; ///< fewer sizes than the model or `shapes` declare are an error
};

struct CheckReport {
  Json json;        ///< tenon.check/1 without its schema
  std::string text; ///< the same for people
  Status verdict;   ///< TN0301 where the model has gaps; TN0305 as CheckRequest::strict says;
                    ///< TN0606 where the users' memory is not there; TN0851 where a board's is not
};

/// An error where the file cannot be read, or where an engine is damaged.
Result<CheckReport> checkFile(const CheckRequest &request);

} // namespace tenon::tool
