#include "server/repository/SignedRepository.h"

#include "registry/signing/Bundle.h"
#include "registry/signing/Files.h"

#include <filesystem>

namespace tenon::server {

Result<std::vector<FoundModel>> SignedRepository::scan() const {
  TENON_ASSIGN(std::vector<FoundModel> models, repository->scan());
  for (FoundModel &model : models) {
    check(model);
  }
  return models;
}

Result<FoundModel> SignedRepository::find(const std::string &name) const {
  TENON_ASSIGN(FoundModel model, repository->find(name));
  check(model);
  return model;
}

void SignedRepository::check(FoundModel &model) const {
  for (FoundVersion &version : model.versions) {
    if (!version.problem.isOk()) {
      continue;
    }
    Result<std::string> hash = signedHashOf(trust, version.path);
    if (hash.isOk()) {
      version.sha256 = *hash;
    } else {
      version.problem = hash.takeStatus().prefix(version.path);
    }
  }
}

Result<std::string> signedHashOf(const signing::Trust &trust, const std::string &path) {
  TENON_ASSIGN(std::string bundle,
               signing::readBundle(path + ".sig",
                                   signing::kMaxBytesOfOne)); // the thread that serves reads it
  TENON_ASSIGN(signing::Verified verified, trust.verify(bundle));
  return signing::signedHash(verified.manifest, std::filesystem::path(path).filename());
}

} // namespace tenon::server
