// Callbacks of nghttp2. Data of replies is framed without copying: nghttp2 asks how many bytes
// there are, then has the frame sent from where they lie.

#include "server/http2/Session.h"

#include <nghttp2/nghttp2.h>

#include <algorithm>
#include <new>

/// What nghttp2's own tests print to: see server/CMakeLists.txt.
extern "C" {
void *tenon_nghttp2_stderr = nullptr;
}

namespace tenon::server {
namespace {

using Clock = std::chrono::steady_clock;

constexpr uint32_t kMaxStreams = 256;
constexpr uint32_t kStreamWindow = 4 << 20;
constexpr int32_t kConnectionWindow = 16 << 20;
/// Headers that are larger than is taken are answered, far larger ones end the connection.
constexpr size_t kFarHeader = 4 << 20;
/// Frames that ask for work and carry nothing (PING, SETTINGS, PRIORITY, RST_STREAM, empty DATA):
/// so many at once, and so many a second.
constexpr double kControlBurst = 2'000, kControlRate = 200;
/// Streams that a client may reset at once and a second: each costs the server a request that
/// nobody reads (CVE-2023-44487).
constexpr uint64_t kResetBurst = 1'000, kResetRate = 100;
/// CONTINUATION frames of one header (CVE-2024-28182).
constexpr size_t kMaxContinuations = 8;
constexpr size_t kMaxSettings = 32;
/// Frames of replies: fewer and larger ones cost less, where the client takes them.
constexpr size_t kMaxFrame = 256 << 10;

std::vector<nghttp2_nv> nativeFields(const HeaderFields &fields) {
  std::vector<nghttp2_nv> natives;
  for (const auto &[name, value] : fields) {
    natives.push_back({reinterpret_cast<uint8_t *>(const_cast<char *>(name.data())),
                       reinterpret_cast<uint8_t *>(const_cast<char *>(value.data())), name.size(),
                       value.size(), NGHTTP2_NV_FLAG_NONE});
  }
  return natives;
}

std::string_view textOf(const uint8_t *data, size_t size) {
  return {reinterpret_cast<const char *>(data), size};
}

} // namespace

std::string Stream::field(std::string_view name) const {
  std::string joined;
  bool hasOne = false;
  for (const auto &[key, value] : header) {
    if (key == name) {
      joined += hasOne ? ", " : "";
      joined += value;
      hasOne = true;
    }
  }
  return joined;
}

struct Session::Callbacks {
  /// No exception goes through nghttp2: without memory the connection ends, and no other.
  template <auto callback, typename... Arguments> static int guarded(Arguments... arguments) {
    try {
      return callback(arguments...);
    } catch (const std::bad_alloc &) {
      return NGHTTP2_ERR_CALLBACK_FAILURE;
    }
  }

  static Session &self(void *user) { return *static_cast<Session *>(user); }
  static Stream *find(void *user, int32_t id) {
    auto found = self(user).streams.find(id);
    return found == self(user).streams.end() ? nullptr : found->second.get();
  }

  static int beginHeaders(nghttp2_session *, const nghttp2_frame *frame, void *user) {
    Session &session = self(user);
    if (frame->headers.cat != NGHTTP2_HCAT_REQUEST) {
      return 0; // trailers, which nothing here looks at
    }
    std::unique_ptr<Stream> stream = std::make_unique<Stream>();
    stream->session = &session;
    stream->id = frame->hd.stream_id;
    session.streams.emplace(stream->id, std::move(stream));
    return 0;
  }

  static int header(nghttp2_session *, const nghttp2_frame *frame, const uint8_t *name,
                    size_t nameBytes, const uint8_t *value, size_t valueBytes, uint8_t,
                    void *user) {
    Stream *stream = find(user, frame->hd.stream_id);
    if (!stream) {
      return 0;
    }
    stream->headerBytes += nameBytes + valueBytes + 32; // as SETTINGS_MAX_HEADER_LIST_SIZE counts
    if (stream->headerBytes > kFarHeader) {
      self(user).isFlooded = true;
      return NGHTTP2_ERR_CALLBACK_FAILURE;
    }
    stream->headerCut = stream->headerCut || stream->headerBytes > self(user).maxHeader;
    if (!stream->headerCut && frame->headers.cat == NGHTTP2_HCAT_REQUEST) {
      stream->header.emplace_back(textOf(name, nameBytes), textOf(value, valueBytes));
    }
    return 0;
  }

