// The process is this program again, or the command tenon beside the library that this is in, since
// a process that has asked the driver for its GPUs cannot give them to a copy of itself. It does
// its own waiting for kernels; this side waits for an answer, however long the driver compiles.
#include "tools/plugin/GpuTrials.h"

#include "support/text/Text.h"
#include "tools/plugin/GpuKernelTrial.h"
#include "tools/plugin/TrialWire.h"

#include <chrono>
#include <csignal>
#include <cstring>
#include <dlfcn.h>
#include <fcntl.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

namespace tenon::tool {
namespace {

constexpr const char *kTrialWord = "--as-kernel-trial";
/// Of an answer; more than the driver takes for the code of a large engine.
constexpr std::chrono::seconds kAnswerLimit{300};
/// For the end of a process that is killed, which waits for the driver to end its kernels.
constexpr std::chrono::seconds kEndLimit{10};
constexpr int kFirstFree = 3;

/// This program, or bin/tenon beside the folder of the library that holds this function.
std::string trialProgram() {
  Dl_info here = {};
  std::string object;
  if (dladdr(reinterpret_cast<const void *>(&trialProgram), &here) && here.dli_fname) {
    object = here.dli_fname;
  }
  size_t slash = object.rfind('/');
  bool isLibrary = slash != std::string::npos && object.find(".so", slash) != std::string::npos;
  return isLibrary ? object.substr(0, slash) + "/../bin/tenon" : "/proc/self/exe";
}

Status notChecked(std::string_view why) {
  return Status::error(ErrorId::KernelUnchecked, why,
                       "install the command tenon with its library, or take the kernel as it is "
                       "with --unchecked-kernels");
}

} // namespace

GpuTrials::~GpuTrials() { stop(); }

Status GpuTrials::start() {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) {
    return notChecked(strCat("no process for the check: ", std::strerror(errno)));
  }
  // Above stdin, which it is to become.
  int theirs = fcntl(ends[1], F_DUPFD_CLOEXEC, kFirstFree);
  close(ends[1]);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, theirs, STDIN_FILENO);
  posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
  posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
  posix_spawn_file_actions_addclosefrom_np(&actions, kFirstFree);
  std::string program = trialProgram(), name = "tenon", word = kTrialWord;
  char *words[] = {name.data(), word.data(), nullptr};
  int error = posix_spawn(&process, program.c_str(), &actions, nullptr, words, environ);
  posix_spawn_file_actions_destroy(&actions);
  close(theirs);
  if (error != 0) {
    close(ends[0]);
    process = -1;
    return notChecked(
        strCat("kernels for GPUs are checked by ", program, ": ", std::strerror(error)));
  }
  socket = ends[0];
  return Status::ok();
}

std::string GpuTrials::stop() {
  if (process < 0) {
    return "";
  }
  close(socket);
  int status = 0;
  bool hasEnded = waitpid(process, &status, WNOHANG) == process;
  if (!hasEnded) {
    kill(process, SIGKILL);
    std::chrono::steady_clock::time_point deadline = std::chrono::steady_clock::now() + kEndLimit;
    while (waitpid(process, nullptr, WNOHANG) == 0 && std::chrono::steady_clock::now() < deadline) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }
  process = socket = -1;
  const char *signal = hasEnded && WIFSIGNALED(status) ? strsignal(WTERMSIG(status)) : nullptr;
  return signal     ? strCat("it ends with the signal \"", signal, "\"")
         : hasEnded ? "it ends the process"
                    : "";
}

Result<kernels::TrialResult> GpuTrials::run(const kernels::Trial &trial) {
  if (process < 0) {
    TENON_TRY(start());
  }
  std::string answer;
  Receipt receipt = sendMessage(socket, encode(trial))
                        ? receiveMessage(socket, answer, kAnswerLimit)
                        : Receipt::Ended;
  if (receipt == Receipt::Whole) {
    Result<kernels::TrialResult> result = decodeResult(answer);
    if (!result) {
      stop();
    }
    return result;
  }
  // Its socket closes a moment before it can be waited for.
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  std::string how = stop();
  if (receipt == Receipt::Late) {
    how = strCat("its process does not answer within ", kAnswerLimit.count(), " s");
  }
  return Status::error(ErrorId::KernelCrashed, how.empty() ? "its process ends" : how,
                       "run the kernel alone under compute-sanitizer");
}

bool isGpuTrialProcess(int argc, char **argv) {
  return argc == 2 && std::strcmp(argv[1], kTrialWord) == 0;
}

int serveGpuTrials() {
  std::string request;
  while (receiveMessage(STDIN_FILENO, request, std::chrono::hours(24)) == Receipt::Whole) {
    Result<kernels::Trial> trial = decodeTrial(request);
    Result<kernels::TrialResult> result =
        trial ? tryKernelOnGpu(*trial) : Result<kernels::TrialResult>(trial.takeStatus());
    if (!sendMessage(STDIN_FILENO, encode(result)) || !result) {
      // What a fault left of the driver must not be given back.
      _exit(1);
    }
  }
  return 0;
}

} // namespace tenon::tool
