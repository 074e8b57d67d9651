// Files by their first bytes.

#include "tools/tenon/inputs/FileKind.h"
#include "tools/tenon/target/Target.h"

#include <gtest/gtest.h>

#include <fstream>
#include <span>

namespace tenon::tool {
namespace {

using namespace std::string_literals;

FileKind kindOf(const std::string &text) { return contentOf(std::as_bytes(std::span(text))).kind; }

TEST(FileKind, IsKnownByContent) {
  struct Case {
    std::string bytes;
    FileKind kind;
  };
  for (const Case &c :
       {Case{"", FileKind::Empty}, Case{"\x89TENON\r\n"s, FileKind::Engine},
        Case{"\x08\x08\x12\x07pytorch"s, FileKind::Model},
        Case{"\x3a\x02\x0a\x00"s, FileKind::Model}, Case{"\x93NUMPY\x01\x00"s, FileKind::Npy},
        Case{"PK\x03\x04\x14\x00\x00\x00image.npy"s, FileKind::Npz},
        Case{"PK\x03\x04\x00\x00model/data.pkl"s, FileKind::Other},
        Case{"\x89PNG\r\n\x1a\n"s, FileKind::Picture}, Case{"\xff\xd8\xff\xe0"s, FileKind::Picture},
        Case{"\x7f"s + "ELF\x02", FileKind::Other}, Case{"a note", FileKind::Other},
        Case{"#loc = loc(\"x\")\nmodule", FileKind::PhaseDump},
        Case{"// 0.1, TN0741: no code\n#set = 1", FileKind::PhaseDump},
        Case{"\x14\x00\x00\x00\x00\x00\x00\x00{\"w\":"s, FileKind::Other},
        Case{std::string(257, '\0') + "ustar", FileKind::Other},
        Case{"\x00\x01\x02\x03"s, FileKind::Unknown}, Case{"\xff\xff"s, FileKind::Unknown}}) {
    EXPECT_EQ(c.kind, kindOf(c.bytes)) << c.bytes;
  }
}

TEST(FileKind, DecidesWithTheVerb) {
  std::string path = ::testing::TempDir() + "/something.onnx";
  auto decide = [&](const std::string &bytes, Takes takes) {
    std::ofstream(path, std::ios::binary) << bytes;
    return isModel(path, takes);
  };
  EXPECT_TRUE(*decide("\x08\x08"s, Takes::Either));
  EXPECT_FALSE(*decide("\x89TENON\r\n"s, Takes::Either));
  EXPECT_EQ(ErrorId::OnnxNotAModel, decide("\x89TENON\r\n"s, Takes::Model).status().id());
  EXPECT_EQ(ErrorId::EngineBadMagic, decide("\x08\x08"s, Takes::Engine).status().id());
  EXPECT_EQ(ErrorId::OnnxNotAModel, decide("text", Takes::Either).status().id());
  // What is damaged goes to the reader that its name promises.
  EXPECT_TRUE(*decide("\x00\x01"s, Takes::Either));
  EXPECT_TRUE(*decide("", Takes::OnnxOrEngine));
  EXPECT_FALSE(*decide("", Takes::Engine));
  EXPECT_EQ(ErrorId::FileNotFound, isModel("/nowhere/model", Takes::Either).status().id());
}

TEST(Variant, HasOneNameWithAndWithoutItsDevice) {
  for (const char *name : {"avx2", "x86-64-v3", "cpu:avx2", "cpu:x86-64-v3"}) {
    EXPECT_EQ("x86-64-v3", *parseVariant(name)) << name;
  }
  EXPECT_EQ("sm_90", *parseVariant("cuda:sm_90"));
  for (const char *name : {"", "cpu:", "sse2", "sm_75", "cpu"}) {
    EXPECT_EQ(ErrorId::EngineUnknownVariant, parseVariant(name).status().id()) << name;
  }
}

} // namespace
} // namespace tenon::tool
