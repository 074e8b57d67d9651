// A language model that is ready to run, out of an engine or a file that is compiled first.
#pragma once

#include "generate/session/LanguageModel.h"
#include "tools/tenon/engines/EngineSource.h"

#include <memory>

namespace tenon::tool {

struct OpenModel {
  std::unique_ptr<EngineSource> source; ///< the engine's file lives as long
  std::unique_ptr<generate::LanguageModel> model;

  /// Errors of EngineSource::prepare and LanguageModel::open.
  static Result<OpenModel> open(const OpenRequest &request, TaskListener &listener);
};

} // namespace tenon::tool
