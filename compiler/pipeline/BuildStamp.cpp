// Relies on dl_iterate_phdr for the loaded objects and their notes.
#include "compiler/pipeline/BuildStamp.h"

#include "support/Hash.h"
#include "support/files/FileStamp.h"
#include "support/text/Text.h"

#include <cstring>
#include <elf.h>
#include <link.h>
#include <string_view>

namespace tenon::pipeline {
namespace {

/// The build id among the notes; empty if there is none.
std::string_view buildIdIn(std::string_view notes) {
  constexpr std::string_view gnu("GNU", 4);
  auto padded = [](size_t size) { return (size + 3) / 4 * 4; };
  Elf64_Nhdr note;
  while (notes.size() >= sizeof(note)) {
    std::memcpy(&note, notes.data(), sizeof(note));
    notes.remove_prefix(sizeof(note));
    size_t nameBytes = padded(note.n_namesz);
    if (nameBytes > notes.size() || note.n_descsz > notes.size() - nameBytes) {
      break;
    }
    if (note.n_type == NT_GNU_BUILD_ID && notes.substr(0, note.n_namesz) == gnu) {
      return notes.substr(nameBytes, note.n_descsz);
    }
    notes.remove_prefix(std::min(nameBytes + padded(note.n_descsz), notes.size()));
  }
  return {};
}

int addObject(dl_phdr_info *object, size_t, void *text) {
  std::string &all = *static_cast<std::string *>(text);
  std::string_view path = object->dlpi_name;
  if (path.starts_with("linux-vdso")) {
    return 0; // the kernel's
  }
  std::string_view id;
  for (int i = 0; i < object->dlpi_phnum && id.empty(); ++i) {
    const ElfW(Phdr) &segment = object->dlpi_phdr[i];
    if (segment.p_type == PT_NOTE) {
      const char *notes = reinterpret_cast<const char *>(object->dlpi_addr + segment.p_vaddr);
      id = buildIdIn({notes, segment.p_memsz});
    }
  }
  all += id.empty() ? FileStamp::of(path.empty() ? "/proc/self/exe" : std::string(path)).text()
                    : std::string(id);
  all += '\n';
  return 0;
}

} // namespace

const std::string &buildStamp() {
  static const std::string stamp = [] {
    std::string all;
    ::dl_iterate_phdr(addObject, &all);
    return hashText(all).hex();
  }();
  return stamp;
}

} // namespace tenon::pipeline
