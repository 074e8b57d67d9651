// The body of a reply whose parts come one after the other, between who makes and who sends them.
// One thread.

#pragma once

#include <functional>
#include <string>
#include <utility>

namespace tenon::server {

class ReplyStream {
public:
  /// The client takes less than is made, and no more is kept for it.
  static constexpr size_t kMaxUnsent = 4 << 20;

  /// False where there is too much that the client has not taken.
  bool append(std::string part, bool isLast) {
    unsent += part;
    ended = ended || isLast;
    if (onMore) {
      onMore();
    }
    return unsent.size() <= kMaxUnsent;
  }
  /// What is to be sent next.
  std::string take() { return std::exchange(unsent, {}); }
  bool isEmpty() const { return unsent.empty(); }
  bool isOver() const { return ended; } ///< nothing comes behind what is unsent

  /// Called when there is more to send; set by who sends.
  std::function<void()> onMore;

private:
  std::string unsent;
  bool ended = false;
};

} // namespace tenon::server
