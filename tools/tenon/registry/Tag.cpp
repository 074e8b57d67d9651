// `tenon registry tag`: what people say of a version, or of an object, after it was made.

#include "tools/tenon/registry/Subcommands.h"

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <memory>

namespace tenon::tool {
namespace {

struct TagFlags {
  std::string what;
  std::vector<std::string> pairs;
  bool isOfObject = false;
};

Status tag(const TagFlags &flags, const RegistryFlags &where, Terminal &terminal) {
  TENON_ASSIGN(registry::Reference reference, registry::parseReference(flags.what));
  Json changes = Json::object();
  for (const std::string &pair : flags.pairs) {
    size_t equals = pair.find('=');
    std::string key = pair.substr(0, equals);
    if (equals == pair.npos || key.empty() || changes.contains(key)) {
      return Status::error(ErrorId::BadArgument,
                           fmt::format("'{}' is not KEY=VALUE, or its KEY is given twice", pair),
                           "for example checked=yes; checked= removes the tag");
    }
    changes[key] = equals + 1 == pair.size() ? Json() : Json(pair.substr(equals + 1));
  }
  TENON_ASSIGN(registry::Registry registry, openRegistry(where));
  int64_t version = 0;
  if (!flags.isOfObject) {
    TENON_ASSIGN(registry::Version found, registry.find(reference));
    version = found.number;
  }
  TENON_TRY(registry.tag(reference.name, version, changes));
  TENON_ASSIGN(auto tags, registry.tags(reference.name));
  std::string text = registry::Reference{reference.name, version, ""}.text();
  for (const auto &[key, value] : tags[version]) {
    text += fmt::format("  {}={}", key, value);
  }
  terminal.json() ? terminal.printJson(
                        "registry.tag",
                        {{"name", reference.name}, {"version", version}, {"tags", tags[version]}})
                  : terminal.print(text + "\n");
  return Status::ok();
}

} // namespace

RegistryTask declareRegistryTag(CLI::App &command) {
  std::shared_ptr<TagFlags> flags = std::make_shared<TagFlags>();
  command.add_option("REF", flags->what, "NAME:VERSION, NAME@ALIAS, or NAME for the newest")
      ->required();
  command.add_option("TAG", flags->pairs, "KEY=VALUE, or KEY= which takes it away")->required();
  command.add_flag("--object", flags->isOfObject, "Tag the object, not a version of it");
  return [flags](const RegistryFlags &where, Terminal &terminal) {
    return tag(*flags, where, terminal);
  };
}

} // namespace tenon::tool
