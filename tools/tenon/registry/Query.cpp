// `tenon registry list`, `show` and `history`: what is there, and what happened.

#include "registry/Describe.h"
#include "support/files/AtomicFile.h"
#include "support/files/FileError.h"
#include "support/files/MappedFile.h"
#include "support/files/ScratchFolder.h"
#include "tools/tenon/cli/Options.h"
#include "tools/tenon/print/Format.h"
#include "tools/tenon/registry/Signing.h"
#include "tools/tenon/registry/Subcommands.h"

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <filesystem>
#include <limits>
#include <memory>

namespace tenon::tool {
namespace {

using registry::Registry;

constexpr uint64_t kMaxRows = 1'000'000;

struct LookFlags {
  std::string what, output, signature;
  int64_t last = 0;
  bool asksLineage = false;
};

std::string aliasesText(const std::vector<registry::Alias> &aliases) {
  std::vector<std::string> texts;
  for (const registry::Alias &alias : aliases) {
    texts.push_back(fmt::format("{} -> {}", alias.name, alias.version));
  }
  return fmt::format("{}", fmt::join(texts, ", "));
}

using Tags = std::map<int64_t, Registry::Tags>;

/// As in every reply, and the tags that were put on it since.
Json describe(const registry::Version &version, const std::vector<std::string> &aliases,
              Tags &tags) {
  Json row = registry::describe(version, aliases);
  row["tags"] = tags[version.number];
  return row;
}

Status listObjects(Registry &registry, const std::string &what, Terminal &terminal) {
  std::string space;
  if (!what.empty()) {
    TENON_ASSIGN(space, registry::parseNamespace(what));
  }
  TENON_ASSIGN(std::vector<registry::Object> objects,
               registry.objects("", std::numeric_limits<int64_t>::max(), space));
  Json rows = Json::array();
  std::string text =
      objects.empty()
          ? fmt::format("{} is empty\n", space.empty() ? "the registry" : "'" + space + "'")
          : fmt::format("{:<24} {:<7} {:>7}  {}\n", "name", "kind", "newest", "aliases");
  for (const registry::Object &object : objects) {
    rows.push_back(registry::describe(object));
    text += fmt::format("{:<24} {:<7} {:>7}  {}\n", object.name, object.kind, object.newest,
                        aliasesText(object.aliases));
  }
  terminal.json() ? terminal.printJson("registry.list", {{"objects", rows}}) : terminal.print(text);
  return Status::ok();
}

Status listVersions(Registry &registry, const std::string &name, Terminal &terminal) {
  TENON_ASSIGN(registry::Object object, registry.object(name));
  TENON_ASSIGN(std::vector<registry::Version> versions, registry.versions(name));
  TENON_ASSIGN(Tags tags, registry.tags(name));
  Json rows = Json::array();
  std::string text = fmt::format("{:>7}  {:<24}  {:>10}  {:<12}  {:<20}  {}\n", "version",
                                 "created", "size", "sha256", "aliases", "note");
  for (const registry::Version &version : versions) {
    std::vector<std::string> aliases = registry::aliasesAt(object, version.number);
    rows.push_back(describe(version, aliases, tags));
    text += fmt::format("{:>7}  {:<24}  {:>10}  {:<12}  {:<20}  {}\n", version.number,
                        registry::timeText(version.created),
                        version.isDeleted ? "deleted" : formatBytes(version.blob.bytes),
                        version.blob.hash.substr(0, 12),
                        fmt::format("{}", fmt::join(aliases, ", ")), version.note);
  }
  terminal.json() ? terminal.printJson("registry.list", {{"versions", rows}, {"tags", tags[0]}})
                  : terminal.print(text);
  return Status::ok();
}

Status list(const LookFlags &flags, const RegistryFlags &where, Terminal &terminal) {
  TENON_ASSIGN(Registry registry, openRegistry(where));
  return flags.what.empty() || flags.what.ends_with('/')
             ? listObjects(registry, flags.what, terminal)
             : listVersions(registry, flags.what, terminal);
}

/// The files of a version of several in a folder that was not there, whole or not at all.
Status copyFolder(Registry &registry, const registry::Version &version, const std::string &output) {
  std::error_code error;
  std::filesystem::path path = std::filesystem::absolute(output, error).lexically_normal();
  path = path.has_filename() ? path : path.parent_path();
  if (std::filesystem::exists(path, error) &&
      (!std::filesystem::is_directory(path, error) || !std::filesystem::is_empty(path, error))) {
    return Status::error(ErrorId::BadArgument, fmt::format("'{}' already exists", output),
                         "-o must name a new or empty folder for several files");
  }
  TENON_ASSIGN(ScratchFolder scratch, ScratchFolder::create(path.parent_path(), ".files"));
  std::string whole = scratch.path() + "/whole";
  TENON_TRY(registry.writeFolder(version, whole, true));
  std::filesystem::rename(whole, path, error);
  return error ? writeError(error.value(), "rename to", output) : Status::ok();
}

/// The file of a version where the user asked for it, whole or not at all.
Status copyOut(Registry &registry, const registry::Version &version, const std::string &output) {
  if (version.isDeleted) {
    return Status::error(ErrorId::NoSuchObject, fmt::format("gc deleted {}", version.text()),
                         "only its metadata is left");
  }
  TENON_ASSIGN(registry::FilesLock lock, registry.keepFiles());
  if (version.isFolder()) {
    return copyFolder(registry, version, output);
  }
  TENON_TRY(registry.check(version));
  TENON_ASSIGN(MappedFile file, MappedFile::open(registry.pathOf(version)));
  TENON_ASSIGN(AtomicFile copy, AtomicFile::create(output));
  TENON_TRY(copy.append(file.bytes()));
  return copy.commit();
}

Status show(const LookFlags &flags, const RegistryFlags &where, Terminal &terminal) {
  TENON_ASSIGN(registry::Reference reference, registry::parseReference(flags.what));
  TENON_ASSIGN(Registry registry, openRegistry(where));
  TENON_ASSIGN(registry::Version version, registry.find(reference));
  TENON_ASSIGN(registry::Object object, registry.object(version.name));
  if (flags.asksLineage) {
    constexpr size_t kMost = 500; // as many as somebody reads
    TENON_ASSIGN(registry::Lineage lineage, registry.lineage(version, kMost));
    terminal.json() ? terminal.printJson("registry.lineage", registry::describe(lineage))
                    : terminal.print(registry::treeOf(lineage));
    return Status::ok();
  }
  if (!flags.output.empty()) {
    TENON_TRY(copyOut(registry, version, flags.output));
  }
  TENON_ASSIGN(std::vector<std::string> bundles, registry.signatures(version));
  TENON_TRY(writeSignature(bundles, version, flags.signature));
  TENON_ASSIGN(Tags tags, registry.tags(version.name));
  std::vector<std::string> aliases = registry::aliasesAt(object, version.number);
  Json row = describe(version, aliases, tags);
  row["signatures"] = signersOf(bundles);
  if (terminal.json()) {
    terminal.printJson("registry.show", std::move(row));
    return Status::ok();
  }
  std::string text = fmt::format("{} ({}){}\n", version.text(), version.kind,
                                 version.isDeleted ? ", deleted: only its metadata is left" : "");
  text += fmt::format("  {:<10} {}\n  {:<10} {}\n  {:<10} {}\n  {:<10} {}\n", "created",
                      registry::timeText(version.created), "file", version.file, "size",
                      formatBytes(version.blob.bytes), "sha256", version.blob.hash);
  text += fmt::format("  {:<10} {}\n  {:<10} {}\n", "aliases", fmt::join(aliases, ", "), "note",
                      version.note);
  for (const registry::Part &part : version.parts) {
    text += fmt::format("  {:<10} {}  {}  {}\n", "", part.blob.hash.substr(0, 12),
                        formatBytes(part.blob.bytes), part.path);
  }
  for (const Json &signer : row["signatures"]) {
    text += fmt::format("  {:<10} {}\n", "signed by", signer.get<std::string>());
  }
  for (const auto &[key, value] : tags[version.number]) {
    text += fmt::format("  {:<10} {}={}\n", "tag", key, value);
  }
  for (const auto &[key, value] : version.facts.items()) {
    if (!value.is_null()) {
      text += fmt::format("  {:<10} {}\n", key,
                          value.is_string() ? value.get<std::string>() : dumpJson(value));
    }
  }
  terminal.print(text);
  return Status::ok();
}

std::string sentenceOf(const registry::Event &event) {
  std::string what =
      fmt::format("{}{}{}", event.object, event.alias.empty() ? "" : "@", event.alias);
  std::string reason = event.detail.value("reason", "");
  reason = reason.empty() ? "" : ": " + reason;
  std::string caller = event.detail.value("caller", "");
  reason += caller.empty() ? "" : fmt::format(" (for {})", caller);
  if (event.action == "push") {
    std::string note = event.detail.value("note", "");
    return fmt::format("pushed {}:{} ({}){}", event.object, event.version,
                       event.detail.value("kind", ""), note.empty() ? "" : ": " + note);
  }
  if (event.action == "promote" || event.action == "rollback") {
    std::string from = event.from ? fmt::format("from version {} ", event.from) : "";
    return fmt::format("{} {} {}to version {}{}",
                       event.action == "promote" ? "promoted" : "rolled back", what, from,
                       event.version, reason);
  }
  if (event.action == "gate") {
    std::string champion =
        event.detail.value("champion", 0)
            ? fmt::format("compared with version {}", event.detail.value("champion", 0))
            : "without a champion";
    return fmt::format("gated {}:{} for {} {}: {}", event.object, event.version, event.alias,
                       champion, event.detail.value("verdict", ""));
  }
  if (event.action == "token" || event.action == "revoke") {
    std::string name = event.detail.value("name", ""), role = event.detail.value("role", "");
    return event.action == "token"
               ? fmt::format("created the token '{}' with the role {}", name, role)
               : fmt::format("revoked the token '{}'", name);
  }
  if (event.action == "sign") {
    return fmt::format("signed {}:{} by {}", event.object, event.version,
                       signerOf(event.detail.value("bundle", "")));
  }
  if (event.action == "tag") {
    return fmt::format("tagged {}: {}", registry::Reference{event.object, event.version, ""}.text(),
                       dumpJson(event.detail.value("tags", Json::object())));
  }
  if (event.action == "rules") {
    return fmt::format("set the rules of {}: {}", what,
                       dumpJson(event.detail.value("rules", Json::array())));
  }
  return fmt::format("{}d {}:{}", event.action, event.object, event.version);
}

Status history(const LookFlags &flags, const RegistryFlags &where, Terminal &terminal) {
  registry::Reference reference;
  if (!flags.what.empty()) {
    TENON_ASSIGN(reference, registry::parseReference(flags.what));
  }
  TENON_ASSIGN(Registry registry, openRegistry(where));
  if (!reference.name.empty()) {
    TENON_TRY(registry.object(reference.name).takeStatus());
  }
  int64_t most = flags.last ? flags.last : std::numeric_limits<int64_t>::max();
  TENON_ASSIGN(std::vector<registry::Event> events,
               registry.history(reference.name, reference.alias, most));
  Json rows = Json::array();
  std::string text;
  for (std::vector<registry::Event>::reverse_iterator event = events.rbegin();
       event != events.rend(); ++event) {
    rows.push_back(registry::describe(*event));
    text += fmt::format("{:>6}  {}  {:<10} {}\n", event->id, registry::timeText(event->time),
                        event->by, sentenceOf(*event));
  }
  terminal.json() ? terminal.printJson("registry.history", {{"events", rows}})
                  : terminal.print(text.empty() ? "nothing has happened yet\n" : text);
  return Status::ok();
}

} // namespace

RegistryTask declareRegistryList(CLI::App &command) {
  std::shared_ptr<LookFlags> flags = std::make_shared<LookFlags>();
  command.add_option("NAME", flags->what,
                     "The object whose versions to list, or NAMESPACE/ for the objects in it; "
                     "without it, all objects");
  return [flags](const RegistryFlags &where, Terminal &terminal) {
    return list(*flags, where, terminal);
  };
}

RegistryTask declareRegistryShow(CLI::App &command) {
  std::shared_ptr<LookFlags> flags = std::make_shared<LookFlags>();
  command.add_option("REF", flags->what, "NAME:VERSION, NAME@ALIAS, or NAME for the newest")
      ->required();
  addOutput(command, flags->output,
            "Write the version's file, or the folder of its files, after a check of the hashes");
  command.add_flag("--lineage", flags->asksLineage,
                   "Show what it was made from and measured on, and what was made from it");
  command.add_option("--signature", flags->signature,
                     "Write the version's last signature, for `tenon verify`");
  return [flags](const RegistryFlags &where, Terminal &terminal) {
    return show(*flags, where, terminal);
  };
}

RegistryTask declareRegistryHistory(CLI::App &command) {
  std::shared_ptr<LookFlags> flags = std::make_shared<LookFlags>();
  command.add_option("NAME", flags->what, "An object, or NAME@ALIAS; without it, everything");
  addNumber(
      command, "--last", {1, kMaxRows},
      [flags](uint64_t number) { flags->last = static_cast<int64_t>(number); },
      "Show only the last N events");
  return [flags](const RegistryFlags &where, Terminal &terminal) {
    return history(*flags, where, terminal);
  };
}

} // namespace tenon::tool
