// Files are told apart by what stat says of them.

#include "server/http/FileWatch.h"

#include <boost/asio/use_awaitable.hpp>
#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <tuple>
#include <vector>

#include <sys/stat.h>

namespace tenon::server {
namespace {

using FileInfo = std::tuple<ino_t, off_t, time_t, long>;

FileInfo infoOf(const std::string &path) {
  struct stat info = {};
  stat(path.c_str(), &info); // zeros where there is none: that is a change too
  return {info.st_ino, info.st_size, info.st_mtim.tv_sec, info.st_mtim.tv_nsec};
}

/// `read` is called for each change of the files, with its own way to keep what it reads; what it
/// gives says what then holds.
boost::asio::awaitable<void> watch(std::shared_ptr<ServerContext> server,
                                   std::vector<std::string> paths, std::string_view what,
                                   std::function<Status(ServerContext &)> read) {
  constexpr std::chrono::seconds kPeriod{1};
  auto look = [&] {
    std::vector<FileInfo> infos;
    std::transform(paths.begin(), paths.end(), std::back_inserter(infos), infoOf);
    return infos;
  };
  std::vector<FileInfo> known = look(), last = known;
  boost::asio::steady_timer timer(server->context);
  for (;;) {
    timer.expires_after(kPeriod);
    co_await timer.async_wait(boost::asio::use_awaitable);
    std::vector<FileInfo> now = look();
    bool isWhole = now == last; // certificate and key come one after the other
    last = now;
    if (!isWhole || now == known) {
      continue;
    }
    known = now;
    Status status = read(*server);
    if (status.isOk()) {
      server->options.log(fmt::format("{} reloaded", what));
    } else {
      server->options.log(fmt::format("{}; the previous contents stay in use", status.toString()),
                          LogLevel::Error);
    }
  }
}

} // namespace

boost::asio::awaitable<void> watchCertificates(std::shared_ptr<ServerContext> server) {
  const ServerOptions &options = server->options;
  return watch(server, {options.certificates, options.key}, "the certificate was",
               [](ServerContext &context) -> Status {
                 TENON_ASSIGN(context.tls, // connections that go on keep what they began with
                              loadTls(context.options.certificates, context.options.key));
                 return Status::ok();
               });
}

boost::asio::awaitable<void> watchTokens(std::shared_ptr<ServerContext> server) {
  return watch(server, {server->options.tokenFile}, "the tokens were",
               [](ServerContext &context) -> Status {
                 TENON_ASSIGN(context.tokens, Tokens::load(context.options.tokenFile));
                 return Status::ok();
               });
}

} // namespace tenon::server
