// Files are told apart by what stat says of them. Connections that go on keep what they began with.

#include "server/http/Certificates.h"

#include <boost/asio/use_awaitable.hpp>

#include <tuple>

#include <sys/stat.h>

namespace tenon::server {
namespace {

using FileInfo = std::tuple<ino_t, off_t, time_t, long>;

FileInfo infoOf(const std::string &path) {
  struct stat info = {};
  stat(path.c_str(), &info); // zeros where there is none: that is a change too
  return {info.st_ino, info.st_size, info.st_mtim.tv_sec, info.st_mtim.tv_nsec};
}

} // namespace

boost::asio::awaitable<void> watchCertificates(std::shared_ptr<ServerContext> server) {
  constexpr std::chrono::seconds kPeriod{1};
  const ServerOptions &options = server->options;
  auto look = [&] { return std::pair(infoOf(options.certificates), infoOf(options.key)); };
  std::pair<FileInfo, FileInfo> read = look(), last = read;
  boost::asio::steady_timer timer(server->context);
  for (;;) {
    timer.expires_after(kPeriod);
    co_await timer.async_wait(boost::asio::use_awaitable);
    std::pair<FileInfo, FileInfo> now = look();
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
