// HTTP/2 and gRPC as a connection brings them, and the messages by themselves: the first byte
// chooses.
#include "server/grpc/Framing.h"
#include "server/grpc/Infer.h"
#include "server/grpc/Messages.h"
#include "test/fuzz/Fuzz.h"

using namespace tenon;
using namespace tenon::server;

namespace {

constexpr uint64_t kMax = 1 << 16;

void parseMessage(std::string_view message) {
  (void)parseGrpcInfer(message).isOk();
  for (const Route &route : allRoutes()) {
    RouteMatch match;
    match.operation = route.operation;
    (void)readGrpcRequest(message, match).isOk();
  }
}

/// Reads messages as a call does, and gives back what came.
class Echo : public StreamHandler {
public:
  explicit Echo(Stream &stream) : stream(stream), reader(kMax) {
    (void)parseTimeout(stream.field("grpc-timeout")).isOk();
    (void)matchGrpcRoute(stream.field(":path")).isOk();
  }
  void received(std::string_view data) override {
    Status status = reader.feed(data, [this](ChargedString message, bool) {
      parseMessage(message.text);
      if (!stream.hasResponded()) {
        stream.respond({{":status", "200"}}, false);
      }
      stream.send({std::move(message.text), {}, nullptr});
      return Status::ok();
    });
    if (!status.isOk()) {
      finish(status);
    }
  }
  void ended() override { finish(reader.end()); }
  void closed() override {}
  void tick(std::chrono::steady_clock::time_point) override {}
  void drain() override {}

private:
  void finish(const Status &status) {
    if (std::exchange(isOver, true)) {
      return;
    }
    HeaderFields fields = statusFields(status);
    if (stream.hasResponded()) {
      stream.finish(std::move(fields));
    } else {
      fields.insert(fields.begin(), {":status", "200"});
      stream.respond(fields, true);
    }
  }

  Stream &stream;
  MessageReader reader;
  bool isOver = false;
};

} // namespace

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  if (size == 0) {
    return 0;
  }
  std::string_view text = fuzz::textOf(data + 1, size - 1);
  if (data[0] == 0) {
    parseMessage(text);
    return 0;
  }
  Session session(kMax, [](Stream &stream) { return std::make_unique<Echo>(stream); }, [] {});
  Outgoing out;
  session.receive("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
  // In pieces of the length that the first byte says.
  for (bool goesOn = true; goesOn && !text.empty();) {
    goesOn = session.receive(text.substr(0, data[0]));
    text.remove_prefix(std::min<size_t>(data[0], text.size()));
    session.collect(kMax, out);
  }
  session.tick(std::chrono::steady_clock::now(), std::chrono::seconds(1));
  session.goAway();
  session.collect(kMax, out);
  return 0;
}
