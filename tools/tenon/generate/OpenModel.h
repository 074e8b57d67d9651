// A language model that is ready to run, out of an engine or a file that is compiled first.
#pragma once

#include "generate/session/LanguageModel.h"
#include "tools/tenon/engines/EngineSource.h"

#include <functional>
#include <memory>

namespace tenon::tool {

struct OpenModel {
  std::unique_ptr<EngineSource> source; ///< the engine's file lives as long
  std::unique_ptr<generate::LanguageModel> model;

  /// Errors of EngineSource::prepare and LanguageModel::open; and those of `check`, which is given
  /// the engine's file before it is opened.
  static Result<OpenModel> open(const OpenRequest &request, TaskListener &listener,
                                const std::function<Status(const std::string &)> &check = {});
};

} // namespace tenon::tool
