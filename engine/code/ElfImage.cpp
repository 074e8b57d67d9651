// Relies on <elf.h>; every address and count is checked before it is followed.

#include "engine/code/ElfImage.h"

#include <algorithm>

namespace tenon::engine {
namespace {

constexpr uint64_t kPage = 4096;
/// Of the whole image, so that a small file cannot map without end (.bss).
constexpr uint64_t kMaxMemory = uint64_t(1) << 30;

uint64_t pageBelow(uint64_t address) { return address / kPage * kPage; }
uint64_t pageAbove(uint64_t address) { return pageBelow(address + kPage - 1); }

bool isInside(uint64_t begin, uint64_t size, uint64_t outerBegin, uint64_t outerSize) {
  return begin >= outerBegin && size <= outerSize && begin - outerBegin <= outerSize - size;
}

} // namespace

Status codeError(std::string_view message) {
  return Status::error(ErrorId::EngineBadCode, message, "compile the model again");
}

Status ElfImage::map(const Elf64_Phdr &segment) {
  bool isInFile = isInside(segment.p_offset, segment.p_filesz, 0, code.size());
  bool isInMemory = segment.p_memsz >= segment.p_filesz &&
                    isInside(segment.p_vaddr, segment.p_memsz, 0, kMaxMemory);
  bool isAligned = segment.p_align % kPage == 0 && segment.p_align != 0 &&
                   segment.p_align <= 16 * kPage &&
                   (segment.p_align & (segment.p_align - 1)) == 0 &&
                   (segment.p_vaddr - segment.p_offset) % segment.p_align == 0;
  if (!isInFile || !isInMemory || !isAligned) {
    return codeError("a segment of the code object lies outside it or has an impossible size");
  }
  bool isBoth = (segment.p_flags & PF_W) && (segment.p_flags & PF_X);
  if (isBoth || !(segment.p_flags & PF_R)) {
    return codeError("a segment of the code object is writable and executable, or not readable");
  }
  if (segment.p_memsz > segment.p_filesz && !(segment.p_flags & PF_W)) {
    return codeError("a segment that is not writable has memory beyond its bytes");
  }
  if (!segments.empty() &&
      pageBelow(segment.p_vaddr) < pageAbove(segments.back().p_vaddr + segments.back().p_memsz)) {
    return codeError("segments of the code object overlap or are not in order");
  }
  segments.push_back(segment);
  return Status::ok();
}

const Elf64_Phdr *ElfImage::holder(uint64_t address, uint64_t size) const {
  for (const Elf64_Phdr &segment : segments) {
    if (isInside(address, size, segment.p_vaddr, segment.p_memsz)) {
      return &segment;
    }
  }
  return nullptr;
}

Bytes ElfImage::from(uint64_t address) const {
  for (const Elf64_Phdr &segment : segments) {
    if (isInside(address, 1, segment.p_vaddr, segment.p_filesz)) {
      uint64_t skipped = address - segment.p_vaddr;
      return code.subspan(segment.p_offset + skipped, segment.p_filesz - skipped);
    }
  }
  return {};
}

Status ElfSymbols::read(ElfDynamic &dynamic) {
  constexpr uint64_t knownFlags = DF_BIND_NOW;
  constexpr uint64_t knownFlags1 = DF_1_NOW;
  names = image.from(dynamic[DT_STRTAB]);
  symbols = image.from(dynamic[DT_SYMTAB]);
  table = image.from(dynamic[DT_GNU_HASH]);
  bool isGood = dynamic[DT_SYMENT] == sizeof(Elf64_Sym) && !table.empty() && !symbols.empty() &&
                dynamic[DT_STRSZ] != 0 && dynamic[DT_STRSZ] <= names.size() &&
                dynamic[DT_SYMTAB] % alignof(Elf64_Sym) == 0 &&
                dynamic[DT_GNU_HASH] % sizeof(uint64_t) == 0 &&
                (dynamic[DT_FLAGS] & ~knownFlags) == 0 && (dynamic[DT_FLAGS_1] & ~knownFlags1) == 0;
  if (!isGood) {
    return codeError("the symbols of the code object are missing or have unknown flags");
  }
  names = names.first(dynamic[DT_STRSZ]);
  return names.back() == std::byte(0) ? readTable()
                                      : codeError("the names of the code object do not end");
}

/// Header, bloom filter, buckets, chains: bloom and buckets must lie inside, every chain must start
/// behind the symbols that cannot be found and end inside.
Status ElfSymbols::readTable() {
  std::optional<uint32_t> buckets = readAt<uint32_t>(table, 0);
  std::optional<uint32_t> firstSymbol = readAt<uint32_t>(table, 4);
  std::optional<uint32_t> bloomWords = readAt<uint32_t>(table, 8);
  constexpr uint64_t header = 16;
  constexpr uint32_t most = 1 << 24;
  // All symbols but the first, which is empty, can be found: none is undefined.
  bool isGood = table.size() >= header && *firstSymbol == 1 && *buckets != 0 && *buckets <= most &&
                *bloomWords != 0 && *bloomWords <= most && (*bloomWords & (*bloomWords - 1)) == 0;
  if (!isGood) {
    return codeError("the code object has undefined symbols or a damaged symbol table");
  }
  uint64_t bucketsAt = header + uint64_t(*bloomWords) * sizeof(uint64_t);
  uint64_t chainsAt = bucketsAt + uint64_t(*buckets) * sizeof(uint32_t);
  uint32_t last = 0;
  for (uint32_t i = 0; i < *buckets; ++i) {
    std::optional<uint32_t> start = readAt<uint32_t>(table, bucketsAt + i * sizeof(uint32_t));
    if (!start) {
      return codeError("the symbol table of the code object is cut off");
    }
    last = std::max(last, *start);
  }
  return last == 0 ? Status::ok() : readChains(chainsAt, last);
}

/// Symbols lie in the order of their buckets, so the last bucket's chain ends the table.
Status ElfSymbols::readChains(uint64_t chainsAt, uint32_t last) {
  for (uint32_t index = 1;; ++index) {
    std::optional<uint32_t> link =
        readAt<uint32_t>(table, chainsAt + (uint64_t(index) - 1) * sizeof(uint32_t));
    if (!link) {
      return codeError("a chain of the code object's symbols does not end");
    }
    TENON_TRY(readSymbol(index));
    if ((*link & 1) != 0 && index >= last) {
      return Status::ok();
    }
  }
}

Status ElfSymbols::readSymbol(uint32_t index) {
  std::optional<Elf64_Sym> symbol = readAt<Elf64_Sym>(symbols, uint64_t(index) * sizeof(Elf64_Sym));
  if (!symbol || symbol->st_name >= names.size()) {
    return codeError("a symbol of the code object lies outside it");
  }
  unsigned type = ELF64_ST_TYPE(symbol->st_info);
  const Elf64_Phdr *holder = image.holder(symbol->st_value, 1);
  // A symbol of another type may run a resolver when it is looked up, or changes other objects.
  if ((type != STT_FUNC && type != STT_NOTYPE) || ELF64_ST_BIND(symbol->st_info) != STB_GLOBAL ||
      symbol->st_shndx == SHN_UNDEF || symbol->st_shndx >= SHN_LORESERVE || !holder ||
      !(holder->p_flags & PF_X)) {
    return codeError("a symbol of the code object is not a function of its own");
  }
  constexpr size_t longestName = 1024;
  const char *name = reinterpret_cast<const char *>(names.data() + symbol->st_name);
  size_t length = ::strnlen(name, longestName);
  found.emplace(name, length);
  return length < longestName ? Status::ok()
                              : codeError("the name of a symbol of the code object is too long");
}

} // namespace tenon::engine
