// Makes a relocatable of a shared object of the user's, which linkers take as a library only.
// Relies on the object having no relocation: its code finds its data by distances, which stay.
#include "compiler/codegen/cpu/CpuCodegen.h"
#include "llvm/Object/ELF.h"

#include <cstring>

namespace tenon::codegen::cpu {
namespace {

using File = llvm::object::ELFFile<llvm::object::ELF64LE>;
using namespace llvm::ELF;

constexpr uint64_t kMaxImage = uint64_t{1} << 28;

llvm::Error refused(const llvm::Twine &why) {
  return llvm::createStringError("it is a shared object that " + why.str() +
                                 ": compile it with cc -c, or link it with -nostdlib");
}

/// What a code object may not have either.
llvm::Error checkImports(const File &file) {
  llvm::Expected<File::Elf_Dyn_Range> entries = file.dynamicEntries();
  if (!entries) {
    return entries.takeError();
  }
  for (const File::Elf_Dyn &entry : *entries) {
    int64_t tag = entry.getTag();
    if (tag == DT_NEEDED) {
      return refused("needs another library");
    }
    bool isSize = tag == DT_RELASZ || tag == DT_RELSZ || tag == DT_PLTRELSZ || tag == DT_RELRSZ ||
                  tag == DT_INIT_ARRAYSZ || tag == DT_FINI_ARRAYSZ;
    if (isSize && entry.getVal() > 0) {
      return refused("is relocated or runs code when it is loaded");
    }
  }
  llvm::Expected<File::Elf_Shdr_Range> sections = file.sections();
  if (!sections) {
    return sections.takeError();
  }
  for (const File::Elf_Shdr &section : *sections) {
    bool isVariable = (section.sh_flags & SHF_WRITE) != 0 && (section.sh_flags & SHF_ALLOC) != 0 &&
                      section.sh_type != SHT_DYNAMIC && section.sh_size > 0;
    llvm::Expected<llvm::StringRef> name = file.getSectionName(section);
    if (!name) {
      return name.takeError();
    }
    if (isVariable && !name->starts_with(".got")) {
      return refused("keeps variables in " + *name);
    }
  }
  return llvm::Error::success();
}

/// Its memory, as the loader makes it.
llvm::Expected<std::string> imageOf(const File &file, llvm::StringRef object) {
  llvm::Expected<File::Elf_Phdr_Range> segments = file.program_headers();
  if (!segments) {
    return segments.takeError();
  }
  std::string image;
  for (const File::Elf_Phdr &segment : *segments) {
    if (segment.p_type != PT_LOAD) {
      continue;
    }
    uint64_t address = segment.p_vaddr, bytes = segment.p_memsz, held = segment.p_filesz;
    if (address > kMaxImage || bytes > kMaxImage || held > bytes ||
        segment.p_offset > object.size() || held > object.size() - segment.p_offset) {
      return refused("has a segment outside itself");
    }
    image.resize(std::max<size_t>(image.size(), address + bytes));
    std::memcpy(image.data() + address, object.data() + segment.p_offset, held);
  }
  return image;
}

/// Its functions that others may call, by address.
llvm::Expected<std::vector<std::pair<std::string, uint64_t>>> functionsIn(const File &file) {
  std::vector<std::pair<std::string, uint64_t>> functions;
  llvm::Expected<File::Elf_Shdr_Range> sections = file.sections();
  if (!sections) {
    return sections.takeError();
  }
  for (const File::Elf_Shdr &section : *sections) {
    if (section.sh_type != SHT_DYNSYM) {
      continue;
    }
    llvm::Expected<File::Elf_Sym_Range> symbols = file.symbols(&section);
    llvm::Expected<llvm::StringRef> names = file.getStringTableForSymtab(section);
    if (!symbols || !names) {
      return llvm::joinErrors(symbols.takeError(), names.takeError());
    }
    for (const File::Elf_Sym &symbol : *symbols) {
      llvm::Expected<llvm::StringRef> name = symbol.getName(*names);
      if (!name) {
        return name.takeError();
      }
      if (symbol.st_shndx != SHN_UNDEF && symbol.getType() == STT_FUNC) {
        functions.emplace_back(name->str(), symbol.st_value);
      }
    }
  }
  return functions;
}

template <typename T> void append(std::string &bytes, const T &value) {
  bytes.append(reinterpret_cast<const char *>(&value), sizeof(T));
}

Elf64_Shdr section(unsigned name, unsigned type, uint64_t offset, uint64_t size, uint64_t align) {
  Elf64_Shdr header = {};
  header.sh_name = name;
  header.sh_type = type;
  header.sh_offset = offset;
  header.sh_size = size;
  header.sh_addralign = align;
  return header;
}

} // namespace

llvm::Expected<std::string> relocatableOf(llvm::StringRef object) {
  llvm::Expected<File> file = File::create(object);
  if (!file || file->getHeader().e_type != ET_DYN) {
    llvm::consumeError(file.takeError());
    return object.str();
  }
  if (llvm::Error error = checkImports(*file)) {
    return std::move(error);
  }
  llvm::Expected<std::string> image = imageOf(*file, object);
  llvm::Expected<std::vector<std::pair<std::string, uint64_t>>> functions = functionsIn(*file);
  if (!image || !functions) {
    return llvm::joinErrors(image.takeError(), functions.takeError());
  }
  constexpr unsigned kText = 1, kNames = 3, kSectionNames = 4; // the table of symbols is 2
  constexpr char kSections[] = "\0.text\0.symtab\0.strtab\0.shstrtab";
  std::string names(1, '\0'), symbols(sizeof(Elf64_Sym), '\0');
  for (const auto &[name, address] : *functions) {
    Elf64_Sym symbol = {};
    symbol.st_name = names.size();
    symbol.setBindingAndType(STB_GLOBAL, STT_FUNC);
    symbol.st_shndx = kText;
    symbol.st_value = address;
    append(symbols, symbol);
    names += name + '\0';
  }
  std::string sectionNames(kSections, sizeof(kSections));
  image->resize((image->size() + 15) / 16 * 16);
  std::string body = *image + symbols + names + sectionNames;
  body.resize((body.size() + 7) / 8 * 8);

  Elf64_Ehdr header = {};
  std::memcpy(header.e_ident, object.data(), EI_NIDENT);
  header.e_type = ET_REL;
  header.e_machine = file->getHeader().e_machine;
  header.e_flags = file->getHeader().e_flags;
  header.e_version = EV_CURRENT;
  header.e_ehsize = sizeof(Elf64_Ehdr);
  header.e_shentsize = sizeof(Elf64_Shdr);
  header.e_shnum = kSectionNames + 1;
  header.e_shstrndx = kSectionNames;
  header.e_shoff = sizeof(Elf64_Ehdr) + body.size();
  std::string result;
  append(result, header);
  result += body;
  uint64_t at = sizeof(Elf64_Ehdr);
  append(result, Elf64_Shdr{});
  Elf64_Shdr text = section(1, SHT_PROGBITS, at, image->size(), 4096);
  text.sh_flags = SHF_ALLOC | SHF_EXECINSTR;
  append(result, text);
  at += image->size();
  Elf64_Shdr table = section(7, SHT_SYMTAB, at, symbols.size(), 8);
  table.sh_link = kNames;
  table.sh_info = 1; // the first that is not local
  table.sh_entsize = sizeof(Elf64_Sym);
  append(result, table);
  at += symbols.size();
  append(result, section(15, SHT_STRTAB, at, names.size(), 1));
  append(result, section(23, SHT_STRTAB, at + names.size(), sectionNames.size(), 1));
  return result;
}

} // namespace tenon::codegen::cpu
