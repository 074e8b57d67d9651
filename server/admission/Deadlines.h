// What is to happen at a time, unless it is dropped before: one timer for all.

#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/steady_timer.hpp>

#include <chrono>
#include <functional>
#include <map>

namespace tenon::server {

using Clock = std::chrono::steady_clock;

inline uint64_t nanosecondsSince(Clock::time_point start) {
  return static_cast<uint64_t>(
      std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now() - start).count());
}

class Deadlines {
public:
  using Entry = std::multimap<Clock::time_point, std::function<void()>>::iterator;

  explicit Deadlines(boost::asio::any_io_executor executor) : timer(executor) {}
  Entry add(Clock::time_point time, std::function<void()> action);
  void drop(Entry entry) { entries.erase(entry); }

private:
  void arm();

  boost::asio::steady_timer timer;
  std::multimap<Clock::time_point, std::function<void()>> entries;
};

} // namespace tenon::server
