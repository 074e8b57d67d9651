// A bare echo of HTTP/1.1 bodies over Boost.Beast, by coroutines in one thread. The first line on
// stdout is its port.

#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>

#include <cstdio>
#include <exception>

namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = beast::http;
using asio::use_awaitable;

asio::awaitable<void> serve(asio::ip::tcp::socket socket) {
  socket.set_option(asio::ip::tcp::no_delay(true));
  beast::flat_buffer buffer;
  try {
    while (true) {
      http::request<http::string_body> request;
      co_await http::async_read(socket, buffer, request, use_awaitable);
      http::response<http::string_body> response(http::status::ok, request.version());
      response.set(http::field::content_type, "application/octet-stream");
      response.keep_alive(request.keep_alive());
      response.body() = std::move(request.body());
      response.prepare_payload();
      co_await http::async_write(socket, response, use_awaitable);
    }
  } catch (const std::exception &) {
    // the client has gone
  }
}

asio::awaitable<void> listen(asio::ip::tcp::acceptor acceptor) {
  while (true) {
    asio::ip::tcp::socket socket = co_await acceptor.async_accept(use_awaitable);
    asio::co_spawn(acceptor.get_executor(), serve(std::move(socket)), asio::detached);
  }
}

} // namespace

int main() {
  asio::io_context context(1);
  asio::ip::tcp::acceptor acceptor(context, {asio::ip::address_v4::loopback(), 0});
  printf("%d\n", acceptor.local_endpoint().port());
  fflush(stdout);
  asio::co_spawn(context, listen(std::move(acceptor)), asio::detached);
  context.run();
}
