// Reads the program headers into an image as the loader maps it, then the dynamic section from
// there. What is not known to be needed is refused.

#include "engine/code/ElfCheck.h"

#include "engine/code/ElfImage.h"
#include "support/text/Text.h"

namespace tenon::engine {
namespace {

constexpr unsigned kMaxSegments = 16;

/// The reason why a tag is refused; none for those that the compiler's objects have.
std::optional<std::string_view> refusal(int64_t tag) {
  switch (tag) {
  case DT_SYMTAB:
  case DT_SYMENT:
  case DT_STRTAB:
  case DT_STRSZ:
  case DT_GNU_HASH:
  case DT_FLAGS:
  case DT_FLAGS_1:
    return std::nullopt;
  case DT_NEEDED:
  case DT_AUDIT:
  case DT_DEPAUDIT:
  case DT_FILTER:
  case DT_AUXILIARY:
    return "the code object needs another library";
  case DT_INIT:
  case DT_FINI:
  case DT_INIT_ARRAY:
  case DT_FINI_ARRAY:
  case DT_PREINIT_ARRAY:
    return "the code object runs code when it is loaded";
  case DT_REL:
  case DT_RELA:
  case DT_RELR:
  case DT_JMPREL:
  case DT_TEXTREL:
    return "the code object is changed when it is loaded";
  default:
    return "the dynamic section of the code object has an unknown entry";
  }
}

Result<ElfDynamic> readDynamic(const ElfImage &image, const Elf64_Phdr &segment) {
  const Elf64_Phdr *holder = image.holder(segment.p_vaddr, segment.p_memsz);
  // The loader adds the object's address to the entries in place.
  if (!holder || !(holder->p_flags & PF_W) || segment.p_vaddr % alignof(Elf64_Dyn) != 0) {
    return codeError("the dynamic section of the code object is not in a writable segment");
  }
  Bytes bytes = image.from(segment.p_vaddr);
  ElfDynamic dynamic;
  for (uint64_t at = 0;; at += sizeof(Elf64_Dyn)) {
    std::optional<Elf64_Dyn> entry = readAt<Elf64_Dyn>(bytes, at);
    if (!entry) {
      return codeError("the dynamic section of the code object does not end");
    }
    if (entry->d_tag == DT_NULL) {
      return dynamic;
    }
    if (std::optional<std::string_view> reason = refusal(entry->d_tag)) {
      return codeError(*reason);
    }
    if (!dynamic.emplace(entry->d_tag, entry->d_un.d_val).second) {
      return codeError("an entry occurs twice in the code object's dynamic section");
    }
  }
}

/// PT_RISCV_ATTRIBUTES, which older headers of the system lack.
constexpr Elf64_Word kRiscvAttributes = 0x70000003;

Elf64_Half machineOf(Architecture architecture) {
  switch (architecture) {
  case Architecture::AArch64:
    return EM_AARCH64;
  case Architecture::RiscV64:
    return EM_RISCV;
  default:
    return EM_X86_64;
  }
}

Status checkHeader(Bytes code, const Elf64_Ehdr &header, Architecture architecture) {
  if (std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 || header.e_ident[EI_CLASS] != ELFCLASS64 ||
      header.e_ident[EI_DATA] != ELFDATA2LSB || header.e_ident[EI_VERSION] != EV_CURRENT ||
      header.e_version != EV_CURRENT) {
    return codeError("the code section is not a 64-bit ELF object");
  }
  if (header.e_machine != machineOf(architecture)) {
    return codeError(strCat("the code object is for ELF machine ", header.e_machine,
                            ", but its level is one of ", nameOf(architecture)));
  }
  if (header.e_type != ET_DYN || header.e_phentsize != sizeof(Elf64_Phdr) ||
      header.e_phnum > kMaxSegments || header.e_phoff > code.size()) {
    return codeError("the code section is not a shared object");
  }
  return Status::ok();
}

/// Reads the program headers; the dynamic section's comes back.
class Segments {
public:
  Segments(Bytes objectCode, const Elf64_Ehdr &elfHeader, ElfImage &objectImage)
      : code(objectCode), header(elfHeader), image(objectImage) {}

  Result<Elf64_Phdr> read() {
    for (unsigned i = 0; i < header.e_phnum; ++i) {
      std::optional<Elf64_Phdr> segment =
          readAt<Elf64_Phdr>(code, header.e_phoff + uint64_t(i) * sizeof(Elf64_Phdr));
      if (!segment) {
        return codeError("the program headers of the code object lie outside it");
      }
      if (segment->p_type == PT_LOAD) {
        TENON_TRY(image.map(*segment));
      } else if (!others.emplace(segment->p_type, *segment).second) {
        return codeError("a segment occurs twice in the code object");
      }
    }
    for (const auto &[type, segment] : others) {
      TENON_TRY(check(segment));
    }
    if (image.isEmpty() || others.count(PT_DYNAMIC) == 0) {
      return codeError("the code object has no dynamic section");
    }
    // Without it the loader makes the stack of every thread executable.
    if (others.count(PT_GNU_STACK) == 0) {
      return codeError("the code object does not mark the stack as non-executable");
    }
    return others[PT_DYNAMIC];
  }

private:
  Status check(const Elf64_Phdr &segment) const {
    const Elf64_Phdr *holder = image.holder(segment.p_vaddr, segment.p_memsz);
    switch (segment.p_type) {
    case PT_DYNAMIC:
      return Status::ok();
    case PT_GNU_STACK:
      return segment.p_flags & PF_X ? codeError("the code object requires an executable stack")
                                    : Status::ok();
    case PT_GNU_RELRO:
      // The loader takes the right to write from these pages.
      return holder && (holder->p_flags & PF_W)
                 ? Status::ok()
                 : codeError("the protected range of the code object is not its own");
    case PT_PHDR: {
      // Who walks the loaded objects reads them at this address.
      uint64_t bytes = header.e_phnum * sizeof(Elf64_Phdr);
      Bytes mapped = image.from(segment.p_vaddr);
      bool isSame = mapped.size() >= bytes && segment.p_filesz == bytes &&
                    std::memcmp(mapped.data(), code.data() + header.e_phoff, bytes) == 0;
      return isSame ? Status::ok() : codeError("the program headers are not at their position");
    }
    case kRiscvAttributes: // names of extensions, for linkers
      return Status::ok();
    default:
      return codeError(
          "the code object is a program, uses thread-local storage or has an unknown segment");
    }
  }

  Bytes code;
  const Elf64_Ehdr &header;
  ElfImage &image;
  std::map<uint32_t, Elf64_Phdr> others;
};

} // namespace

Status checkCodeObject(Bytes code, Architecture architecture,
                       std::span<const std::string> kernels) {
  std::optional<Elf64_Ehdr> header = readAt<Elf64_Ehdr>(code, 0);
  TENON_TRY(header ? checkHeader(code, *header, architecture)
                   : codeError("the code section is cut off"));
  ElfImage image(code);
  TENON_ASSIGN(Elf64_Phdr dynamicSegment, Segments(code, *header, image).read());
  TENON_ASSIGN(ElfDynamic dynamic, readDynamic(image, dynamicSegment));
  ElfSymbols symbols(image);
  TENON_TRY(symbols.read(dynamic));
  for (const std::string &kernel : kernels) {
    if (!symbols.has(kernel)) {
      return codeError(strCat("the code object has no kernel '", kernel, "'"));
    }
  }
  return Status::ok();
}

} // namespace tenon::engine
