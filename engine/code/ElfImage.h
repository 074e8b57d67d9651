// The memory image of a code object as the loader makes it from program headers, and the names that
// a lookup finds in it. Private to ElfCheck.

#pragma once

#include "support/Result.h"
#include "support/memory/ByteSpan.h"

#include <cstdint>
#include <cstring>
#include <elf.h>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace tenon::engine {

/// TN0515.
Status codeError(std::string_view message);

template <typename T> std::optional<T> readAt(Bytes bytes, uint64_t offset) {
  if (offset > bytes.size() || bytes.size() - offset < sizeof(T)) {
    return std::nullopt;
  }
  T value;
  std::memcpy(&value, bytes.data() + offset, sizeof(T));
  return value;
}

/// The segments of an object that are mapped, none sharing a page with another.
class ElfImage {
public:
  explicit ElfImage(Bytes objectCode) : code(objectCode) {}

  /// Adds a segment behind those that are there, if the loader would map it as it says.
  Status map(const Elf64_Phdr &segment);
  bool isEmpty() const { return segments.empty(); }
  /// The segment whose memory holds all of [address, address + size).
  const Elf64_Phdr *holder(uint64_t address, uint64_t size) const;
  /// The file's bytes from an address to the end of its segment; empty when there are none.
  Bytes from(uint64_t address) const;

private:
  Bytes code;
  std::vector<Elf64_Phdr> segments;
};

/// What the dynamic section says, by tag.
using ElfDynamic = std::map<int64_t, uint64_t>;

/// The names that a lookup can find, through the hash table as the loader walks it.
class ElfSymbols {
public:
  explicit ElfSymbols(const ElfImage &objectImage) : image(objectImage) {}

  Status read(ElfDynamic &dynamic);
  bool has(std::string_view name) const { return found.count(name) != 0; }

private:
  Status readTable();
  Status readChains(uint64_t chainsAt, uint32_t last);
  Status readSymbol(uint32_t index);

  const ElfImage &image;
  Bytes names;
  Bytes symbols;
  Bytes table;
  std::set<std::string, std::less<>> found;
};

} // namespace tenon::engine
