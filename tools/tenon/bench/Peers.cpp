// Implements the hand-over. Relies on TENON_PYTHON, which the package's own command sets.

#include "tools/tenon/bench/Peers.h"

#include "tools/tenon/task/TaskListener.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <unistd.h>

namespace tenon::tool {
namespace {

/// Says in our words when the package is not there.
constexpr const char *kProgram = R"(import sys
try:
    from tenon.compare.__main__ import main
except ImportError as error:
    print(f"error TN0105: comparing needs a Python with the package tenon: {error}", file=sys.stderr)
    print("  try: pip install it, and set TENON_PYTHON to that Python if it is not python3", file=sys.stderr)
    sys.exit(2)
sys.exit(main())
)";

} // namespace

Status comparePeers(const PeersRequest &request) {
  const char *named = std::getenv("TENON_PYTHON");
  std::vector<std::string> command = {named ? named : "python3", "-c", kProgram, request.model};
  command.push_back("--against=" + request.against);
  for (const std::string &shape : request.shapes) {
    command.push_back("--shape=" + shape);
  }
  command.push_back(fmt::format("--seconds={}", request.seconds));
  command.push_back(fmt::format("--threads={}", request.threads));
  command.push_back("--device=" + request.device);
  command.push_back("--format=" + request.format);
  command.push_back("--output=" + request.output);
  std::vector<char *> arguments;
  for (std::string &argument : command) {
    arguments.push_back(argument.data());
  }
  arguments.push_back(nullptr);
  execvp(arguments[0], arguments.data());
  return Status::error(ErrorId::BadArgument,
                       fmt::format("'{}' cannot be started: {}", command[0], std::strerror(errno)),
                       "set TENON_PYTHON to a Python that has the package tenon");
}

} // namespace tenon::tool
