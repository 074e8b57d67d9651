// Compresses a reply as its client accepts it.

#include "server/http/Exchange.h"
#include "server/http/ServerContext.h"

#include <algorithm>
#include <span>

namespace tenon::server {
namespace {

/// Smaller replies gain nothing.
constexpr uint64_t kMinCompressed = 1024;

/// Compressed text of the pieces; false where it does not pay: tensors, as a rule, shrink by
/// little.
Result<bool> compressPieces(Encoding encoding, const std::vector<Piece> &pieces, ChargedText &out) {
  constexpr size_t kStep = 64 << 10;
  constexpr uint64_t kTried = 2 * kStep;
  Compressor compressor(encoding);
  uint64_t taken = 0, total = 0;
  for (const Piece &piece : pieces) {
    total += piece.size();
  }
  for (const Piece &piece : pieces) {
    Bytes rest = piece.text.empty() ? piece.bytes : std::as_bytes(std::span(piece.text));
    while (!rest.empty()) {
      Bytes step = rest.subspan(0, std::min(kStep, rest.size()));
      rest = rest.subspan(step.size());
      taken += step.size();
      compressor.append({reinterpret_cast<const char *>(step.data()), step.size()}, taken == total,
                        out.tail());
      TENON_TRY(out.settle());
      if (taken >= kTried && taken < kTried + kStep && out.size() > taken / 5 * 4) {
        return false;
      }
    }
  }
  return true;
}

} // namespace

void HttpExchange::compress() {
  uint64_t bytes = reply.bytes();
  if (!onReply || request.replyEncoding == Encoding::Identity || bytes < kMinCompressed) {
    answer(std::move(reply));
    return;
  }
  uncompressed = std::exchange(reply.pieces, {});
  run(
      bytes <= kLittle,
      [this] {
        ChargedText text(&server.memory);
        Result<bool> pays = compressPieces(request.replyEncoding, uncompressed, text);
        if (pays.isOk() && *pays) {
          reply.append(text);
        }
      },
      [this] {
        if (reply.pieces.empty()) {
          reply.pieces = std::move(uncompressed); // it goes as it is
        } else {
          reply.fields.emplace_back("Content-Encoding", nameOf(request.replyEncoding));
        }
        uncompressed.clear();
        answer(std::move(reply));
      });
}

} // namespace tenon::server