  static int frameReceived(nghttp2_session *, const nghttp2_frame *frame, void *user) {
    Session &session = self(user);
    uint8_t type = frame->hd.type;
    bool carriesNothing = type == NGHTTP2_PING || type == NGHTTP2_SETTINGS ||
                          type == NGHTTP2_PRIORITY || type == NGHTTP2_RST_STREAM ||
                          (type == NGHTTP2_DATA && frame->hd.length == 0 &&
                           !(frame->hd.flags & NGHTTP2_FLAG_END_STREAM));
    if (carriesNothing && !session.countControlFrame()) {
      return NGHTTP2_ERR_CALLBACK_FAILURE;
    }
    if (type != NGHTTP2_HEADERS && type != NGHTTP2_DATA) {
      return 0;
    }
    Stream *stream = find(user, frame->hd.stream_id);
    if (!stream) {
      return 0;
    }
    if (type == NGHTTP2_HEADERS && frame->headers.cat == NGHTTP2_HCAT_REQUEST) {
      stream->handler = session.makeHandler(*stream);
      stream->header = {}; // streams that wait for their body would keep some MiB of it
    }
    if ((frame->hd.flags & NGHTTP2_FLAG_END_STREAM) && !stream->requestEnded) {
      stream->requestEnded = true;
      stream->handler->ended();
    }
    return 0;
  }

  static int data(nghttp2_session *, uint8_t, int32_t id, const uint8_t *bytes, size_t size,
                  void *user) {
    Stream *stream = find(user, id);
    if (stream && stream->handler) {
      stream->handler->received(textOf(bytes, size));
    }
    return 0;
  }

  static int closed(nghttp2_session *, int32_t id, uint32_t, void *user) {
    Session &session = self(user);
    auto found = session.streams.find(id);
    if (found != session.streams.end()) {
      std::unique_ptr<Stream> stream = std::move(found->second);
      session.streams.erase(found);
      if (stream->handler) {
        stream->handler->closed();
      }
    }
    return 0;
  }

  static ssize_t read(nghttp2_session *native, int32_t id, uint8_t *, size_t most, uint32_t *flags,
                      nghttp2_data_source *source, void *) {
    Stream &stream = *static_cast<Stream *>(source->ptr);
    size_t bytes = static_cast<size_t>(std::min<uint64_t>(stream.pending, most));
    bool isAll = bytes == stream.pending;
    if (bytes == 0 && !stream.finished) {
      stream.isDeferred = true;
      return NGHTTP2_ERR_DEFERRED;
    }
    *flags |= NGHTTP2_DATA_FLAG_NO_COPY;
    if (isAll && stream.finished) {
      *flags |= NGHTTP2_DATA_FLAG_EOF;
      if (!stream.trailers.empty()) {
        *flags |= NGHTTP2_DATA_FLAG_NO_END_STREAM;
        std::vector<nghttp2_nv> fields = nativeFields(stream.trailers);
        nghttp2_submit_trailer(native, id, fields.data(), fields.size());
      }
    }
    return static_cast<ssize_t>(bytes);
  }

