// Implements the way from a path to a model.
#include "tools/tenon/generate/OpenModel.h"

namespace tenon::tool {

Result<OpenModel> OpenModel::open(const OpenRequest &request, TaskListener &listener,
                                  const std::function<Status(const std::string &)> &check) {
  OpenModel opened;
  TENON_ASSIGN(EngineSource source, EngineSource::prepare(request, listener));
  opened.source = std::make_unique<EngineSource>(std::move(source));
  if (check) {
    TENON_TRY(check(opened.source->path()));
  }
  tenon_engine_options options = {};
  options.struct_size = sizeof(options);
  options.variant = request.variant.empty() ? nullptr : request.variant.c_str();
  options.no_verify_weights = request.verifyWeights ? 0 : 1;
  TENON_ASSIGN(opened.model, generate::LanguageModel::open(opened.source->path(), options));
  return opened;
}

} // namespace tenon::tool
