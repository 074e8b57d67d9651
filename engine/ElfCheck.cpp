// Reads ELF header, program headers and dynamic section with bounds checks; relies on <elf.h>.

#include "engine/ElfCheck.h"

#include "support/Text.h"

#include <cstring>
#include <elf.h>
#include <optional>

namespace tenon::engine {
namespace {

Status codeError(std::string_view message) {
  return Status::error(ErrorId::EngineBadCode, message, "compile the model again");
}

template <typename T> std::optional<T> readAt(Bytes code, uint64_t offset) {
  if (offset > code.size() || code.size() - offset < sizeof(T)) {
    return std::nullopt;
  }
  T value;
  std::memcpy(&value, code.data() + offset, sizeof(T));
  return value;
}

Status checkDynamicEntry(const Elf64_Dyn &entry) {
  switch (entry.d_tag) {
  case DT_NEEDED:
    return codeError("the code object needs another library");
  case DT_INIT:
  case DT_FINI:
  case DT_INIT_ARRAY:
  case DT_FINI_ARRAY:
  case DT_PREINIT_ARRAY:
    return codeError("the code object runs code when it is loaded");
  case DT_TEXTREL:
    return codeError("the code object changes its code when it is loaded");
  default:
    return Status::ok();
  }
}

Status checkDynamic(Bytes code, const Elf64_Phdr &segment) {
  for (uint64_t at = 0; at + sizeof(Elf64_Dyn) <= segment.p_filesz; at += sizeof(Elf64_Dyn)) {
    std::optional<Elf64_Dyn> entry = readAt<Elf64_Dyn>(code, segment.p_offset + at);
    if (!entry) {
      break;
    }
    if (entry->d_tag == DT_NULL) {
      return Status::ok();
    }
    TENON_TRY(checkDynamicEntry(*entry));
  }
  return codeError("the dynamic section of the code object does not end");
}

/// Memory beyond the file's bytes (.bss) is bounded, so a small file cannot map without end.
Status checkSegment(Bytes code, const Elf64_Phdr &segment) {
  constexpr uint64_t maxMemory = uint64_t(1) << 30;
  if (segment.p_offset > code.size() || segment.p_filesz > code.size() - segment.p_offset) {
    return codeError("a segment of the code object lies outside of it");
  }
  bool isLoaded = segment.p_type == PT_LOAD;
  if (isLoaded && (segment.p_memsz < segment.p_filesz || segment.p_memsz > maxMemory ||
                   segment.p_vaddr > maxMemory)) {
    return codeError("a segment of the code object has an impossible size");
  }
  if (isLoaded && (segment.p_flags & PF_W) && (segment.p_flags & PF_X)) {
    return codeError("a segment of the code object is writable and executable");
  }
  if (segment.p_type == PT_INTERP || segment.p_type == PT_TLS) {
    return codeError("the code object is a program or uses thread-local storage");
  }
  return segment.p_type == PT_DYNAMIC ? checkDynamic(code, segment) : Status::ok();
}

} // namespace

Status checkCodeObject(Bytes code) {
  std::optional<Elf64_Ehdr> header = readAt<Elf64_Ehdr>(code, 0);
  if (!header || std::memcmp(header->e_ident, ELFMAG, SELFMAG) != 0 ||
      header->e_ident[EI_CLASS] != ELFCLASS64 || header->e_ident[EI_DATA] != ELFDATA2LSB) {
    return codeError("the code section is not a 64-bit ELF object");
  }
#if defined(__x86_64__)
  constexpr Elf64_Half machine = EM_X86_64;
#else
  constexpr Elf64_Half machine = EM_AARCH64;
#endif
  if (header->e_type != ET_DYN || header->e_machine != machine ||
      header->e_phentsize != sizeof(Elf64_Phdr)) {
    return codeError("the code section is not a shared object for this machine");
  }
  bool hasDynamic = false;
  for (unsigned i = 0; i < header->e_phnum; ++i) {
    std::optional<Elf64_Phdr> segment =
        readAt<Elf64_Phdr>(code, header->e_phoff + uint64_t(i) * sizeof(Elf64_Phdr));
    if (!segment) {
      return codeError("the program headers of the code object lie outside of it");
    }
    TENON_TRY(checkSegment(code, *segment));
    hasDynamic |= segment->p_type == PT_DYNAMIC;
  }
  if (!hasDynamic) {
    return codeError("the code object has no dynamic section");
  }
  return Status::ok();
}

} // namespace tenon::engine
