// An event loop with several threads; the system's scheduler slices what runs at once.

#include "server/http/WorkPool.h"

#include <boost/asio/post.hpp>

#include <sys/resource.h>
#include <unistd.h>

namespace tenon::server {
namespace {

/// More than CPUs: work that takes seconds keeps no short one waiting.
constexpr size_t kThreads = 8;
/// Behind the loop and the workers.
constexpr int kNice = 5;

} // namespace

WorkPool::WorkPool(boost::asio::io_context &loop)
    : loop(loop), pool(std::make_unique<boost::asio::io_context>(kThreads)),
      guard(pool->get_executor()) {
  for (size_t i = 0; i < kThreads; ++i) {
    threads.emplace_back([this] {
      setpriority(PRIO_PROCESS, static_cast<id_t>(gettid()), kNice);
      pool->run();
    });
  }
}

void WorkPool::run(std::function<void()> work, std::function<void()> then) {
  boost::asio::post(*pool, [this, work = std::move(work), then = std::move(then)]() mutable {
    work();
    boost::asio::post(loop, std::move(then));
  });
}

void WorkPool::drop(std::shared_ptr<void> large) {
  if (pool) {
    boost::asio::post(*pool, [large = std::move(large)] {});
  }
}

void WorkPool::stop() {
  if (!pool) {
    return;
  }
  pool->stop();
  for (std::thread &thread : threads) {
    thread.join();
  }
  guard.reset();
  pool = nullptr; // what is dropped goes while all that it refers to is there
}

} // namespace tenon::server
