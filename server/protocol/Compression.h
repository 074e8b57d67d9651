// Bodies in gzip and zlib ("deflate"), both ways, with a bound on what comes out.

#pragma once

#include "server/protocol/MemoryBudget.h"
#include "support/Result.h"

#include <optional>
#include <string>
#include <string_view>

namespace tenon::server {

enum class Encoding { Identity, Gzip, Deflate };

/// The value of Content-Encoding; TN0819 for any other than the three, and for several.
Result<Encoding> parseEncoding(std::string_view header);
/// The first encoding of Accept-Encoding that the server has and the client does not refuse with
/// q=0.
Encoding chooseEncoding(std::string_view acceptHeader);
/// "gzip", "deflate"; empty for Identity.
std::string_view nameOf(Encoding encoding);

/// The body of a request as it was before. TN0808 once it would have more than `most` bytes; TN0806
/// for damaged data and bytes behind its end; TN0812 where `budget` has no room.
Result<ChargedString> decompress(Encoding encoding, std::string_view body, size_t most,
                                 MemoryBudget *budget = nullptr);
/// Appends to what came before: pieces of one body, `isLast` with the last.
class Compressor {
public:
  explicit Compressor(Encoding encoding);
  ~Compressor();
  Compressor(const Compressor &) = delete;
  Compressor &operator=(const Compressor &) = delete;
  void append(std::string_view piece, bool isLast, std::string &out);

private:
  struct State;
  State *state;
};

} // namespace tenon::server
