// Errors that repeat, as those of a full queue do thousands of times a second, are found at the
// front.

#include "server/api/ErrorRing.h"

#include "support/WallClock.h"

#include <algorithm>
#include <utility>

namespace tenon::server {
namespace {

constexpr size_t kMaxErrors = 64;
/// Bytes of a text that are kept: clients put what they like into some of them.
constexpr size_t kMaxText = 1000;

} // namespace

void ErrorRing::add(std::string_view model, const Status &status) {
  std::string_view message = status.message().substr(0, kMaxText), name = model.substr(0, kMaxText);
  std::deque<NotedError>::iterator known =
      std::find_if(errors.begin(), errors.end(), [&](const NotedError &each) {
        return each.id == status.id() && each.model == name && each.message == message;
      });
  if (known == errors.end()) {
    if (errors.size() == kMaxErrors) {
      errors.pop_back();
    }
    errors.push_front({0, status.id(), std::string(name), std::string(message),
                       std::string(status.hint().substr(0, kMaxText)), 0});
  } else {
    std::rotate(errors.begin(), known, known + 1);
  }
  errors.front().time = wallClock();
  ++errors.front().count;
}

} // namespace tenon::server