  static int sendData(nghttp2_session *, nghttp2_frame *, const uint8_t *frameHead, size_t length,
                      nghttp2_data_source *source, void *user) {
    constexpr size_t kFrameHead = 9;
    Stream &stream = *static_cast<Stream *>(source->ptr);
    Outgoing &out = *self(user).outgoing;
    if (out.size() >= self(user).maxOutgoing) {
      return NGHTTP2_ERR_WOULDBLOCK;
    }
    stream.taken.add(length);
    out.append(textOf(frameHead, kFrameHead));
    while (length > 0) {
      Piece &piece = stream.pieces.front();
      size_t taken = std::min(length, piece.size() - stream.firstTaken);
      if (!piece.text.empty()) {
        out.append(std::string_view(piece.text).substr(stream.firstTaken, taken));
      } else {
        out.append(piece.bytes.subspan(stream.firstTaken, taken), piece.owner);
      }
      length -= taken;
      stream.pending -= taken;
      stream.firstTaken += taken;
      if (stream.firstTaken == piece.size()) {
        stream.pieces.pop_front();
        stream.firstTaken = 0;
      }
    }
    return 0;
  }

  static int frameSent(nghttp2_session *native, const nghttp2_frame *frame, void *user) {
    if (frame->hd.type == NGHTTP2_RST_STREAM &&
        frame->rst_stream.error_code == NGHTTP2_PROTOCOL_ERROR) {
      self(user).countControlFrame(); // a client can have its streams reset, too (CVE-2025-8671)
    }
    // A client that has the whole reply need not send the rest. Source: RFC 9113, section 8.1.
    bool ends = (frame->hd.type == NGHTTP2_HEADERS || frame->hd.type == NGHTTP2_DATA) &&
                (frame->hd.flags & NGHTTP2_FLAG_END_STREAM);
    Stream *stream = ends ? find(user, frame->hd.stream_id) : nullptr;
    if (stream && !stream->requestEnded) {
      nghttp2_submit_rst_stream(native, NGHTTP2_FLAG_NONE, frame->hd.stream_id, NGHTTP2_NO_ERROR);
    }
    return 0;
  }

  static ssize_t frameLength(nghttp2_session *, uint8_t, int32_t, int32_t sessionWindow,
                             int32_t streamWindow, uint32_t most, void *) {
    return std::min<ssize_t>(
        {sessionWindow, streamWindow, static_cast<ssize_t>(most), static_cast<ssize_t>(kMaxFrame)});
  }
};

void Stream::respond(const HeaderFields &fields, bool isWhole) {
  responded = true;
  finished = isWhole;
  std::vector<nghttp2_nv> natives = nativeFields(fields);
  nghttp2_data_provider provider = {};
  provider.source.ptr = this;
  provider.read_callback = Session::Callbacks::read;
  nghttp2_submit_response(session->native, id, natives.data(), natives.size(),
                          isWhole ? nullptr : &provider);
  session->onWork();
}

void Stream::send(Piece piece) {
  if (piece.size() == 0) {
    return;
  }
  if (pending == 0) {
    taken = Progress();
  }
  pending += piece.size();
  pieces.push_back(std::move(piece));
  session->resume(*this);
}

void Stream::finish(HeaderFields fields) {
  finished = true;
  trailers = std::move(fields);
  session->resume(*this);
}

void Stream::reset(uint32_t code) {
  nghttp2_submit_rst_stream(session->native, NGHTTP2_FLAG_NONE, id, code);
  session->onWork();
}

Session::Session(size_t maxHeader, MakeHandler makeHandler, std::function<void()> onWork)
    : maxHeader(maxHeader), makeHandler(std::move(makeHandler)), onWork(std::move(onWork)),
      controlAllowance(kControlBurst), lastControl(Clock::now()) {
  nghttp2_session_callbacks *callbacks = nullptr;
  nghttp2_option *option = nullptr;
  nghttp2_session_callbacks_new(&callbacks);
  nghttp2_session_callbacks_set_on_begin_headers_callback(
      callbacks, Callbacks::guarded<Callbacks::beginHeaders>);
  nghttp2_session_callbacks_set_on_header_callback(callbacks,
                                                   Callbacks::guarded<Callbacks::header>);
  nghttp2_session_callbacks_set_on_frame_recv_callback(
      callbacks, Callbacks::guarded<Callbacks::frameReceived>);
  nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks,
                                                            Callbacks::guarded<Callbacks::data>);
  nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, Callbacks::closed);
  nghttp2_session_callbacks_set_on_frame_send_callback(callbacks, Callbacks::frameSent);
  nghttp2_session_callbacks_set_send_data_callback(callbacks,
                                                   Callbacks::guarded<Callbacks::sendData>);
  nghttp2_session_callbacks_set_data_source_read_length_callback(callbacks, Callbacks::frameLength);
  nghttp2_option_new(&option);
  nghttp2_option_set_stream_reset_rate_limit(option, kResetBurst, kResetRate);
  nghttp2_option_set_max_continuations(option, kMaxContinuations);
  nghttp2_option_set_max_settings(option, kMaxSettings);
  nghttp2_session_server_new2(&native, callbacks, this, option);
  nghttp2_option_del(option);
  nghttp2_session_callbacks_del(callbacks);
  const nghttp2_settings_entry settings[] = {
      {NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, kMaxStreams},
      {NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, kStreamWindow},
      {NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE, static_cast<uint32_t>(maxHeader)}};
  nghttp2_submit_settings(native, NGHTTP2_FLAG_NONE, settings, std::size(settings));
  nghttp2_session_set_local_window_size(native, NGHTTP2_FLAG_NONE, 0, kConnectionWindow);
}

