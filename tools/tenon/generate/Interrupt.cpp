// The flag is all that a handler may touch.
#include "tools/tenon/generate/Interrupt.h"

namespace tenon::tool {
namespace {

volatile std::sig_atomic_t wasInterrupted = 0;

} // namespace

Interrupt::Interrupt() {
  wasInterrupted = 0;
  struct sigaction action = {};
  action.sa_handler = [](int) { wasInterrupted = 1; };
  // Without SA_RESTART, so that waiting for a line ends too.
  sigaction(SIGINT, &action, &before);
}

Interrupt::~Interrupt() { sigaction(SIGINT, &before, nullptr); }

bool Interrupt::taken() {
  bool was = wasInterrupted != 0;
  wasInterrupted = 0;
  return was;
}

} // namespace tenon::tool
