// zlib's streams; output grows by bounded steps, so a body of zeros costs no more memory than what
// is allowed.

#include "server/protocol/Compression.h"

#include "support/Check.h"

#include <fmt/format.h>
#include <zlib.h>

#include <algorithm>
#include <cctype>
#include <limits>

namespace tenon::server {
namespace {

/// zlib's window bits; 16 more for gzip.
constexpr int kWindow = 15;
constexpr size_t kStep = 256 << 10;

int windowOf(Encoding encoding) { return encoding == Encoding::Gzip ? kWindow + 16 : kWindow; }

std::string lowerTrimmed(std::string_view text) {
  size_t first = text.find_first_not_of(" \t"), last = text.find_last_not_of(" \t");
  std::string result(first == std::string_view::npos ? std::string_view()
                                                     : text.substr(first, last - first + 1));
  std::transform(result.begin(), result.end(), result.begin(),
                 [](unsigned char c) { return std::tolower(c); });
  return result;
}

Encoding encodingNamed(std::string_view name) {
  return name == "gzip" || name == "x-gzip" ? Encoding::Gzip
         : name == "deflate"                ? Encoding::Deflate
                                            : Encoding::Identity;
}

Bytef *bytesOf(std::string_view text) {
  return reinterpret_cast<Bytef *>(const_cast<char *>(text.data()));
}

struct Inflation {
  z_stream stream = {};
  ~Inflation() { inflateEnd(&stream); }
};

} // namespace

Result<Encoding> parseEncoding(std::string_view header) {
  std::string name = lowerTrimmed(header);
  Encoding encoding = encodingNamed(name);
  if (encoding == Encoding::Identity && !name.empty() && name != "identity") {
    return Status::error(
        ErrorId::BadEncoding,
        fmt::format("the server does not support Content-Encoding '{}'", name.substr(0, 32)),
        "send gzip, deflate or no encoding");
  }
  return encoding;
}

Encoding chooseEncoding(std::string_view acceptHeader) {
  while (!acceptHeader.empty()) {
    size_t comma = acceptHeader.find(',');
    std::string_view item = acceptHeader.substr(0, comma);
    acceptHeader.remove_prefix(comma == std::string_view::npos ? acceptHeader.size() : comma + 1);
    size_t semicolon = item.find(';');
    Encoding encoding = encodingNamed(lowerTrimmed(item.substr(0, semicolon)));
    std::string quality =
        semicolon == std::string_view::npos ? "" : lowerTrimmed(item.substr(semicolon + 1));
    bool isRefused =
        quality.starts_with("q=0") && quality.find_first_not_of("0.", 2) == std::string::npos;
    if (encoding != Encoding::Identity && !isRefused) {
      return encoding;
    }
  }
  return Encoding::Identity;
}

std::string_view nameOf(Encoding encoding) {
  return encoding == Encoding::Gzip ? "gzip" : encoding == Encoding::Deflate ? "deflate" : "";
}

Result<ChargedString> decompress(Encoding encoding, std::string_view body, size_t most,
                                 MemoryBudget *budget) {
  if (body.size() > std::numeric_limits<uInt>::max()) {
    return Status::error(ErrorId::RequestTooLarge, "a compressed body has 4 GiB or more");
  }
  Inflation inflation;
  z_stream &stream = inflation.stream;
  if (inflateInit2(&stream, windowOf(encoding)) != Z_OK) {
    return Status::error(ErrorId::OutOfMemory, "out of memory to decompress a body");
  }
  stream.next_in = bytesOf(body);
  stream.avail_in = static_cast<uInt>(body.size());
  ChargedString charged(budget);
  std::string &out = charged.text;
  int result = Z_OK;
  while (result == Z_OK) {
    // One byte above the bound tells what is too large from what just fits.
    size_t room = std::min(kStep, most + 1 - out.size());
    size_t filled = out.size();
    TENON_TRY(charged.charge.resize(filled + room));
    out.resize(filled + room);
    stream.next_out = bytesOf(out) + filled;
    stream.avail_out = static_cast<uInt>(room);
    result = inflate(&stream, Z_NO_FLUSH);
    out.resize(filled + room - stream.avail_out);
    if (out.size() > most) {
      return Status::error(ErrorId::RequestTooLarge,
                           fmt::format("the body has more than {} bytes when decompressed", most),
                           "the server's --max-body sets this limit");
    }
    if (result == Z_OK && stream.avail_in == 0 && stream.avail_out != 0) {
      break; // the end is missing
    }
    if (result == Z_STREAM_END && stream.avail_in != 0 && encoding == Encoding::Gzip) {
      result = inflateReset(&stream); // members follow one another: RFC 1952, section 2.2
    }
  }
  if (result != Z_STREAM_END || stream.avail_in != 0) {
    return Status::error(ErrorId::BadRequest,
                         fmt::format("the body is not valid {} data", nameOf(encoding)));
  }
  TENON_TRY(charged.settle());
  return charged;
}

struct Compressor::State {
  z_stream stream = {};
};

Compressor::Compressor(Encoding encoding) : state(new State) {
  // Level 1: tensors compress little, and the front's time counts.
  int result =
      deflateInit2(&state->stream, 1, Z_DEFLATED, windowOf(encoding), 8, Z_DEFAULT_STRATEGY);
  TENON_CHECK(result == Z_OK, "zlib takes these settings");
}

Compressor::~Compressor() {
  deflateEnd(&state->stream);
  delete state;
}

void Compressor::append(std::string_view piece, bool isLast, std::string &out) {
  z_stream &stream = state->stream;
  do {
    std::string_view part = piece.substr(0, std::numeric_limits<uInt>::max());
    piece.remove_prefix(part.size());
    stream.next_in = bytesOf(part);
    stream.avail_in = static_cast<uInt>(part.size());
    int flush = isLast && piece.empty() ? Z_FINISH : Z_NO_FLUSH;
    do {
      size_t filled = out.size();
      size_t room = std::min<size_t>(kStep, deflateBound(&stream, stream.avail_in));
      out.resize(filled + room);
      stream.next_out = bytesOf(out) + filled;
      stream.avail_out = static_cast<uInt>(room);
      deflate(&stream, flush);
      out.resize(filled + room - stream.avail_out);
    } while (stream.avail_out == 0);
  } while (!piece.empty());
}

} // namespace tenon::server
