// `tenon registry`: the table of its commands, in the files of tools/tenon/registry.

#include "tools/tenon/Verb.h"
#include "tools/tenon/registry/Subcommands.h"

#include <CLI/CLI.hpp>

#include <memory>

namespace tenon::tool {
namespace {

struct Subcommand {
  const char *name;
  const char *summary;
  RegistryTask (*declare)(CLI::App &command);
};

constexpr Subcommand kSubcommands[] = {
    {"push", "store a file as the next version of an object", declareRegistryPush},
    {"sign", "sign a version", declareRegistrySign},
    {"list", "list objects, or the versions of one", declareRegistryList},
    {"search", "find versions by tags, metrics, kind, name and date", declareRegistrySearch},
    {"show", "show a version, or write its file", declareRegistryShow},
    {"gate", "set the rules of an alias, or measure a version by them", declareRegistryGate},
    {"promote", "move an alias to a version", declareRegistryPromote},
    {"rollback", "move an alias back to where it was", declareRegistryRollback},
    {"history", "show what happened, when and by whom", declareRegistryHistory},
    {"tag", "describe a version, or an object, after it was made", declareRegistryTag},
    {"watch", "report events to another system", declareRegistryWatch},
    {"gc", "delete versions that nothing uses", declareRegistryCollect},
    {"verify", "hash the stored files and check the history", declareRegistryVerify},
    {"token", "add, list and revoke tokens, which say who may do what", declareRegistryToken},
};

} // namespace

Action declareRegistry(CLI::App &command) {
  std::shared_ptr<RegistryFlags> flags = std::make_shared<RegistryFlags>();
  std::shared_ptr<RegistryTask> chosen = std::make_shared<RegistryTask>();
  command.add_option("--registry", flags->folder, kRegistryHelp);
  command.require_subcommand(1);
  for (const Subcommand &each : kSubcommands) {
    CLI::App *part = command.add_subcommand(each.name, each.summary);
    part->fallthrough(); // --registry, --json and --quiet may stand behind it
    part->footer("--registry and --json are for every command of the registry.");
    RegistryTask task = each.declare(*part);
    part->callback([chosen, task = std::move(task)] { *chosen = task; });
  }
  return [flags, chosen](Terminal &terminal) { return (*chosen)(*flags, terminal); };
}

} // namespace tenon::tool
