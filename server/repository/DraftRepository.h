// The models of another repository with their draft models, which guess how texts go on: those of
// their configurations, and for all others the one that the server was started with.

#pragma once

#include "registry/signing/Trust.h"
#include "server/repository/ModelRepository.h"

#include <memory>
#include <optional>
#include <string>
#include <utility>

namespace tenon::server {

/// What the server was started with.
struct DraftOptions {
  std::string model;              ///< path of an engine; empty: none
  std::optional<uint64_t> tokens; ///< that a step guesses of an answer, at most
};

/// Guesses of a draft model, where nobody said how many.
inline constexpr uint64_t kDraftTokens = 4;
inline constexpr uint64_t kMaxDraftTokens = 64;

class DraftRepository final : public ModelRepository {
public:
  /// With `trust`, versions whose draft model it has not signed have a problem: TN1015, TN1016.
  DraftRepository(std::unique_ptr<ModelRepository> repository, DraftOptions options,
                  std::optional<signing::Trust> trust)
      : repository(std::move(repository)), options(std::move(options)), trust(std::move(trust)) {}

  Result<std::vector<FoundModel>> scan() const override;
  Result<FoundModel> find(const std::string &name) const override;
  void watch(std::function<void(const std::string &name)> onChange) override {
    repository->watch(std::move(onChange));
  }
  void provide(const std::vector<RemoteFile> &files, OnFile onEnd) override {
    repository->provide(files, std::move(onEnd));
  }
  std::string metrics() const override { return repository->metrics(); }

private:
  void complete(FoundModel &model) const;

  std::unique_ptr<ModelRepository> repository;
  DraftOptions options;
  std::optional<signing::Trust> trust;
};

} // namespace tenon::server
