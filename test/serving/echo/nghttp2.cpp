// A bare echo of gRPC messages over nghttp2, in one thread: what a server of ours costs at least.
// The first line on stdout is its port.

#include <nghttp2/nghttp2.h>

#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <map>
#include <string>
#include <string_view>

namespace {

struct Stream {
  std::string body;
  size_t sent = 0;
};

struct Connection {
  int socket = -1;
  nghttp2_session *session = nullptr;
  std::map<int32_t, Stream> streams;
};

nghttp2_nv field(std::string_view name, std::string_view value) {
  return {reinterpret_cast<uint8_t *>(const_cast<char *>(name.data())),
          reinterpret_cast<uint8_t *>(const_cast<char *>(value.data())), name.size(), value.size(),
          NGHTTP2_NV_FLAG_NO_COPY_NAME | NGHTTP2_NV_FLAG_NO_COPY_VALUE};
}

ssize_t readBody(nghttp2_session *session, int32_t id, uint8_t *to, size_t size, uint32_t *flags,
                 nghttp2_data_source *source, void *) {
  Stream &stream = *static_cast<Stream *>(source->ptr);
  size_t count = std::min(size, stream.body.size() - stream.sent);
  memcpy(to, stream.body.data() + stream.sent, count);
  stream.sent += count;
  if (stream.sent == stream.body.size()) {
    *flags |= NGHTTP2_DATA_FLAG_EOF | NGHTTP2_DATA_FLAG_NO_END_STREAM;
    nghttp2_nv trailer = field("grpc-status", "0");
    nghttp2_submit_trailer(session, id, &trailer, 1);
  }
  return static_cast<ssize_t>(count);
}

int onBegin(nghttp2_session *, const nghttp2_frame *frame, void *user) {
  static_cast<Connection *>(user)->streams[frame->hd.stream_id];
  return 0;
}

int onData(nghttp2_session *, uint8_t, int32_t id, const uint8_t *data, size_t size, void *user) {
  static_cast<Connection *>(user)->streams[id].body.append(reinterpret_cast<const char *>(data),
                                                           size);
  return 0;
}

int onFrame(nghttp2_session *session, const nghttp2_frame *frame, void *user) {
  bool isRequest = frame->hd.type == NGHTTP2_DATA || frame->hd.type == NGHTTP2_HEADERS;
  if (isRequest && (frame->hd.flags & NGHTTP2_FLAG_END_STREAM)) {
    nghttp2_nv fields[] = {field(":status", "200"), field("content-type", "application/grpc")};
    nghttp2_data_provider body = {
        {.ptr = &static_cast<Connection *>(user)->streams[frame->hd.stream_id]}, readBody};
    nghttp2_submit_response(session, frame->hd.stream_id, fields, 2, &body);
  }
  return 0;
}

int onClose(nghttp2_session *, int32_t id, uint32_t, void *user) {
  static_cast<Connection *>(user)->streams.erase(id);
  return 0;
}

/// False when the connection has ended.
bool serve(Connection &connection) {
  char buffer[65536];
  ssize_t size = recv(connection.socket, buffer, sizeof(buffer), 0);
  if (size <= 0 || nghttp2_session_mem_recv(connection.session, reinterpret_cast<uint8_t *>(buffer),
                                            static_cast<size_t>(size)) < 0) {
    return false;
  }
  std::string out;
  const uint8_t *piece = nullptr;
  while ((size = nghttp2_session_mem_send(connection.session, &piece)) > 0) {
    out.append(reinterpret_cast<const char *>(piece), static_cast<size_t>(size));
  }
  return out.empty() || send(connection.socket, out.data(), out.size(), MSG_NOSIGNAL) ==
                            static_cast<ssize_t>(out.size());
}

} // namespace

int main() {
  nghttp2_session_callbacks *callbacks = nullptr;
  nghttp2_session_callbacks_new(&callbacks);
  nghttp2_session_callbacks_set_on_begin_headers_callback(callbacks, onBegin);
  nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks, onData);
  nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks, onFrame);
  nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, onClose);

  int listener = socket(AF_INET, SOCK_STREAM, 0), events = epoll_create1(0);
  sockaddr_in address = {
      .sin_family = AF_INET, .sin_port = 0, .sin_addr = {htonl(INADDR_LOOPBACK)}, .sin_zero = {}};
  socklen_t size = sizeof(address);
  bind(listener, reinterpret_cast<sockaddr *>(&address), size);
  listen(listener, 1024);
  getsockname(listener, reinterpret_cast<sockaddr *>(&address), &size);
  printf("%d\n", ntohs(address.sin_port));
  fflush(stdout);

  epoll_event event = {.events = EPOLLIN, .data = {.ptr = nullptr}};
  epoll_ctl(events, EPOLL_CTL_ADD, listener, &event);
  while (true) {
    epoll_event ready[64];
    int count = epoll_wait(events, ready, 64, -1);
    for (int i = 0; i < count; ++i) {
      Connection *connection = static_cast<Connection *>(ready[i].data.ptr);
      if (!connection) {
        connection = new Connection{
            .socket = accept(listener, nullptr, nullptr), .session = nullptr, .streams = {}};
        int one = 1;
        setsockopt(connection->socket, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
        nghttp2_session_server_new(&connection->session, callbacks, connection);
        nghttp2_settings_entry most = {NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, 256};
        nghttp2_submit_settings(connection->session, NGHTTP2_FLAG_NONE, &most, 1);
        event.data.ptr = connection;
        epoll_ctl(events, EPOLL_CTL_ADD, connection->socket, &event);
      } else if (!serve(*connection)) {
        close(connection->socket);
        nghttp2_session_del(connection->session);
        delete connection;
      }
    }
  }
}
