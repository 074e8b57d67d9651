// The timer is set again for the first entry after each change.

#include "server/admission/Deadlines.h"

namespace tenon::server {

Deadlines::Entry Deadlines::add(Clock::time_point time, std::function<void()> action) {
  Entry entry = entries.emplace(time, std::move(action));
  arm();
  return entry;
}

void Deadlines::arm() {
  if (entries.empty()) {
    return;
  }
  timer.expires_at(entries.begin()->first);
  timer.async_wait([this](boost::system::error_code error) {
    if (error) {
      return;
    }
    while (!entries.empty() && entries.begin()->first <= Clock::now()) {
      std::function<void()> action = entries.begin()->second; // which drops the entry
      action();
    }
    arm();
  });
}

} // namespace tenon::server
