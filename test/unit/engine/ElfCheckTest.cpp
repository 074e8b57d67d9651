// What a code object must not be; each fault is planted in one that is accepted.

#include "engine/ElfCheck.h"

#include "test/unit/engine/EngineFixture.h"

#include <gtest/gtest.h>

#include <cstring>
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
  return checkCodeObject(code);
}

using Segments = std::vector<Elf64_Phdr>;

TEST(ElfCheck, AcceptsWhatTheTestsRun) {
  Status status = checkCodeObject(test::codeObject("two"));
  EXPECT_TRUE(status.isOk()) << status.toString();
  status = checkChanged([](Elf64_Ehdr &, Segments &) {});
  EXPECT_TRUE(status.isOk()) << status.toString();
}

TEST(ElfCheck, RefusesLibrariesAndInitializers) {
  EXPECT_EQ(ErrorId::EngineBadCode, checkCodeObject(test::codeObject("needed")).id());
  EXPECT_EQ(ErrorId::EngineBadCode, checkCodeObject(test::codeObject("initializer")).id());
}

TEST(ElfCheck, RefusesWrongHeaders) {
  EXPECT_FALSE(checkCodeObject({}).isOk());
  EXPECT_FALSE(checkChanged([](Elf64_Ehdr &h, Segments &) { h.e_ident[0] = 0; }).isOk());
  EXPECT_FALSE(checkChanged([](Elf64_Ehdr &h, Segments &) { h.e_ident[EI_CLASS] = 1; }).isOk());
  EXPECT_FALSE(checkChanged([](Elf64_Ehdr &h, Segments &) { h.e_type = ET_EXEC; }).isOk());
  EXPECT_FALSE(checkChanged([](Elf64_Ehdr &h, Segments &) { h.e_machine = EM_386; }).isOk());
  EXPECT_FALSE(checkChanged([](Elf64_Ehdr &h, Segments &) { h.e_phentsize = 1; }).isOk());
  EXPECT_FALSE(checkChanged([](Elf64_Ehdr &h, Segments &) { h.e_phoff = UINT64_MAX; }).isOk());
}

TEST(ElfCheck, RefusesWrongSegments) {
  EXPECT_FALSE(checkChanged([](Elf64_Ehdr &, Segments &s) {
                 for (Elf64_Phdr &segment : s) {
                   segment.p_filesz = UINT64_MAX;
                 }
               }).isOk());
  EXPECT_FALSE(checkChanged([](Elf64_Ehdr &, Segments &s) {
                 for (Elf64_Phdr &segment : s) {
                   segment.p_memsz = uint64_t(1) << 40;
                 }
               }).isOk());
  EXPECT_FALSE(checkChanged([](Elf64_Ehdr &, Segments &s) {
                 for (Elf64_Phdr &segment : s) {
                   segment.p_flags = PF_R | PF_W | PF_X;
                 }
               }).isOk());
  EXPECT_FALSE(checkChanged([](Elf64_Ehdr &, Segments &s) {
                 for (Elf64_Phdr &segment : s) {
                   segment.p_type = segment.p_type == PT_DYNAMIC ? PT_NULL : segment.p_type;
                 }
               }).isOk());
  EXPECT_FALSE(checkChanged([](Elf64_Ehdr &, Segments &s) { s[0].p_type = PT_INTERP; }).isOk());
}

} // namespace
} // namespace tenon::engine
