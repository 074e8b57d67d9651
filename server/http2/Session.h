// HTTP/2 without sockets: bytes in, requests and their pieces out; replies in, bytes out. It relies
// on nghttp2 for frames, HPACK, windows and the rules of streams, and bounds what a client can make
// the server do. Source: RFC 9113.

#pragma once

#include "server/http2/Progress.h"
#include "support/memory/ByteSpan.h"

#include <chrono>
#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

struct nghttp2_session;

namespace tenon::server {

/// Names in lower case, pseudo-fields as ":path".
using HeaderFields = std::vector<std::pair<std::string, std::string>>;

/// A piece of a reply: text of its own, or bytes that `owner` keeps.
struct Piece {
  std::string text;
  Bytes bytes;
  std::shared_ptr<const void> owner;
  size_t size() const { return text.size() + bytes.size(); }
};

/// What is to be written next, in order.
class Outgoing {
public:
  void append(std::string_view text);
  void append(Bytes bytes, std::shared_ptr<const void> owner);
  /// Keeps its memory for what comes next, as far as that is little.
  void clear();
  bool isEmpty() const { return total == 0; }
  uint64_t size() const { return total; }
  /// The spans live as long as this, unchanged.
  std::vector<Bytes> spans() const;

private:
  struct Part {
    size_t offset; ///< in `texts`, where `bytes` is empty
    size_t size;
    Bytes bytes;
  };
  std::string texts;
  std::vector<Part> parts;
  std::vector<std::shared_ptr<const void>> owners;
  uint64_t total = 0;
};

class Session;

/// One request as its receiver sees it. Valid until the handler's `closed`.
class Stream {
public:
  /// A field of the request while its handler is made; empty where missing. Several are joined by
  /// ", ".
  std::string field(std::string_view name) const;
  /// The request's header was larger than is taken: only some of it is there.
  bool isHeaderCut() const { return headerCut; }

  /// The header of the reply; `isWhole`: nothing follows it.
  void respond(const HeaderFields &fields, bool isWhole);
  void send(Piece piece);
  /// Ends the reply, with these trailers if any.
  void finish(HeaderFields trailers = {});
  /// Ends the stream without more, and tells the client so (a code of RFC 9113, section 7).
  void reset(uint32_t code);
  bool hasResponded() const { return responded; }
  /// That the client has not taken yet.
  size_t pendingPieces() const { return pieces.size(); }

private:
  friend class Session;
  Session *session = nullptr;
  int32_t id = 0;
  HeaderFields header;
  size_t headerBytes = 0;
  bool headerCut = false;
  bool responded = false, finished = false, requestEnded = false, isDeferred = false;
  std::list<Piece> pieces;
  size_t firstTaken = 0; ///< bytes of the first piece that are sent
  uint64_t pending = 0;
  HeaderFields trailers;
  Progress taken; ///< since the first piece came of what the client is to take
  std::unique_ptr<class StreamHandler> handler;
};

/// Notified of a request as it comes.
class StreamHandler {
public:
  virtual ~StreamHandler() = default;
  virtual void received(std::string_view data) = 0;
  /// The client has sent all.
  virtual void ended() = 0;
  /// The stream is over: it was answered, or the client reset it or went away. The stream is gone
  /// after it, and the handler too.
  virtual void closed() = 0;
  virtual void tick(std::chrono::steady_clock::time_point now) = 0;
  /// The server stops.
  virtual void drain() = 0;
};

class Session {
public:
  /// Makes the handler of a request whose header is there; it may respond at once.
  using MakeHandler = std::function<std::unique_ptr<StreamHandler>(Stream &)>;
  /// Of a request's header at most `maxHeader` bytes are kept; `onWork` is called when something
  /// is to be written that was not before.
  Session(size_t maxHeader, MakeHandler makeHandler, std::function<void()> onWork);
  ~Session();
  Session(const Session &) = delete;
  Session &operator=(const Session &) = delete;

  /// False when the client broke the protocol or its bounds: what `collect` still gives is written,
  /// then the connection ends.
  bool receive(std::string_view bytes);
  /// Makes `out` what is to be written now, some `most` bytes.
  void collect(uint64_t most, Outgoing &out);
  /// Nothing is to be read or written any more.
  bool isOver() const;
  size_t streamCount() const { return streams.size(); }

  void tick(std::chrono::steady_clock::time_point now, std::chrono::steady_clock::duration slowest);
  /// Takes no new streams.
  void goAway();
  /// The connection has ended: closes all handlers.
  void closeAll();

private:
  friend class Stream;
  struct Callbacks;
  void resume(Stream &stream);
  bool countControlFrame();

  size_t maxHeader;
  MakeHandler makeHandler;
  std::function<void()> onWork;
  nghttp2_session *native = nullptr;
  std::map<int32_t, std::unique_ptr<Stream>> streams;
  Outgoing *outgoing = nullptr; ///< while collect runs
  uint64_t maxOutgoing = 0;
  double controlAllowance;
  std::chrono::steady_clock::time_point lastControl;
  bool isFlooded = false;
};

} // namespace tenon::server
