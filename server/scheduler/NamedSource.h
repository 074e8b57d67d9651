// The one model of another source under a name that is not its file's: what a platform has mounted
// somewhere is called as its clients call it.

#pragma once

#include "server/scheduler/ModelSource.h"

#include <memory>
#include <string>

namespace tenon::server {

class NamedSource final : public ModelSource {
public:
  /// TN0105 where `name` is none.
  static Result<std::unique_ptr<ModelSource>> open(std::unique_ptr<ModelSource> source,
                                                   const std::string &name);

  /// TN0804 where the source has more or less than one model.
  Result<std::vector<FoundModel>> scan() const override;
  Result<FoundModel> find(const std::string &wanted) const override;
  void watch(std::function<void(const std::string &name)> onChange) override;

private:
  NamedSource(std::unique_ptr<ModelSource> source, std::string name)
      : source(std::move(source)), name(std::move(name)) {}

  std::unique_ptr<ModelSource> source;
  std::string name;
};

} // namespace tenon::server
