// The one file that includes OpenSSL, through Boost.Asio's stream over it.

#include "server/http/ClientSocket.h"

#include <boost/asio/redirect_error.hpp>
#include <boost/asio/ssl/context.hpp>
#include <boost/asio/ssl/stream.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>
#include <fmt/format.h>

#include <string_view>

#include <netinet/tcp.h>

namespace tenon::server {
namespace {

namespace asio = boost::asio;
using asio::redirect_error;
using asio::use_awaitable;
using asio::ip::tcp;

/// The kernel holds no more than this of a reply beyond what the client's side has room for.
constexpr int kMaxUnsent = 256 << 10;
/// What is given to the socket at once.
constexpr size_t kMaxSent = 256 << 10;

/// Takes HTTP/2 where the client has it: gRPC's clients insist on it.
int chooseProtocol(SSL *, const unsigned char **out, unsigned char *outBytes,
                   const unsigned char *in, unsigned inBytes, void *) {
  constexpr std::string_view kProtocols("\x02h2\x08http/1.1");
  unsigned char *chosen = nullptr;
  int how = SSL_select_next_proto(&chosen, outBytes,
                                  reinterpret_cast<const unsigned char *>(kProtocols.data()),
                                  kProtocols.size(), in, inBytes);
  *out = chosen;
  return how == OPENSSL_NPN_NEGOTIATED ? SSL_TLSEXT_ERR_OK : SSL_TLSEXT_ERR_ALERT_FATAL;
}

Status badFile(std::string_view what, const std::string &path,
               const boost::system::error_code &error) {
  return Status::error(
      ErrorId::BadCertificate,
      fmt::format("{} '{}' cannot be used: {}", what, path, error.message()),
      "both must be PEM files; the certificate must match the key and be followed by its chain");
}

} // namespace

struct ClientSocket::Tls {
  Tls(tcp::socket &socket, asio::ssl::context &context) : stream(socket, context) {}
  asio::ssl::stream<tcp::socket &> stream;
};

ClientSocket::ClientSocket(tcp::socket socket, asio::ssl::context *context, bool isForProbes)
    : isForProbes(isForProbes), plain(std::move(socket)) {
  Error ignored;
  plain.set_option(tcp::no_delay(true), ignored);
  setsockopt(plain.native_handle(), IPPROTO_TCP, TCP_NOTSENT_LOWAT, &kMaxUnsent,
             sizeof(kMaxUnsent));
  if (context) {
    tls = std::make_unique<Tls>(plain, *context);
  }
}

ClientSocket::~ClientSocket() = default;

asio::awaitable<void> ClientSocket::handshake(Error &error) {
  if (tls) {
    co_await tls->stream.async_handshake(asio::ssl::stream_base::server,
                                         redirect_error(use_awaitable, error));
  }
}

asio::awaitable<size_t> ClientSocket::readSome(asio::mutable_buffer into, Error &error) {
  if (tls) {
    co_return co_await tls->stream.async_read_some(into, redirect_error(use_awaitable, error));
  }
  co_return co_await plain.async_read_some(into, redirect_error(use_awaitable, error));
}

void ClientSocket::beginRead(asio::mutable_buffer into, std::function<void(Error, size_t)> onEnd) {
  tls ? tls->stream.async_read_some(into, std::move(onEnd))
      : plain.async_read_some(into, std::move(onEnd));
}

void ClientSocket::beginWrite(asio::const_buffer from, std::function<void(Error, size_t)> onEnd) {
  tls ? asio::async_write(tls->stream, from, std::move(onEnd))
      : asio::async_write(plain, from, std::move(onEnd));
}

void ClientSocket::awaitReset(std::function<void(Error)> onReset) {
  plain.async_wait(tcp::socket::wait_error, std::move(onReset));
}

asio::awaitable<void> ClientSocket::write(const std::vector<asio::const_buffer> &parts,
                                          Error &error) {
  written.emplace();
  std::function<size_t(const Error &, size_t)> goesOn = [this](const Error &failure, size_t bytes) {
    if (bytes > written->moved) {
      written->add(bytes - written->moved);
    }
    return failure ? 0 : kMaxSent;
  };
  // A lambda as it is would bring its source's path into the names that the library keeps.
  if (tls) {
    co_await asio::async_write(tls->stream, parts, goesOn, redirect_error(use_awaitable, error));
  } else {
    co_await asio::async_write(plain, parts, goesOn, redirect_error(use_awaitable, error));
  }
  written.reset();
}

asio::awaitable<void> ClientSocket::linger() {
  Error error;
  if (tls) {
    co_await tls->stream.async_shutdown(redirect_error(use_awaitable, error));
    if (error == asio::error::operation_aborted) {
      co_return;
    }
  }
  error = Error();
  plain.shutdown(tcp::socket::shutdown_send, error);
  constexpr uint64_t kMax = 16 << 20;
  std::vector<std::byte> sink(64 << 10);
  for (uint64_t bytes = 0; !error && bytes < kMax;) {
    bytes +=
        co_await plain.async_read_some(asio::buffer(sink), redirect_error(use_awaitable, error));
  }
}

void ClientSocket::cancel() {
  Error ignored;
  plain.cancel(ignored);
}

Result<std::shared_ptr<asio::ssl::context>> loadTls(const std::string &certificates,
                                                    const std::string &key) {
  std::shared_ptr<asio::ssl::context> context =
      std::make_shared<asio::ssl::context>(asio::ssl::context::tls_server);
  SSL_CTX *native = context->native_handle();
  boost::system::error_code error;
  SSL_CTX_set_min_proto_version(native, TLS1_2_VERSION);
  SSL_CTX_set_options(native, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION |
                                  SSL_OP_IGNORE_UNEXPECTED_EOF);
  SSL_CTX_set_alpn_select_cb(native, chooseProtocol, nullptr);
  // A key with a passphrase would ask at the terminal.
  context->set_password_callback(
      [](size_t, asio::ssl::context::password_purpose) { return std::string(); }, error);
  context->use_certificate_chain_file(certificates, error);
  if (error) {
    return badFile("the certificate", certificates, error);
  }
  context->use_private_key_file(key, asio::ssl::context::pem, error);
  if (!error && SSL_CTX_check_private_key(native) != 1) {
    error = boost::system::error_code(static_cast<int>(ERR_get_error()),
                                      asio::error::get_ssl_category());
  }
  return error ? badFile("the key", key, error)
               : Result<std::shared_ptr<asio::ssl::context>>(std::move(context));
}

} // namespace tenon::server
