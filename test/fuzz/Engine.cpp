// Engine files. Their hashes are made right first, or nothing behind the first check would ever be
// reached.
#include "engine/Format.h"
#include "engine/Reader.h"
#include "test/fuzz/Fuzz.h"

#include <algorithm>
#include <cstring>

using namespace tenon;
using engine::FileHeader;
using engine::SectionEntry;

namespace {

void makeHashesRight(std::vector<std::byte> &image) {
  FileHeader header;
  if (image.size() < sizeof(header)) {
    return;
  }
  std::memcpy(&header, image.data(), sizeof(header));
  std::memcpy(header.magic, engine::kMagic, sizeof(engine::kMagic));
  header.version = engine::kFormatVersion;
  header.fileBytes = image.size();
  size_t room = (image.size() - sizeof(header)) / sizeof(SectionEntry);
  std::vector<SectionEntry> sections(std::min<size_t>(header.sectionCount, room));
  std::copy_n(image.data() + sizeof(header), sections.size() * sizeof(SectionEntry),
              reinterpret_cast<std::byte *>(sections.data()));
  for (SectionEntry &section : sections) {
    bool isInside =
        section.offset <= image.size() && section.bytes <= image.size() - section.offset;
    if (isInside && section.kind != engine::SectionKind::Weights) {
      Hash128 hash = hashBytes(Bytes(image).subspan(section.offset, section.bytes));
      section.hashLow = hash.low;
      section.hashHigh = hash.high;
    }
  }
  Hash128 hash = engine::headerHash(header, sections);
  header.hashLow = hash.low;
  header.hashHigh = hash.high;
  std::memcpy(image.data(), &header, sizeof(header));
  std::ranges::copy(std::as_bytes(std::span(sections)), image.begin() + sizeof(header));
}

} // namespace

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  Bytes given = fuzz::bytesOf(data, size);
  std::vector<std::byte> image(given.begin(), given.end());
  makeHashesRight(image);
  Result<std::unique_ptr<engine::EngineFile>> file = engine::EngineFile::fromMemory(image);
  if (file) {
    (void)(*file)->verifyWeights().isOk();
    for (const std::string &name : (*file)->recordNames()) {
      (void)(*file)->record(name).isOk();
    }
  }
  return 0;
}
