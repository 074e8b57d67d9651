#include "server/repository/ModelRepository.h"

#include <fmt/format.h>

#include <charconv>

namespace tenon::server {

std::optional<int64_t> versionNumber(const std::string &name) {
  int64_t number = 0;
  std::from_chars_result result = std::from_chars(name.data(), name.data() + name.size(), number);
  bool isNumber = result.ec == std::errc() && result.ptr == name.data() + name.size() &&
                  number > 0 && std::to_string(number) == name;
  return isNumber ? std::optional(number) : std::nullopt;
}

Status noModel(const std::string &name) {
  return Status::error(ErrorId::NoSuchModel, fmt::format("there is no model '{}'", name),
                       "v2/repository/index lists the models");
}

} // namespace tenon::server
