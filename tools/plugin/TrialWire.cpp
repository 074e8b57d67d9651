// Numbers of 64 bits, and bytes behind their number. Relies on both sides being one program.
#include "tools/plugin/TrialWire.h"

#include <bit>
#include <cerrno>
#include <cstring>
#include <poll.h>
#include <sys/socket.h>

namespace tenon::tool {
namespace {

class WireWriter {
public:
  void number(uint64_t value) {
    whole.append(reinterpret_cast<const char *>(&value), sizeof value);
  }
  void text(std::string_view bytes) {
    number(bytes.size());
    whole += bytes;
  }
  void data(Bytes bytes) { text({reinterpret_cast<const char *>(bytes.data()), bytes.size()}); }
  std::string take() { return std::move(whole); }

private:
  std::string whole;
};

class WireReader {
public:
  explicit WireReader(std::string_view bytes) : rest(bytes) {}

  uint64_t number() {
    uint64_t value = 0;
    std::string_view bytes = part(sizeof value);
    std::memcpy(&value, bytes.data(), bytes.size());
    return value;
  }
  std::string_view text() { return part(number()); }
  std::vector<std::byte> data() {
    std::string_view bytes = text();
    const std::byte *first = reinterpret_cast<const std::byte *>(bytes.data());
    return {first, first + bytes.size()};
  }
  /// A number of entries, each of which takes a byte at least.
  uint64_t count() {
    uint64_t value = number();
    isRight = isRight && value <= rest.size();
    return isRight ? value : 0;
  }
  bool isDone() const { return isRight && rest.empty(); }

private:
  std::string_view part(uint64_t size) {
    isRight = isRight && size <= rest.size();
    std::string_view found = rest.substr(0, isRight ? size : 0);
    rest.remove_prefix(found.size());
    return found;
  }

  std::string_view rest;
  bool isRight = true;
};

Status notUnderstood() {
  return Status::error(ErrorId::InternalError, "a message about the check of a kernel is damaged",
                       "install the command tenon and its library from one release");
}

/// All of `size` bytes, before `deadline`.
Receipt receive(int socket, char *bytes, size_t size,
                std::chrono::steady_clock::time_point deadline) {
  while (size > 0) {
    std::chrono::milliseconds left = std::chrono::duration_cast<std::chrono::milliseconds>(
        deadline - std::chrono::steady_clock::now());
    pollfd waited = {.fd = socket, .events = POLLIN, .revents = 0};
    if (left.count() <= 0 || poll(&waited, 1, static_cast<int>(left.count())) == 0) {
      return Receipt::Late;
    }
    ssize_t count = recv(socket, bytes, size, 0);
    if (count == 0 || (count < 0 && errno != EINTR)) {
      return Receipt::Ended;
    }
    bytes += std::max<ssize_t>(count, 0);
    size -= static_cast<size_t>(std::max<ssize_t>(count, 0));
  }
  return Receipt::Whole;
}

} // namespace

std::string encode(const kernels::Trial &trial) {
  WireWriter writer;
  writer.data(trial.code);
  writer.text(trial.level);
  writer.text(trial.symbol);
  writer.number(trial.buffers.size());
  for (const kernels::TrialBuffer &buffer : trial.buffers) {
    writer.text(buffer.name);
    writer.number(buffer.isWritten);
    writer.data(buffer.bytes);
  }
  writer.number(trial.sizes.size());
  for (int64_t size : trial.sizes) {
    writer.number(static_cast<uint64_t>(size));
  }
  writer.number(static_cast<uint64_t>(trial.grid));
  writer.number(trial.threads);
  writer.number(trial.isAtStart);
  writer.number(trial.scratchBytes);
  return writer.take();
}

Result<kernels::Trial> decodeTrial(std::string_view bytes) {
  WireReader reader(bytes);
  kernels::Trial trial;
  std::string_view code = reader.text();
  trial.code = std::as_bytes(std::span(code.data(), code.size()));
  trial.level = reader.text();
  trial.symbol = reader.text();
  trial.buffers.resize(reader.count());
  for (kernels::TrialBuffer &buffer : trial.buffers) {
    buffer.name = reader.text();
    buffer.isWritten = reader.number() != 0;
    buffer.bytes = reader.data();
  }
  trial.sizes.resize(reader.count());
  for (int64_t &size : trial.sizes) {
    size = static_cast<int64_t>(reader.number());
  }
  trial.grid = static_cast<int64_t>(reader.number());
  trial.threads = static_cast<uint32_t>(reader.number());
  trial.isAtStart = reader.number() != 0;
  trial.scratchBytes = reader.number();
  return reader.isDone() ? Result<kernels::Trial>(std::move(trial)) : notUnderstood();
}

std::string encode(const Result<kernels::TrialResult> &result) {
  WireWriter writer;
  const Status status = result ? Status::ok() : result.status();
  writer.number(static_cast<uint64_t>(status.id()));
  writer.text(status.message());
  writer.text(status.hint());
  writer.number(result ? std::bit_cast<uint64_t>(result->seconds) : 0);
  writer.number(result ? result->outputs.size() : 0);
  for (size_t i = 0; result && i < result->outputs.size(); ++i) {
    writer.data(result->outputs[i]);
  }
  return writer.take();
}

Result<kernels::TrialResult> decodeResult(std::string_view bytes) {
  WireReader reader(bytes);
  ErrorId id = static_cast<ErrorId>(reader.number());
  std::string_view message = reader.text(), hint = reader.text();
  kernels::TrialResult result;
  result.seconds = std::bit_cast<double>(reader.number());
  result.outputs.resize(reader.count());
  for (std::vector<std::byte> &output : result.outputs) {
    output = reader.data();
  }
  if (!reader.isDone()) {
    return notUnderstood();
  }
  return id == ErrorId::None ? Result<kernels::TrialResult>(std::move(result))
                             : Status::error(id, message, hint);
}

bool sendMessage(int socket, std::string_view bytes) {
  uint64_t size = bytes.size();
  for (std::string_view rest :
       {std::string_view(reinterpret_cast<const char *>(&size), sizeof size), bytes}) {
    while (!rest.empty()) {
      ssize_t count = send(socket, rest.data(), rest.size(), MSG_NOSIGNAL);
      if (count < 0 && errno != EINTR) {
        return false;
      }
      rest.remove_prefix(static_cast<size_t>(std::max<ssize_t>(count, 0)));
    }
  }
  return true;
}

Receipt receiveMessage(int socket, std::string &bytes, std::chrono::seconds patience) {
  std::chrono::steady_clock::time_point deadline = std::chrono::steady_clock::now() + patience;
  uint64_t size = 0;
  Receipt receipt = receive(socket, reinterpret_cast<char *>(&size), sizeof size, deadline);
  if (receipt == Receipt::Whole) {
    bytes.resize(size);
    receipt = receive(socket, bytes.data(), size, deadline);
  }
  return receipt;
}

} // namespace tenon::tool
