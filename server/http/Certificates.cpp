// Files are told apart by what stat says of them. Connections that go on keep what they began with.

#include "server/http/Certificates.h"

#include <boost/asio/use_awaitable.hpp>

#include <tuple>

#include <sys/stat.h>

namespace tenon::server {
namespace {

using FileFacts = std::tuple<ino_t, off_t, time_t, long>;

FileFacts factsOf(const std::string &path) {
  struct stat facts = {};
  stat(path.c_str(), &facts); // zeros where there is none: that is a change too
  return {facts.st_ino, facts.st_size, facts.st_mtim.tv_sec, facts.st_mtim.tv_nsec};
}

} // namespace

boost::asio::awaitable<void> watchCertificates(std::shared_ptr<ServerContext> server) {
  constexpr std::chrono::seconds kPeriod{1};
  const ServerOptions &options = server->options;
  auto look = [&] { return std::pair(factsOf(options.certificates), factsOf(options.key)); };
  std::pair<FileFacts, FileFacts> read = look(), last = read;
  boost::asio::steady_timer timer(server->context);
  for (;;) {
    timer.expires_after(kPeriod);
    co_await timer.async_wait(boost::asio::use_awaitable);
    std::pair<FileFacts, FileFacts> now = look();
    bool isWhole = now == last; // certificate and key come one after the other
    last = now;
    if (!isWhole || now == read) {
      continue;
    }
    read = now;
    Result<std::shared_ptr<boost::asio::ssl::context>> loaded =
        loadTls(options.certificates, options.key);
    if (loaded.isOk()) {
      server->tls = std::move(*loaded);
      options.log("the certificate was read again: new connections get it");
    } else {
      options.log(loaded.status().toString() +
                  "; connections get the certificate that was read before");
    }
  }
}

} // namespace tenon::server
