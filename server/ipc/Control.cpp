// A message is a fixed header and its text.

#include "server/ipc/Control.h"

#include "server/ipc/MessageText.h"

#include <array>
#include <cerrno>
#include <cstring>

#include <sys/socket.h>
#include <sys/uio.h>

namespace tenon::server {
namespace {

constexpr size_t kMaxText = 256 << 10;
/// The system passes at most 253 at once.
constexpr size_t kMaxDescriptors = 200;

struct Header {
  uint32_t kind;
  uint32_t descriptors;
  uint64_t key;
  uint64_t value;
};

Status lost(std::string_view what) { return Status::error(ErrorId::InternalError, what); }

using ControlBuffer = std::array<char, CMSG_SPACE(kMaxDescriptors * sizeof(int))>;

/// Takes over what came beside a message, all of it, also of one that is refused.
void takeDescriptors(msghdr &received, ControlMessage &message) {
  for (cmsghdr *part = CMSG_FIRSTHDR(&received); part; part = CMSG_NXTHDR(&received, part)) {
    if (part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_RIGHTS) {
      continue;
    }
    size_t count = (part->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (size_t i = 0; i < count; ++i) {
      int fd = -1;
      std::memcpy(&fd, CMSG_DATA(part) + i * sizeof(int), sizeof(int));
      message.descriptors.emplace_back(fd);
    }
  }
}

} // namespace

Status sendControl(int socket, const ControlMessage &message) {
  Header header = {static_cast<uint32_t>(message.kind),
                   static_cast<uint32_t>(message.descriptors.size()), message.key, message.value};
  if (message.text.size() > kMaxText || message.descriptors.size() > kMaxDescriptors) {
    return lost("a message between server and worker is too large");
  }
  iovec parts[2] = {{&header, sizeof(header)},
                    {const_cast<char *>(message.text.data()), message.text.size()}};
  msghdr sent = {};
  sent.msg_iov = parts;
  sent.msg_iovlen = 2;
  alignas(cmsghdr) ControlBuffer buffer = {};
  if (!message.descriptors.empty()) {
    sent.msg_control = buffer.data();
    sent.msg_controllen = CMSG_SPACE(message.descriptors.size() * sizeof(int));
    cmsghdr *part = CMSG_FIRSTHDR(&sent);
    part->cmsg_level = SOL_SOCKET;
    part->cmsg_type = SCM_RIGHTS;
    part->cmsg_len = CMSG_LEN(message.descriptors.size() * sizeof(int));
    for (size_t i = 0; i < message.descriptors.size(); ++i) {
      int fd = message.descriptors[i].get();
      std::memcpy(CMSG_DATA(part) + i * sizeof(int), &fd, sizeof(int));
    }
  }
  ssize_t done;
  do {
    done = sendmsg(socket, &sent, MSG_DONTWAIT | MSG_NOSIGNAL);
  } while (done < 0 && errno == EINTR);
  return done >= 0 ? Status::ok() : lost("a message between server and worker cannot be sent");
}

Status receiveControl(int socket, bool waits, ControlMessage &message, bool *isEnd, bool *isNone) {
  message = {};
  *isEnd = *isNone = false;
  Header header = {};
  std::string text(kMaxText, '\0');
  iovec parts[2] = {{&header, sizeof(header)}, {text.data(), text.size()}};
  alignas(cmsghdr) ControlBuffer buffer = {};
  msghdr received = {};
  received.msg_iov = parts;
  received.msg_iovlen = 2;
  received.msg_control = buffer.data();
  received.msg_controllen = buffer.size();
  ssize_t bytes;
  do {
    bytes = recvmsg(socket, &received, MSG_CMSG_CLOEXEC | (waits ? 0 : MSG_DONTWAIT));
  } while (bytes < 0 && errno == EINTR);
  if (bytes < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
    *isNone = true;
    return Status::ok();
  }
  if (bytes <= 0) {
    *isEnd = true;
    return Status::ok();
  }
  takeDescriptors(received, message);
  bool isWhole = (received.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) == 0 &&
                 static_cast<size_t>(bytes) >= sizeof(header);
  if (!isWhole || header.kind > static_cast<uint32_t>(ControlMessage::Kind::Ending) ||
      header.descriptors != message.descriptors.size()) {
    return lost("a message between server and worker is damaged");
  }
  message.kind = static_cast<ControlMessage::Kind>(header.kind);
  message.key = header.key;
  message.value = header.value;
  text.resize(static_cast<size_t>(bytes) - sizeof(header));
  message.text = std::move(text);
  return Status::ok();
}

std::string encodeError(std::string_view message, std::string_view hint) {
  std::string text;
  TextWriter(text).string(message).string(hint);
  return text;
}

Status decodeError(uint64_t number, std::string_view text) {
  std::string message, hint;
  if (!TextReader(text).string(message).string(hint).isWhole()) {
    return lost("an error message from a worker is damaged");
  }
  return Status::error(errorNumbered(number), message, hint);
}

} // namespace tenon::server
