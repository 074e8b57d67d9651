// The draft model of a configuration lies beside the version's engine.

#include "server/repository/DraftRepository.h"

#include "server/repository/SignedRepository.h"

#include <filesystem>

namespace tenon::server {

Result<std::vector<FoundModel>> DraftRepository::scan() const {
  TENON_ASSIGN(std::vector<FoundModel> models, repository->scan());
  for (FoundModel &model : models) {
    complete(model);
  }
  return models;
}

Result<FoundModel> DraftRepository::find(const std::string &name) const {
  TENON_ASSIGN(FoundModel model, repository->find(name));
  complete(model);
  return model;
}

void DraftRepository::complete(FoundModel &model) const {
  ModelConfig &config = model.config;
  bool hasDraft = !config.draftModel.empty() || !options.model.empty();
  if (!config.draftTokens) {
    config.draftTokens = options.tokens ? *options.tokens : hasDraft ? kDraftTokens : 0;
  }
  if (!hasDraft || *config.draftTokens == 0) {
    return;
  }
  for (FoundVersion &version : model.versions) {
    version.draft =
        config.draftModel.empty()
            ? options.model
            : (std::filesystem::path(version.path).parent_path() / config.draftModel).string();
    if (!trust || !version.problem.isOk()) {
      continue;
    }
    Result<std::string> hash = signedHashOf(*trust, version.draft);
    if (hash.isOk()) {
      version.draftSha256 = *hash;
    } else {
      version.problem = hash.takeStatus().prefix(version.draft);
    }
  }
}

} // namespace tenon::server
