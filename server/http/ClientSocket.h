// A connection's bytes, with or without TLS. Boost.Asio's sockets and streams; one thread.

#pragma once

#include "server/http2/Progress.h"
#include "support/Result.h"

#include <boost/asio/awaitable.hpp>
#include <boost/asio/buffer.hpp>
#include <boost/asio/ip/tcp.hpp>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace boost::asio::ssl {
class context;
} // namespace boost::asio::ssl

namespace tenon::server {

class ClientSocket {
public:
  using Error = boost::system::error_code;

  /// With TLS where `tls` is not null. The context may go before the socket: what a connection
  /// needs of it stays.
  ClientSocket(boost::asio::ip::tcp::socket socket, boost::asio::ssl::context *tls,
               bool isForProbes);
  ~ClientSocket();
  ClientSocket(const ClientSocket &) = delete;
  ClientSocket &operator=(const ClientSocket &) = delete;

  /// It is one more than connections may be, and asks for the server's health or nothing.
  const bool isForProbes;

  /// What comes before the first byte of the client's: nothing without TLS.
  boost::asio::awaitable<void> handshake(Error &error);
  boost::asio::awaitable<size_t> readSome(boost::asio::mutable_buffer into, Error &error);
  /// As readSome, but `onEnd` is called with it. One read at a time.
  void beginRead(boost::asio::mutable_buffer into, std::function<void(Error, size_t)> onEnd);
  /// As write, of one part.
  void beginWrite(boost::asio::const_buffer from, std::function<void(Error, size_t)> onEnd);
  /// `onReset` is called when the client refuses what was sent to it.
  void awaitReset(std::function<void(Error)> onReset);
  boost::asio::awaitable<void> write(const std::vector<boost::asio::const_buffer> &parts,
                                     Error &error);
  /// By when the client must take more of what is written: see Progress. Only what the socket has
  /// accepted counts.
  Progress::Clock::time_point writeDeadline(Progress::Clock::duration timeout) const {
    return written ? written->deadline(timeout) : Progress::Clock::time_point::max();
  }
  /// Ends the server's side, then reads for a moment what the client still sends: closing at once
  /// would take the last reply from it.
  boost::asio::awaitable<void> linger();
  /// Reads and writes that go on end with operation_aborted.
  void cancel();

private:
  struct Tls;
  boost::asio::ip::tcp::socket plain;
  std::unique_ptr<Tls> tls;
  std::optional<Progress> written; ///< while something is
};

/// The certificates and the key of the server, as PEM files, with what it offers: TLS 1.2 and 1.3,
/// HTTP/2 and HTTP/1.1 by ALPN. TN0831.
Result<std::shared_ptr<boost::asio::ssl::context>> loadTls(const std::string &certificates,
                                                           const std::string &key);

} // namespace tenon::server
