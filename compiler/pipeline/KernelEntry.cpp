// Encodes a kernel as counted fields of 64-bit little-endian numbers and bytes.
// Relies on the cache's checksum for damage; lengths are checked all the same.
#include "compiler/pipeline/KernelEntry.h"

#include <cstring>

namespace tenon::pipeline {
namespace {

using Terms = std::vector<engine::ExprTerm>;

void putNumber(std::string &out, int64_t value) {
  out.append(reinterpret_cast<const char *>(&value), sizeof(value));
}

void putText(std::string &out, std::string_view text) {
  putNumber(out, static_cast<int64_t>(text.size()));
  out += text;
}

void putTerms(std::string &out, const Terms &terms) {
  putNumber(out, static_cast<int64_t>(terms.size()));
  for (const engine::ExprTerm &term : terms) {
    putNumber(out, static_cast<int64_t>(term.op));
    putNumber(out, term.value);
  }
}

class Decoder {
public:
  explicit Decoder(std::string_view bytes) : rest(bytes) {}

  bool number(int64_t &value) {
    if (rest.size() < sizeof(value)) {
      return false;
    }
    std::memcpy(&value, rest.data(), sizeof(value));
    rest.remove_prefix(sizeof(value));
    return true;
  }

  bool text(std::string &value) {
    int64_t size = 0;
    if (!number(size) || size < 0 || static_cast<uint64_t>(size) > rest.size()) {
      return false;
    }
    value = rest.substr(0, size);
    rest.remove_prefix(size);
    return true;
  }

  bool terms(Terms &values) {
    int64_t count = 0;
    if (!number(count) || count < 0 || static_cast<uint64_t>(count) > rest.size() / 16) {
      return false;
    }
    for (int64_t i = 0; i < count; ++i) {
      int64_t op = 0;
      int64_t value = 0;
      if (!number(op) || op < 0 || op > engine::kLastExprOp || !number(value)) {
        return false;
      }
      values.push_back({static_cast<engine::ExprOp>(op), value});
    }
    return true;
  }

  bool isAtEnd() const { return rest.empty(); }

private:
  std::string_view rest;
};

} // namespace

std::string encodeKernel(const codegen::cpu::Kernel &kernel) {
  std::string out;
  putText(out, kernel.symbol);
  putText(out, kernel.object);
  putTerms(out, kernel.grid);
  putTerms(out, kernel.scratch);
  return out;
}

std::optional<codegen::cpu::Kernel> decodeKernel(std::string_view bytes) {
  Decoder decoder(bytes);
  codegen::cpu::Kernel kernel;
  bool isKernel = decoder.text(kernel.symbol) && decoder.text(kernel.object) &&
                  decoder.terms(kernel.grid) && decoder.terms(kernel.scratch) && decoder.isAtEnd();
  return isKernel ? std::optional(std::move(kernel)) : std::nullopt;
}

} // namespace tenon::pipeline