Session::~Session() {
  closeAll();
  nghttp2_session_del(native);
}

bool Session::countControlFrame() {
  Clock::time_point now = Clock::now();
  controlAllowance =
      std::min(kControlBurst,
               controlAllowance +
                   std::chrono::duration<double>(now - lastControl).count() * kControlRate) -
      1;
  lastControl = now;
  isFlooded = isFlooded || controlAllowance < 0;
  return !isFlooded;
}

bool Session::receive(std::string_view bytes) {
  ssize_t taken = nghttp2_session_mem_recv(native, reinterpret_cast<const uint8_t *>(bytes.data()),
                                           bytes.size());
  if (taken < 0 || isFlooded) {
    nghttp2_session_terminate_session(native, isFlooded ? NGHTTP2_ENHANCE_YOUR_CALM
                                                        : NGHTTP2_PROTOCOL_ERROR);
    return false;
  }
  return true;
}

void Session::collect(uint64_t most, Outgoing &out) {
  out.clear();
  outgoing = &out;
  maxOutgoing = most;
  while (out.size() < most) {
    const uint8_t *data = nullptr;
    ssize_t bytes = nghttp2_session_mem_send(native, &data);
    if (bytes <= 0) {
      break;
    }
    out.append(textOf(data, static_cast<size_t>(bytes)));
  }
  outgoing = nullptr;
}

bool Session::isOver() const {
  return nghttp2_session_want_read(native) == 0 && nghttp2_session_want_write(native) == 0;
}

void Session::resume(Stream &stream) {
  if (std::exchange(stream.isDeferred, false)) {
    nghttp2_session_resume_data(native, stream.id);
  }
  onWork();
}

void Session::tick(Clock::time_point now, Clock::duration slowest) {
  for (const auto &[id, stream] : streams) {
    if (stream->pending > 0 && stream->taken.deadline(slowest) < now) {
      stream->reset(NGHTTP2_ENHANCE_YOUR_CALM); // the client takes too little of the reply
    } else if (stream->handler) {
      stream->handler->tick(now);
    }
  }
}

void Session::goAway() {
  nghttp2_submit_goaway(native, NGHTTP2_FLAG_NONE, nghttp2_session_get_last_proc_stream_id(native),
                        NGHTTP2_NO_ERROR, nullptr, 0);
  for (const auto &[id, stream] : streams) {
    if (stream->handler) {
      stream->handler->drain();
    }
  }
  onWork();
}

void Session::closeAll() {
  std::map<int32_t, std::unique_ptr<Stream>> all = std::exchange(streams, {});
  for (const auto &[id, stream] : all) {
    if (stream->handler) {
      stream->handler->closed();
    }
  }
}

} // namespace tenon::server
