// `tenon serve`: engines behind HTTP and gRPC. The front process is this one; it starts the same
// program again as its worker.

#include "registry/History.h"
#include "server/api/Operations.h"
#include "server/http/Server.h"
#include "server/protocol/Routes.h"
#include "server/repository/Selection.h"
#include "server/worker/Worker.h"
#include "server/worker_pool/Device.h"
#include "support/WallClock.h"
#include "tools/tenon/Tool.h"
#include "tools/tenon/Verb.h"
#include "tools/tenon/cli/Options.h"
#include "tools/tenon/cli/Terminal.h"
#include "tools/tenon/registry/Subcommands.h"
#include "tools/tenon/verbs/MonitoringFlags.h"

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <cstdlib>
#include <memory>
#include <string>

namespace tenon::tool {
namespace {

constexpr const char *kWorkerFlag = "--as-worker";

struct ServeFlags {
  server::ServerOptions options;
  std::vector<std::string> models;
  std::string select, urgent = "none";
  RegistryFlags registry;
  uint64_t maxBodyMebibytes = 64;
  uint64_t maxMemoryMebibytes = 0;
  uint64_t maxPushMebibytes = 16 << 10;
  double slowestSeconds = 10;
  double drainSeconds = 30;
  MonitoringFlags monitoring;
  bool printsRoutes = false;
  bool isWorker = false;
};

void printRoutes(Terminal &terminal) {
  Json list = Json::array();
  std::string text;
  for (const server::Route &route : server::allRoutes()) {
    list.push_back({{"method", nameOf(route.method)},
                    {"path", fmt::format("/{}", route.path)},
                    {"transport", nameOf(route.transport)},
                    {"role", nameOf(server::roleOf(route.operation))},
                    {"operation", nameOf(route.operation)}});
    text += fmt::format("{:<5} {:<5} {:<60} {}\n", nameOf(route.transport), nameOf(route.method),
                        fmt::format("/{}", route.path), nameOf(server::roleOf(route.operation)));
  }
  terminal.json() ? terminal.printJson("serve.routes", {{"routes", list}}) : terminal.print(text);
}

std::chrono::milliseconds milliseconds(double seconds) {
  return std::chrono::milliseconds(static_cast<int64_t>(seconds * 1000));
}

Status runServe(ServeFlags &flags, Terminal &terminal) {
  if (flags.isWorker) {
    // It shares the streams of the front and has nothing to print: whatever it does ends here.
    std::_Exit(server::runWorker());
  }
  if (flags.printsRoutes) {
    printRoutes(terminal);
    return Status::ok();
  }
  server::ServerOptions &options = flags.options;
  bool isRegistryAlone = flags.models.empty() && !flags.registry.folder.empty();
  if (flags.models.empty() && !isRegistryAlone) {
    return Status::error(
        ErrorId::BadArgument, "there is nothing to serve",
        "give an engine file or a folder of engines, or --registry alone for its interface");
  }
  if (options.certificates.empty() != options.key.empty()) {
    return Status::error(ErrorId::BadCertificate, "TLS needs both a certificate and its key",
                         "give both --tls-cert and --tls-key");
  }
  if (isRegistryAlone || flags.models.size() > 1 ||
      flags.models.front().starts_with(server::kRegistryScheme)) {
    TENON_ASSIGN(options.selection, server::parseSelection(flags.models, flags.select));
    TENON_ASSIGN(options.registry.where, registryFolder(flags.registry));
  } else if (!flags.select.empty()) {
    return Status::error(ErrorId::BadArgument, "--select chooses among the engines of a registry",
                         "serve registry:@ALIAS");
  } else {
    options.models = flags.models.front();
  }
  TENON_TRY(readMonitoringFlags(flags.monitoring, options.monitoring));
  if (!terminal.ownsProcess()) {
    return Status::error(ErrorId::BadArgument, "a server runs as a process of its own",
                         "run `tenon serve`");
  }
  options.urgent = flags.urgent == "all"     ? server::Urgent::All
                   : flags.urgent == "admin" ? server::Urgent::Admin
                                             : server::Urgent::None;
  if (options.urgent == server::Urgent::Admin && options.tokenFile.empty()) {
    return Status::error(ErrorId::BadArgument, "--urgent admin needs tokens, which have roles",
                         "give a --token-file");
  }
  options.maxBody = flags.maxBodyMebibytes << 20;
  options.maxPush = flags.maxPushMebibytes << 20;
  options.pushFile = pushFor;
  options.maxMemory = flags.maxMemoryMebibytes << 20;
  options.slowest = milliseconds(flags.slowestSeconds);
  options.drain = milliseconds(flags.drainSeconds);
  options.gpus = server::findGpus(std::getenv("CUDA_VISIBLE_DEVICES"), "/dev");
  options.workerCommand = {"/proc/self/exe", "serve", kWorkerFlag};
  options.version = version();
  options.log = server::Log([&](server::LogLevel level, std::string_view line) {
    terminal.note(
        fmt::format("{} {} {}", registry::timeText(wallClock()), server::nameOf(level), line));
  });
  options.onListening = [&](uint16_t port) {
    std::string host = options.address.find(':') == std::string::npos
                           ? options.address
                           : fmt::format("[{}]", options.address);
    terminal.json() ? terminal.printJson("serve", {{"address", options.address}, {"port", port}})
                    : terminal.print(fmt::format("listening on http{}://{}:{}\n",
                                                 options.key.empty() ? "" : "s", host, port));
    static_cast<void>(terminal.finish()); // a reader waits for the line
  };
  return server::serve(options);
}

} // namespace

Action declareServe(CLI::App &command) {
  std::shared_ptr<ServeFlags> flags = std::make_shared<ServeFlags>();
  server::ServerOptions &options = flags->options;
  command.add_option(
      "MODELS", flags->models,
      "An engine, a folder of engines, or a Triton folder: MODEL/VERSION/model.tenon with "
      "MODEL/config.pbtxt; or registry:NAME@ALIAS, which follows the alias (repeat for more), or "
      "registry:@ALIAS, which follows it for each engine that has it, or "
      "registry:NAMESPACE/@ALIAS for those of a namespace");
  command.add_option("--select", flags->select,
                     "KEY=VALUE,...: of registry:@ALIAS, only versions with this metadata "
                     "(`registry push --meta`)");
  command.add_option("--registry", flags->registry.folder, kRegistryHelp);
  command
      .add_option("--require-signature", options.trusted,
                  "PEM file with public keys and certificates of authorities: load only engines "
                  "that one of them has signed; ENGINE.sig beside the file, or the version's "
                  "signature (repeat for more)")
      ->allow_extra_args(false);
  command.add_option("--name", options.name,
                     "The name of the model, if MODELS is a single one; by default its file's");
  command.add_flag("--lenient", options.isLenient,
                   "Skip fields of a config.pbtxt that Tenon does not know");
  command.add_option("--address", options.address, "IP address to listen at")
      ->capture_default_str();
  command.add_option("--token-file", options.tokenFile,
                     "File of tokens that requests must have: each line a token and its roles "
                     "(infer, read, admin); read again when it changes");
  command.add_option(
      "--tls-cert", options.certificates,
      "PEM file with the server's certificate and those that signed it: connections use TLS");
  command.add_option("--tls-key", options.key, "PEM file with the certificate's private key");
  command.add_flag("--insecure", options.isInsecure,
                   "Allow an address that other machines reach, without tokens");
  auto number = [&](const char *name, Range<uint64_t> range, auto &value, const char *description) {
    using Value = std::remove_reference_t<decltype(value)>;
    addNumber(
        command, name, range,
        [flags, &value](uint64_t given) { value = static_cast<Value>(given); }, description);
  };
  number("--port", {0, 65535}, options.port,
         "Port to listen at, 8000 by default; 0 takes a free one");
  number("--threads", kThreads, options.threads, "Threads of a run; all usable CPUs by default");
  number("--queue", {1, 1'000'000}, options.maxQueued,
         "Requests that may wait for each model, 256 by default; further ones are refused (429)");
  number("--memory-budget", {1 << 20, uint64_t(1) << 50}, options.memoryBudget,
         "Memory budget in bytes of all loaded models on the CPU: the least recently used are "
         "evicted, and reloaded by the next request; unlimited by default");
  number("--gpu-memory-budget", {1 << 20, uint64_t(1) << 50}, options.gpuMemoryBudget,
         "The same for each GPU; unlimited by default");
  number("--users", {1, 1'000'000}, options.users,
         "Answers that a language model continues at once, 8 by default; its cache has pages for "
         "all of them");
  number("--tokens", {1, 1'000'000'000}, options.tokens,
         "Tokens of each, prompt and answer together; by default as many as the engine allows");
  addChoice(command, "--urgent", flags->urgent, {"none", "admin", "all"},
            "Whose requests to language models may go before others, by a 'priority' below 0: "
            "nobody's, those with a token that has the role admin, or everyone's")
      ->capture_default_str();
  command.add_option(
      "--draft-model", options.draft.model,
      "An engine with a smaller language model of the same tokens, which guesses how "
      "answers go on: the text is the same, computed in fewer steps");
  addNumber(
      command, "--draft-tokens", {0, server::kMaxDraftTokens},
      [flags](uint64_t given) { flags->options.draft.tokens = given; },
      "Tokens of an answer that a step computes on a guess, at most: guessed by --draft-model, or "
      "from what the text said before. 4 by default with --draft-model, else 0");
  addBytes(
      command, "--cache-size", {1 << 20, uint64_t(1) << 50}, options.registry.cacheSize,
      "Disk budget of files of a registry in S3, such as 20GiB: they are fetched on demand, and "
      "the least recently used are evicted; 64GiB by default");
  number("--max-body", {1, 4095}, flags->maxBodyMebibytes,
         "Maximum body of a request in MiB, also after decompression; 64 by default");
  number("--max-push", {1, 1 << 24}, flags->maxPushMebibytes,
         "Maximum size in MiB of a file that is pushed into the registry through the server; it is "
         "written to the disk as it comes; 16384 by default");
  number("--max-memory,--max-bodies", {1, 1 << 20}, flags->maxMemoryMebibytes,
         "Memory limit of all requests in MiB: bodies, tensors and replies; more is refused (429). "
         "By default a third of the memory that the process may use, at most 1024");
  number("--max-connections", {1, 100'000}, options.maxConnections,
         "Maximum number of connections, 1024 by default; further ones only get health answers");
  addSeconds(command, "--client-timeout", {0.1, 3600}, flags->slowestSeconds,
             "Timeout of a client for a request's header, and between pieces of its body and its "
             "reply; 10s by default");
  addSeconds(command, "--drain", {0, 3600}, flags->drainSeconds,
             "How long accepted requests may take after SIGTERM; 30s by default");
  declareMonitoringFlags(command, flags->monitoring, options.monitoring);
  command.add_flag("--routes", flags->printsRoutes,
                   "List the server's paths with method and role, and serve nothing");
  command.add_flag(kWorkerFlag, flags->isWorker, "")->group("");
  return [flags](Terminal &terminal) { return runServe(*flags, terminal); };
}

} // namespace tenon::tool
