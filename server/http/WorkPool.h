// Threads for what would hold up the event loop: reading and writing JSON, compression. Each piece
// of work touches only what it was given; what follows from it happens on the loop again.

#pragma once

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>

#include <functional>
#include <thread>
#include <vector>

namespace tenon::server {

class WorkPool {
public:
  explicit WorkPool(boost::asio::io_context &loop);
  ~WorkPool() { stop(); }

  /// Runs `work` on a thread, then `then` on the loop. What `work` refers to is kept by `then`.
  void run(std::function<void()> work, std::function<void()> then);
  /// Ends the threads; what has not begun is dropped.
  void stop();

private:
  boost::asio::io_context &loop;
  boost::asio::io_context pool;
  boost::asio::executor_work_guard<boost::asio::io_context::executor_type> guard;
  std::vector<std::thread> threads;
};

} // namespace tenon::server
