// Relies on LLVM's CrashRecoveryContext, which jumps out of its signal handlers; those run on a
// stack of their own here, since a stack may be what has run out.
#include "compiler/pipeline/CrashGuard.h"

#include "support/text/Text.h"
#include "llvm/Support/CrashRecoveryContext.h"
#include "llvm/Support/ErrorHandling.h"

#include <csignal>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <mutex>

namespace tenon::pipeline {
namespace {

constexpr int kSignals[] = {SIGABRT, SIGBUS, SIGFPE, SIGILL, SIGSEGV, SIGTRAP};
constexpr size_t kStackBytes = size_t{64} << 10;
/// CrashRecoveryContext's code for a signal, as of a shell.
constexpr int kSignalBase = 128;

/// What LLVM or a check said before it ended; of the thread that is ending.
thread_local std::string lastWords;

void noteFatalError(void *, const char *reason, bool) {
  lastWords = reason;
  std::abort();
}

/// The alternative stack of the calling thread while it works.
class SignalStack {
public:
  SignalStack() : memory(new char[kStackBytes]) {
    stack_t own{.ss_sp = memory.get(), .ss_flags = 0, .ss_size = kStackBytes};
    sigaltstack(&own, &before);
  }
  ~SignalStack() { sigaltstack(&before, nullptr); }

private:
  std::unique_ptr<char[]> memory;
  stack_t before{};
};

} // namespace

void containCrashes() {
  llvm::CrashRecoveryContext::Enable();
  for (int signal : kSignals) {
    struct sigaction action;
    if (sigaction(signal, nullptr, &action) == 0) {
      action.sa_flags |= SA_ONSTACK;
      sigaction(signal, &action, nullptr);
    }
  }
  llvm::remove_fatal_error_handler();
  llvm::install_fatal_error_handler(noteFatalError, nullptr);
}

namespace {

struct Containing {
  std::mutex mutex;
  size_t count = 0;
};

Containing &containing() {
  static Containing shared;
  return shared;
}

} // namespace

void beginContaining() {
  std::lock_guard lock(containing().mutex);
  if (containing().count++ == 0) {
    containCrashes();
  }
}

void endContaining() {
  std::lock_guard lock(containing().mutex);
  if (--containing().count == 0) {
    llvm::remove_fatal_error_handler();
    llvm::CrashRecoveryContext::Disable();
  }
}

std::optional<std::string> crashOf(llvm::function_ref<void()> work) {
  SignalStack stack;
  lastWords.clear();
  llvm::CrashRecoveryContext context;
  if (context.RunSafely(work)) {
    return std::nullopt;
  }
  if (!lastWords.empty()) {
    return lastWords;
  }
  int signal = context.RetCode - kSignalBase;
  return signal > 0 ? strCat("a signal ended it (", strsignal(signal), ")") : "it aborted";
}

} // namespace tenon::pipeline
