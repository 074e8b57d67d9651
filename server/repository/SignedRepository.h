// The models of a folder that somebody trusted has signed: ENGINE.sig beside each engine. The
// signature is checked here; that the engine has the hash in it, the worker checks of the bytes
// that it runs.

#pragma once

#include "registry/signing/Trust.h"
#include "server/repository/ModelRepository.h"

#include <memory>

namespace tenon::server {

/// The hash that an engine must have by the signature beside it; TN1015, TN1016.
Result<std::string> signedHashOf(const signing::Trust &trust, const std::string &path);

class SignedRepository final : public ModelRepository {
public:
  SignedRepository(std::unique_ptr<ModelRepository> repository, signing::Trust trust)
      : repository(std::move(repository)), trust(std::move(trust)) {}

  /// As the folder's; versions without such a signature have a problem, TN1015 or TN1016.
  Result<std::vector<FoundModel>> scan() const override;
  Result<FoundModel> find(const std::string &name) const override;

private:
  void check(FoundModel &model) const;

  std::unique_ptr<ModelRepository> repository;
  signing::Trust trust;
};

} // namespace tenon::server
