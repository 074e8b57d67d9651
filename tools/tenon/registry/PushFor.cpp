// Pushes for somebody else, through the program itself.

#include "server/api/RegistryRequests.h"
#include "support/json/Json.h"
#include "tools/tenon/registry/Subcommands.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <charconv>
#include <cstring>

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

namespace tenon::tool {
namespace {

constexpr const char *kProgram = "/proc/self/exe";
constexpr std::string_view kTokenVariable = "TENON_REGISTRY_TOKEN=";

std::vector<std::string> argumentsOf(const server::PushCall &call, const std::string &path) {
  std::vector<std::string> arguments = {"tenon", "registry", "push", "--json",
                                        "--registry=" + call.registry};
  auto add = [&](const char *flag, const std::string &value) {
    if (!value.empty()) {
      arguments.push_back(fmt::format("{}={}", flag, value));
    }
  };
  add("--kind", call.kind);
  add("--note", call.note);
  add("--parent", call.parent);
  add("--data", call.data);
  add("--for", call.caller);
  for (const std::string &each : call.meta) {
    add("--meta", each);
  }
  arguments.insert(arguments.end(), {"--", call.name, path});
  return arguments;
}

/// The environment of this process, with the token of whoever asks.
std::vector<std::string> environmentOf(const server::PushCall &call) {
  std::vector<std::string> variables;
  for (char **each = environ; *each; ++each) {
    if (call.token.empty() || !std::string_view(*each).starts_with(kTokenVariable)) {
      variables.emplace_back(*each);
    }
  }
  if (!call.token.empty()) {
    variables.push_back(std::string(kTokenVariable) + call.token);
  }
  return variables;
}

std::vector<char *> pointersOf(std::vector<std::string> &texts) {
  std::vector<char *> pointers;
  for (std::string &each : texts) {
    pointers.push_back(each.data());
  }
  pointers.push_back(nullptr);
  return pointers;
}

Status failed(std::string_view why) {
  return Status::error(ErrorId::InternalError, fmt::format("the push did not run: {}", why),
                       "see the server's log");
}

/// Runs the program, and gives what it wrote to its stdout; `code` is how it ended, -1 by a signal.
Result<std::string> runProgram(std::vector<std::string> arguments,
                               std::vector<std::string> variables, int &code) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) {
    return failed(std::strerror(errno));
  }
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
  posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
  std::vector<char *> words = pointersOf(arguments), environment = pointersOf(variables);
  pid_t child = 0;
  int error = posix_spawn(&child, kProgram, &actions, nullptr, words.data(), environment.data());
  posix_spawn_file_actions_destroy(&actions);
  ::close(ends[1]);
  std::string output;
  char piece[4096];
  for (ssize_t count = error ? 0 : 1; count > 0 || (count < 0 && errno == EINTR);) {
    count = ::read(ends[0], piece, sizeof piece);
    output.append(piece, count > 0 ? static_cast<size_t>(count) : 0);
  }
  ::close(ends[0]);
  int ended = 0;
  if (error || ::waitpid(child, &ended, 0) != child) {
    return failed(std::strerror(error ? error : errno));
  }
  code = WIFEXITED(ended) ? WEXITSTATUS(ended) : -1;
  return output;
}

} // namespace

Result<std::string> pushFor(const server::PushCall &call, const std::string &path) {
  int code = 0;
  TENON_ASSIGN(std::string output, runProgram(argumentsOf(call, path), environmentOf(call), code));
  Json said = parseJson(output);
  if (!said.is_object()) {
    return failed(code < 0 ? "the file crashed the process that inspected it"
                           : "it ended without a message");
  }
  if (code == 0) {
    said.erase("schema");
    return dumpJson(said);
  }
  std::string name = said.value("code", "TN0902");
  uint16_t number = 0;
  std::from_chars(name.data() + std::min<size_t>(2, name.size()), name.data() + name.size(),
                  number);
  // The file is the sender's, and so is its name.
  std::string message = said.value("message", "");
  for (size_t at = message.find(path); at != message.npos; at = message.find(path, at)) {
    message.replace(at, path.size(), call.file);
  }
  return Status::error(static_cast<ErrorId>(number), message, said.value("hint", ""));
}

} // namespace tenon::tool
