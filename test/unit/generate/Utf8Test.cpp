#include "generate/text/Utf8.h"

#include <gtest/gtest.h>

namespace tenon::generate {
namespace {

TEST(Utf8, EveryCodePointComesBack) {
  for (char32_t point = 0; point <= 0x10ffff; point += point < 0x3000 ? 1 : 37) {
    if (point >= 0xd800 && point < 0xe000) {
      continue;
    }
    std::string text;
    appendUtf8(text, point);
    Result<std::u32string> decoded = decodeUtf8(text);
    ASSERT_TRUE(decoded);
    ASSERT_TRUE(*decoded == std::u32string(1, point));
    ASSERT_EQ(encodeUtf8(*decoded), text);
    ASSERT_EQ(wellFormed(text), text);
    for (size_t size = 1; size < text.size(); ++size) {
      ASSERT_EQ(incompleteTail("a" + text.substr(0, size)), size);
      ASSERT_EQ(wellFormed(text.substr(0, size)), "\ufffd");
    }
    ASSERT_EQ(incompleteTail(text), 0u);
  }
}

TEST(Utf8, WhatIsNotUtf8IsNamedByItsOffset) {
  using namespace std::string_literals;
  for (const std::string &bad :
       {"\x80"s, "\xc0\x80"s, "\xc1\xbf"s, "\xe0\x9f\xbf"s, "\xed\xa0\x80"s, "\xf0\x8f\xbf\xbf"s,
        "\xf4\x90\x80\x80"s, "\xf5\x80\x80\x80"s, "\xff"s, "\xe2\x82"s, "\xf0\x9f\x99"s}) {
    Result<std::u32string> decoded = decodeUtf8("ab" + bad);
    ASSERT_FALSE(decoded);
    EXPECT_EQ(decoded.status().id(), ErrorId::TextNotUtf8);
    EXPECT_NE(decoded.status().message().find("byte 2"), std::string_view::npos);
  }
}

// Python: bytes.decode("utf-8", "replace")
TEST(Utf8, ReplacesAsPythonDoes) {
  const std::string kSign = "\ufffd";
  EXPECT_EQ(wellFormed("a\xff"
                       "b"),
            "a" + kSign + "b");
  EXPECT_EQ(wellFormed("\xe2\x82"), kSign);
  EXPECT_EQ(wellFormed("\xe2\x82z"), kSign + "z");
  EXPECT_EQ(wellFormed("\xe0\x80\x80"), kSign + kSign + kSign);
  EXPECT_EQ(wellFormed("\xed\xa0\x80"), kSign + kSign + kSign);
  EXPECT_EQ(wellFormed("\xf0\x9f\x99"), kSign);
  EXPECT_EQ(wellFormed("\xf0\x9f\xf0\x9f\x99\x82"), kSign + "\xf0\x9f\x99\x82");
  EXPECT_EQ(wellFormed("\xf0\x80\x80\x41"), kSign + kSign + kSign + "A");
  EXPECT_EQ(wellFormed("\xc3\xc3\xa9"), kSign + "\xc3\xa9");
}

TEST(Utf8, TailsThatBeginNothingAreNotHeldBack) {
  EXPECT_EQ(incompleteTail(""), 0u);
  EXPECT_EQ(incompleteTail("a"), 0u);
  EXPECT_EQ(incompleteTail("\x80"), 0u);
  EXPECT_EQ(incompleteTail("\xff"), 0u);
  EXPECT_EQ(incompleteTail("\xc0"), 0u);
  EXPECT_EQ(incompleteTail("\xe0\x80"), 0u);
  EXPECT_EQ(incompleteTail("\x80\x80\x80\x80"), 0u);
}

TEST(Utf8, Composes) {
  EXPECT_EQ(*composed("e\u0301 plain"), "\u00e9 plain");
  EXPECT_EQ(*composed("q\u0323\u0307"), *composed("q\u0307\u0323"));
  EXPECT_EQ(*composed("\u1112\u1161\u11ab"), "\ud55c");
  EXPECT_EQ(*composed("\u0958"), "\u0915\u093c"); // excluded from composing
  EXPECT_EQ(*composed("\u212b"), "\u00c5");
  EXPECT_EQ(*composed("\ufb01"), "\ufb01"); // of compatibility: stays
  EXPECT_EQ(*composed(std::string_view("a\0\u0301", 4)), std::string("a\0\u0301", 4));
}

} // namespace
} // namespace tenon::generate
