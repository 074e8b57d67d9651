// What is to be written: text in one string, with larger pieces where they lie.

#include "server/http2/Session.h"

namespace tenon::server {
namespace {

/// Of a connection's memory for what it writes, while it has nothing to write.
constexpr size_t kMaxKept = 8 << 10;
/// Smaller pieces are copied rather than written from where they lie.
constexpr size_t kMinUncopied = 4 << 10;

} // namespace

void Outgoing::append(std::string_view text) {
  if (text.empty()) {
    return;
  }
  total += text.size();
  if (!parts.empty() && parts.back().bytes.empty()) {
    parts.back().size += text.size();
  } else {
    parts.push_back({texts.size(), text.size(), {}});
  }
  texts += text;
}

void Outgoing::append(Bytes bytes, std::shared_ptr<const void> owner) {
  if (bytes.size() < kMinUncopied) {
    append(std::string_view(reinterpret_cast<const char *>(bytes.data()), bytes.size()));
    return;
  }
  total += bytes.size();
  parts.push_back({0, bytes.size(), bytes});
  owners.push_back(std::move(owner));
}

void Outgoing::clear() {
  if (texts.capacity() > kMaxKept) {
    texts = std::string();
  }
  texts.clear();
  parts.clear();
  owners.clear();
  total = 0;
}

std::vector<Bytes> Outgoing::spans() const {
  std::vector<Bytes> spans;
  for (const Part &part : parts) {
    spans.push_back(part.bytes.empty()
                        ? std::as_bytes(std::span(texts)).subspan(part.offset, part.size)
                        : part.bytes);
  }
  return spans;
}

} // namespace tenon::server
