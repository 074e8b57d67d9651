// `tenon registry push`: looks at the file, then stores it with what is known of where it comes
// from.

#include "registry/Describe.h"
#include "tools/tenon/cli/Options.h"
#include "tools/tenon/print/Format.h"
#include "tools/tenon/registry/Artifact.h"
#include "tools/tenon/registry/Signing.h"
#include "tools/tenon/registry/Subcommands.h"
#include "tools/tenon/target/CpuInfo.h"

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <filesystem>
#include <memory>

namespace tenon::tool {
namespace {

struct PushFlags {
  std::string name, kind, parent, data, tuning, note, main, caller;
  std::vector<std::string> paths, pairs, certificates;
  std::string key;
};

/// KEY=VALUE of --meta.
Result<Json> parsePairs(const std::vector<std::string> &pairs) {
  Json meta = Json::object();
  for (const std::string &pair : pairs) {
    size_t equals = pair.find('=');
    std::string key = pair.substr(0, equals);
    if (equals == pair.npos || key.empty() || meta.contains(key)) {
      return Status::error(
          ErrorId::BadArgument,
          fmt::format("--meta '{}' is not KEY=VALUE, or its KEY is given twice", pair),
          "for example --meta epochs=12");
    }
    TENON_TRY(registry::checkRemark("--meta", pair));
    meta[key] = pair.substr(equals + 1);
  }
  return meta;
}

/// The version that a reference means now, "NAME:VERSION"; null where none was given.
Result<Json> resolve(registry::Registry &registry, const std::string &text) {
  if (text.empty()) {
    return Json();
  }
  TENON_ASSIGN(registry::Reference reference, registry::parseReference(text));
  TENON_ASSIGN(registry::Version version, registry.find(reference));
  return Json(version.text());
}

/// What the files are; those of a version of several come into the request.
Result<Artifact> look(const PushFlags &flags, registry::PushRequest &request) {
  std::error_code ignored;
  request.path = flags.paths.front();
  if (flags.paths.size() == 1 && !std::filesystem::is_directory(request.path, ignored)) {
    request.stamp = FileStamp::of(request.path);
    return examine(request.path, flags.kind);
  }
  TENON_ASSIGN(request.files, registry::sourcesOf(flags.paths));
  TENON_ASSIGN(Artifact artifact, examineFiles(request.files, flags.kind, flags.main));
  if (flags.paths.size() > 1) {
    request.path = flags.name;
  }
  return artifact;
}

Status push(const PushFlags &flags, const RegistryFlags &where, Terminal &terminal) {
  registry::PushRequest request;
  request.name = flags.name;
  request.note = flags.note;
  TENON_TRY(registry::checkName(flags.name));
  TENON_ASSIGN(Json meta, parsePairs(flags.pairs));
  if (!flags.key.empty()) {
    TENON_ASSIGN(request.sign, signatureBy(flags.key, flags.certificates));
  }
  TENON_ASSIGN(Artifact artifact, look(flags, request));
  TENON_ASSIGN(registry::Registry registry, createRegistry(where, flags.caller));
  request.kind = artifact.kind;
  request.facts = std::move(artifact.facts);
  TENON_ASSIGN(request.facts["parent"], resolve(registry, flags.parent));
  TENON_ASSIGN(request.facts["data"], resolve(registry, flags.data));
  if (!flags.tuning.empty()) { // versions of before it have no such fact
    TENON_ASSIGN(request.facts["tuning"], resolve(registry, flags.tuning));
  }
  request.circumstances = {{"machine", cpuInfo("model name")},
                           {"pushed_by", "tenon " TENON_VERSION}};
  request.facts["meta"] = std::move(meta);
  TENON_ASSIGN(registry::Pushed pushed, registry.push(request));
  const registry::Version &made = pushed.version;
  if (terminal.json()) {
    terminal.printJson("registry.push", registry::describe(pushed));
  } else {
    terminal.print(fmt::format("{} {}: {}, {}, sha256 {}\n", made.text(),
                               pushed.isExisting ? "was there already" : "is stored", made.kind,
                               formatBytes(made.blob.bytes), made.blob.hash.substr(0, 12)));
  }
  return Status::ok();
}

} // namespace

RegistryTask declareRegistryPush(CLI::App &command) {
  std::shared_ptr<PushFlags> flags = std::make_shared<PushFlags>();
  command.add_option("NAME", flags->name, "The object that gets a new version")->required();
  command
      .add_option("FILE", flags->paths,
                  "A model (ONNX, .pt2, .tflite), an engine, a data set (npz), a report or a "
                  "tuning record; "
                  "or a folder or several files, which form one version")
      ->required();
  command.add_option("--main", flags->main,
                     "For several files: the path of the one to run, compile or serve; by default "
                     "the only engine, else the only model");
  addChoice(command, "--kind", flags->kind, registry::kKinds,
            "Its kind; by default determined by its content");
  command.add_option("--parent", flags->parent,
                     "The version it was made from: NAME:VERSION or NAME@ALIAS");
  command.add_option("--data", flags->data,
                     "The version of the data it was trained or calibrated with");
  command.add_option("--tuning", flags->tuning, "The version of the record it was tuned with");
  command.add_option("--meta", flags->pairs, "KEY=VALUE, kept with the version (repeat for more)")
      ->allow_extra_args(false);
  command.add_option("--note", flags->note, "A note in one line");
  command.add_option("--for", flags->caller, "")->group(""); // whom a server pushes for
  CLI::Option *key = command.add_option(
      "--sign", flags->key,
      "PEM file of a private key; its signature of the file is stored with the version");
  command
      .add_option("--certificate-chain", flags->certificates,
                  "PEM file with the key's certificate and those that signed it (repeat for more)")
      ->allow_extra_args(false)
      ->needs(key);
  return [flags](const RegistryFlags &where, Terminal &terminal) {
    return push(*flags, where, terminal);
  };
}

} // namespace tenon::tool
