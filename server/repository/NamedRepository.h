// The one model of another repository under a name that is not its file's: what a platform has
// mounted somewhere is called as its clients call it.

#pragma once

#include "server/repository/ModelRepository.h"

#include <memory>
#include <string>

namespace tenon::server {

class NamedRepository final : public ModelRepository {
public:
  /// TN0105 where `name` is none.
  static Result<std::unique_ptr<ModelRepository>> open(std::unique_ptr<ModelRepository> repository,
                                                       const std::string &name);

  /// TN0804 where the repository has more or less than one model.
  Result<std::vector<FoundModel>> scan() const override;
  Result<FoundModel> find(const std::string &wanted) const override;
  void watch(std::function<void(const std::string &name)> onChange) override;
  void provide(const std::vector<RemoteFile> &files, OnFile onEnd) override {
    repository->provide(files, std::move(onEnd));
  }
  std::string metrics() const override { return repository->metrics(); }

private:
  NamedRepository(std::unique_ptr<ModelRepository> repository, std::string name)
      : repository(std::move(repository)), name(std::move(name)) {}

  std::unique_ptr<ModelRepository> repository;
  std::string name;
};

} // namespace tenon::server
