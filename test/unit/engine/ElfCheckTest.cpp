// What a code object must not be; each fault is planted in one that is accepted, and found although
// the sections, which the loader does not read, say nothing of it.

#include "engine/code/ElfCheck.h"

#include "test/unit/engine/EngineFixture.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <dlfcn.h>
#include <elf.h>

namespace tenon::engine {
namespace {

/// Applies `change` to the ELF header and program headers of a good object.
template <typename Fn> Status checkChanged(const Fn &change) {
  std::vector<std::byte> code = test::codeObject("two");
  Elf64_Ehdr header;
  std::memcpy(&header, code.data(), sizeof(header));
  std::vector<Elf64_Phdr> segments(header.e_phnum);
  size_t segmentBytes = segments.size() * sizeof(Elf64_Phdr);
  std::memcpy(segments.data(), code.data() + header.e_phoff, segmentBytes);
  change(header, segments);
  std::memcpy(code.data(), &header, sizeof(header));
  if (header.e_phoff < code.size()) {
    std::memcpy(code.data() + header.e_phoff, segments.data(), segmentBytes);
  }
  return checkCodeObject(code, Architecture::X86_64);
}

using Segments = std::vector<Elf64_Phdr>;

Elf64_Phdr &segmentOf(Segments &segments, uint32_t type) {
  return *std::ranges::find(segments, type, &Elf64_Phdr::p_type);
}

/// Applies `change` to the entries of a good object's dynamic section, and to all of its bytes.
template <typename Fn> Status checkDynamic(const Fn &change) {
  std::vector<std::byte> code = test::codeObject("two");
  Elf64_Ehdr header;
  std::memcpy(&header, code.data(), sizeof(header));
  Segments segments(header.e_phnum);
  std::memcpy(segments.data(), code.data() + header.e_phoff, header.e_phnum * sizeof(Elf64_Phdr));
  const Elf64_Phdr &dynamic = segmentOf(segments, PT_DYNAMIC);
  std::vector<Elf64_Dyn> entries(dynamic.p_filesz / sizeof(Elf64_Dyn));
  std::memcpy(entries.data(), code.data() + dynamic.p_offset, dynamic.p_filesz);
  change(entries, code);
  std::memcpy(code.data() + dynamic.p_offset, entries.data(), dynamic.p_filesz);
  return checkCodeObject(code, Architecture::X86_64);
}

using Entries = std::vector<Elf64_Dyn>;
using Code = std::vector<std::byte>;

Elf64_Dyn &entryOf(Entries &entries, int64_t tag) {
  return *std::ranges::find(entries, tag, &Elf64_Dyn::d_tag);
}

/// Of an object whose first segment is mapped at its offset, as the linker lays it out.
template <typename T> T &at(Code &code, uint64_t address) {
  return *reinterpret_cast<T *>(code.data() + address);
}

TEST(ElfCheck, AcceptsWhatTheTestsRun) {
  std::vector<std::string> kernels = {"test_nothing", "test_gather"};
  Status status = checkCodeObject(test::codeObject("two"), Architecture::X86_64, kernels);
  EXPECT_TRUE(status.isOk()) << status.toString();
  status = checkChanged([](Elf64_Ehdr &, Segments &) {});
  EXPECT_TRUE(status.isOk()) << status.toString();
  status = checkDynamic([](Entries &, Code &) {});
  EXPECT_TRUE(status.isOk()) << status.toString();
  kernels.push_back("test_missing");
  status = checkCodeObject(test::codeObject("two"), Architecture::X86_64, kernels);
  EXPECT_NE(std::string::npos, status.message().find("no kernel 'test_missing'"));
}

TEST(ElfCheck, RefusesWhatLinkersCanMakeAndTheCompilerDoesNot) {
  for (const char *name :
       {"needed", "initializer", "resolver", "relocated", "undefined", "stack", "data", "thread"}) {
    EXPECT_EQ(ErrorId::EngineBadCode,
              checkCodeObject(test::codeObject(name), Architecture::X86_64).id())
        << name;
  }
}

TEST(ElfCheck, RefusesWrongHeaders) {
  EXPECT_FALSE(checkCodeObject({}, Architecture::X86_64).isOk());
  for (size_t size : {1, 63, 64, 200}) {
    EXPECT_FALSE(
        checkCodeObject(Bytes(test::codeObject("two")).first(size), Architecture::X86_64).isOk())
        << size;
  }
  for (auto change :
       {+[](Elf64_Ehdr &h) { h.e_ident[0] = 0; },
        +[](Elf64_Ehdr &h) { h.e_ident[EI_CLASS] = ELFCLASS32; },
        +[](Elf64_Ehdr &h) { h.e_ident[EI_DATA] = ELFDATA2MSB; },
        +[](Elf64_Ehdr &h) { h.e_ident[EI_VERSION] = 9; }, +[](Elf64_Ehdr &h) { h.e_version = 9; },
        +[](Elf64_Ehdr &h) { h.e_type = ET_EXEC; }, +[](Elf64_Ehdr &h) { h.e_machine = EM_386; },
        +[](Elf64_Ehdr &h) { h.e_phentsize = 1; }, +[](Elf64_Ehdr &h) { h.e_phnum = 0; },
        +[](Elf64_Ehdr &h) { h.e_phnum = 0xffff; }, +[](Elf64_Ehdr &h) { h.e_phoff = UINT64_MAX; },
        +[](Elf64_Ehdr &h) { h.e_phoff = UINT64_MAX - 55; }}) {
    EXPECT_EQ(ErrorId::EngineBadCode,
              checkChanged([&](Elf64_Ehdr &h, Segments &) { change(h); }).id());
  }
}

TEST(ElfCheck, RefusesWrongSegments) {
  struct Row {
    const char *what;
    void (*change)(Segments &);
  };
  const Row rows[] = {
      {"no end", [](Segments &s) { segmentOf(s, PT_LOAD).p_filesz = UINT64_MAX; }},
      {"beyond the file", [](Segments &s) { segmentOf(s, PT_LOAD).p_offset += 1 << 20; }},
      {"huge memory", [](Segments &s) { s[3].p_memsz = uint64_t(1) << 40; }},
      {"less memory than bytes", [](Segments &s) { s[3].p_memsz = s[3].p_filesz - 1; }},
      {"high address", [](Segments &s) { s[3].p_vaddr += uint64_t(1) << 40; }},
      {"wrapping address", [](Segments &s) { s[3].p_vaddr = UINT64_MAX - 0xfff; }},
      {"writable code", [](Segments &s) { s[2].p_flags = PF_R | PF_W | PF_X; }},
      {"headers that cannot be read", [](Segments &s) { s[1].p_flags = 0; }},
      {"overlap", [](Segments &s) { s[2].p_vaddr -= 0x1000; }},
      {"order", [](Segments &s) { std::swap(s[1], s[2]); }},
      {"no alignment", [](Segments &s) { s[2].p_align = 0; }},
      {"odd alignment", [](Segments &s) { s[2].p_align = 0x1001; }},
      {"large alignment", [](Segments &s) { s[2].p_align = uint64_t(1) << 40; }},
      {"memory without bytes in code", [](Segments &s) { s[2].p_memsz += 0x100; }},
      {"no dynamic section", [](Segments &s) { segmentOf(s, PT_DYNAMIC).p_type = PT_NULL; }},
      {"two dynamic sections", [](Segments &s) { segmentOf(s, PT_PHDR).p_type = PT_DYNAMIC; }},
      // Only its address counts for the loader.
      {"dynamic address", [](Segments &s) { segmentOf(s, PT_DYNAMIC).p_vaddr -= 0x1000; }},
      {"dynamic in code", [](Segments &s) { segmentOf(s, PT_DYNAMIC).p_vaddr = s[2].p_vaddr; }},
      {"dynamic unaligned", [](Segments &s) { segmentOf(s, PT_DYNAMIC).p_vaddr += 4; }},
      {"headers elsewhere", [](Segments &s) { segmentOf(s, PT_PHDR).p_vaddr += 8; }},
      {"interpreter", [](Segments &s) { segmentOf(s, PT_PHDR).p_type = PT_INTERP; }},
      {"thread-local", [](Segments &s) { segmentOf(s, PT_PHDR).p_type = PT_TLS; }},
      {"unknown", [](Segments &s) { segmentOf(s, PT_PHDR).p_type = 0x12345678; }},
      {"executable stack", [](Segments &s) { segmentOf(s, PT_GNU_STACK).p_flags |= PF_X; }},
      {"no word on the stack", [](Segments &s) { s.back().p_type = PT_NOTE; }},
      {"others' memory made read-only",
       [](Segments &s) { segmentOf(s, PT_GNU_RELRO).p_vaddr = uint64_t(1) << 40; }},
      {"code made read-only",
       [](Segments &s) { segmentOf(s, PT_GNU_RELRO).p_vaddr = s[2].p_vaddr; }},
  };
  for (const Row &row : rows) {
    Status status = checkChanged([&](Elf64_Ehdr &, Segments &s) { row.change(s); });
    EXPECT_EQ(ErrorId::EngineBadCode, status.id()) << row.what;
  }
}

TEST(ElfCheck, RefusesEntriesOfTheDynamicSection) {
  for (int64_t tag : std::initializer_list<int64_t>{
           DT_NEEDED, DT_AUDIT,      DT_DEPAUDIT,   DT_FILTER,        DT_AUXILIARY, DT_INIT,
           DT_FINI,   DT_INIT_ARRAY, DT_FINI_ARRAY, DT_PREINIT_ARRAY, DT_REL,       DT_RELA,
           DT_RELR,   DT_JMPREL,     DT_PLTREL,     DT_TEXTREL,       DT_RPATH,     DT_RUNPATH,
           DT_SONAME, DT_SYMBOLIC,   DT_HASH,       DT_VERSYM,        DT_VERNEED,   DT_VERDEF,
           DT_PLTGOT, DT_DEBUG,      0x12345}) {
    Status status = checkDynamic([&](Entries &e, Code &) { entryOf(e, DT_SYMENT).d_tag = tag; });
    EXPECT_EQ(ErrorId::EngineBadCode, status.id()) << tag;
  }
  struct Row {
    const char *what;
    void (*change)(Entries &, Code &);
  };
  const Row rows[] = {
      {"no end", [](Entries &e, Code &) { entryOf(e, DT_NULL).d_tag = DT_SYMENT; }},
      {"twice", [](Entries &e, Code &) { entryOf(e, DT_STRSZ).d_tag = DT_SYMTAB; }},
      {"symbols outside", [](Entries &e, Code &) { entryOf(e, DT_SYMTAB).d_un.d_val = 1u << 30; }},
      {"symbols unaligned", [](Entries &e, Code &) { entryOf(e, DT_SYMTAB).d_un.d_val += 1; }},
      {"size of a symbol", [](Entries &e, Code &) { entryOf(e, DT_SYMENT).d_un.d_val = 16; }},
      {"names outside", [](Entries &e, Code &) { entryOf(e, DT_STRTAB).d_un.d_val = 1u << 30; }},
      {"long names", [](Entries &e, Code &) { entryOf(e, DT_STRSZ).d_un.d_val = UINT64_MAX; }},
      {"no names", [](Entries &e, Code &) { entryOf(e, DT_STRSZ).d_un.d_val = 0; }},
      {"names without end", [](Entries &e, Code &) { entryOf(e, DT_STRSZ).d_un.d_val -= 2; }},
      {"table outside", [](Entries &e, Code &) { entryOf(e, DT_GNU_HASH).d_un.d_val = 1u << 30; }},
      {"odd bloom filter",
       [](Entries &e, Code &c) { at<uint32_t>(c, entryOf(e, DT_GNU_HASH).d_un.d_val + 8) = 3; }},
      {"no bloom filter",
       [](Entries &e, Code &c) { at<uint32_t>(c, entryOf(e, DT_GNU_HASH).d_un.d_val + 8) = 0; }},
      {"large bloom filter",
       [](Entries &e, Code &c) {
         at<uint32_t>(c, entryOf(e, DT_GNU_HASH).d_un.d_val + 8) = 1u << 31;
       }},
      {"no buckets",
       [](Entries &e, Code &c) { at<uint32_t>(c, entryOf(e, DT_GNU_HASH).d_un.d_val) = 0; }},
      {"many buckets",
       [](Entries &e, Code &c) { at<uint32_t>(c, entryOf(e, DT_GNU_HASH).d_un.d_val) = 1u << 20; }},
      {"symbols that no lookup finds",
       [](Entries &e, Code &c) { at<uint32_t>(c, entryOf(e, DT_GNU_HASH).d_un.d_val + 4) = 2; }},
      {"undefined symbol",
       [](Entries &e, Code &c) {
         at<Elf64_Sym>(c, entryOf(e, DT_SYMTAB).d_un.d_val + 24).st_shndx = 0;
       }},
      {"absolute symbol",
       [](Entries &e, Code &c) {
         at<Elf64_Sym>(c, entryOf(e, DT_SYMTAB).d_un.d_val + 24).st_shndx = SHN_ABS;
       }},
      {"resolver",
       [](Entries &e, Code &c) {
         at<Elf64_Sym>(c, entryOf(e, DT_SYMTAB).d_un.d_val + 24).st_info =
             ELF64_ST_INFO(STB_GLOBAL, STT_GNU_IFUNC);
       }},
      {"unique symbol",
       [](Entries &e, Code &c) {
         at<Elf64_Sym>(c, entryOf(e, DT_SYMTAB).d_un.d_val + 24).st_info =
             ELF64_ST_INFO(STB_GNU_UNIQUE, STT_FUNC);
       }},
      {"symbol outside",
       [](Entries &e, Code &c) {
         at<Elf64_Sym>(c, entryOf(e, DT_SYMTAB).d_un.d_val + 24).st_value = 1u << 30;
       }},
      {"symbol in data",
       [](Entries &e, Code &c) {
         at<Elf64_Sym>(c, entryOf(e, DT_SYMTAB).d_un.d_val + 24).st_value = 8;
       }},
      {"name outside",
       [](Entries &e, Code &c) {
         at<Elf64_Sym>(c, entryOf(e, DT_SYMTAB).d_un.d_val + 24).st_name = 1u << 30;
       }},
      {"unknown flag",
       [](Entries &e, Code &) { entryOf(e, DT_FLAGS_1).d_un.d_val |= DF_1_NODELETE; }},
      {"changes its text",
       [](Entries &e, Code &) { entryOf(e, DT_FLAGS).d_un.d_val |= DF_TEXTREL; }},
  };
  for (const Row &row : rows) {
    EXPECT_EQ(ErrorId::EngineBadCode, checkDynamic(row.change).id()) << row.what;
  }
}

/// Any object that is accepted can be loaded and looked into without a crash.
TEST(ElfCheck, WhatIsAcceptedLoads) {
  const std::vector<std::byte> good = test::codeObject("two");
  std::string path = test::temporaryPath("flipped.so");
  unsigned accepted = 0;
  uint32_t state = 1;
  for (int round = 0; round < 20000; ++round) {
    std::vector<std::byte> code = good;
    // Headers, dynamic section and tables; not the code.
    state = state * 1664525 + 1013904223;
    size_t place = state % (good.size() < 1400 ? good.size() : 1400);
    state = state * 1664525 + 1013904223;
    code[place] ^= std::byte(1 << (state >> 24) % 8);
    if (!checkCodeObject(code, Architecture::X86_64).isOk()) {
      continue;
    }
    ++accepted;
    if (accepted % 10 != 0) {
      continue;
    }
    FILE *file = fopen(path.c_str(), "wb");
    fwrite(code.data(), 1, code.size(), file);
    fclose(file);
    if (void *handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL)) {
      dlsym(handle, "test_nothing");
      dlsym(handle, "test_missing");
      dlclose(handle);
    }
    remove(path.c_str());
  }
  EXPECT_GT(accepted, 1000u);
  EXPECT_LT(accepted, 19000u);
}

} // namespace
} // namespace tenon::engine
