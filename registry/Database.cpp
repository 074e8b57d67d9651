#include "registry/Database.h"

#include <fmt/format.h>

namespace tenon::registry {
namespace {

Status altered(std::string_view what, std::string_view how) {
  return Status::error(ErrorId::HistoryAltered, fmt::format("the database's {} is {}", what, how),
                       "restore the registry from a copy; who wrote to its database did not go "
                       "through Tenon");
}

} // namespace

Status compareDefinitions(const Definitions &has, const Definitions &should) {
  for (const auto &[name, text] : should) {
    Definitions::const_iterator found = has.find(name);
    if (found == has.end() || found->second != text) {
      return altered(name, found == has.end() ? "gone" : "not the one that was made");
    }
  }
  for (const auto &[name, text] : has) {
    bool mayFalsify = name.starts_with("trigger ") || name.starts_with("view ");
    if (mayFalsify && !should.contains(name)) {
      return altered(name, "none that Tenon made");
    }
  }
  return Status::ok();
}

} // namespace tenon::registry
