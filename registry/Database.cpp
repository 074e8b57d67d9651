#include "registry/Database.h"

#include <fmt/format.h>

namespace tenon::registry {
namespace {

Status altered(std::string_view what, std::string_view how) {
  return Status::error(
      ErrorId::HistoryAltered, fmt::format("the database's {} is {}", what, how),
      "restore the registry from a backup; something other than Tenon has changed its database");
}

} // namespace

Status compareDefinitions(const Definitions &has, const Definitions &should) {
  for (const auto &[name, text] : should) {
    Definitions::const_iterator found = has.find(name);
    if (found == has.end() || found->second != text) {
      return altered(name, found == has.end() ? "gone" : "not as Tenon created it");
    }
  }
  for (const auto &[name, text] : has) {
    bool mayFalsify = name.starts_with("trigger ") || name.starts_with("view ");
    if (mayFalsify && !should.contains(name)) {
      return altered(name, "not one of Tenon's");
    }
  }
  return Status::ok();
}

} // namespace tenon::registry
