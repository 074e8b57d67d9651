// Status, Result and the table of errors.

#include "support/Hash.h"
#include "support/Result.h"
#include "support/text/Printable.h"
#include "support/text/Text.h"

#include <gtest/gtest.h>

#include <set>

namespace tenon {
namespace {

Status failing() { return Status::error(ErrorId::EngineBadMagic, "what happened", "do this"); }

Result<int> half(int value) {
  if (value % 2 != 0) {
    return failing();
  }
  return value / 2;
}

Result<int> quarter(int value) {
  TENON_ASSIGN(int once, half(value));
  TENON_ASSIGN(int twice, half(once));
  return twice;
}

Status tryBoth(bool fail) {
  TENON_TRY(Status::ok());
  TENON_TRY(fail ? failing() : Status::ok());
  return Status::ok();
}

TEST(Status, SaysWhatAndWhere) {
  Status status = failing();
  EXPECT_FALSE(status.isOk());
  EXPECT_EQ(Code::BadInput, status.code());
  EXPECT_EQ("TN0502", nameOf(status.id()));
  EXPECT_EQ("TN0502: what happened (do this)", status.toString());
  EXPECT_EQ("TN0502: file 'x': what happened (do this)", status.prefix("file 'x'").toString());
  Status copy = status;
  EXPECT_EQ(copy.toString(), status.toString());
  EXPECT_EQ("ok", Status::ok().toString());
  EXPECT_EQ(Code::Ok, Status::ok().code());
  EXPECT_TRUE(Status::ok().prefix("x").isOk());
}

TEST(Status, NamesBringNoControlCharacters) {
  Status status = Status::error(ErrorId::EngineBadMagic,
                                "node 'a\x1b[2J\nerror TN0301\x7f\xc2\x9b'", "try\rthis");
  EXPECT_EQ("node 'a\\u001B[2J\\u000Aerror TN0301\\u007F\\u009B'", status.message());
  EXPECT_EQ("try\\u000Dthis", status.hint());
  status.prefix("file '\t'");
  EXPECT_EQ("file '\\u0009': node 'a\\u001B[2J\\u000Aerror TN0301\\u007F\\u009B'",
            status.message());
  EXPECT_EQ("größe \xc2\xa0\xf0\x9f\x99\x82", withoutControls("größe \xc2\xa0\xf0\x9f\x99\x82"));
}

TEST(Status, Propagates) {
  EXPECT_EQ(3, *quarter(12));
  EXPECT_EQ(ErrorId::EngineBadMagic, quarter(6).status().id());
  EXPECT_EQ(ErrorId::InternalError, Result<int>(Status::ok()).status().id());
  EXPECT_TRUE(tryBoth(false).isOk());
  EXPECT_EQ(ErrorId::EngineBadMagic, tryBoth(true).id());
}

TEST(Status, TableIsSane) {
  std::set<int> numbers;
  std::set<std::string_view> titles;
  std::set<Code> codes = {Code::CheckFailed, Code::Usage,     Code::Unsupported, Code::Device,
                          Code::BadInput,    Code::Exhausted, Code::Internal};
#define TENON_ERROR(number, name, code, title)                                                     \
  EXPECT_TRUE(numbers.insert(number).second) << number << " is used twice";                        \
  EXPECT_TRUE(titles.insert(title).second) << title << " is used twice";                           \
  EXPECT_TRUE(codes.count(Code::code));                                                            \
  EXPECT_EQ(Code::code, codeOf(ErrorId::name));                                                    \
  EXPECT_EQ(title, titleOf(ErrorId::name));
#include "support/Errors.def"
#undef TENON_ERROR
  EXPECT_GT(numbers.size(), 40u);
}

TEST(Hash, KnownValuesAndPieces) {
  // XXH3-128 of the empty input, from the algorithm's specification.
  EXPECT_EQ("99aa06d3014798d86001c324468d497f", hashText("").hex());
  Hasher hasher;
  hasher.update("hello ");
  hasher.update("world");
  EXPECT_EQ(hashText("hello world"), hasher.digest());
  EXPECT_NE(hashText("hello world"), hashText("hello worle"));
  hasher.reset();
  EXPECT_EQ(hashText(""), hasher.digest());
}

TEST(Text, Joins) {
  EXPECT_EQ("a1b-2c", strCat("a", 1u, 'b', int64_t(-2), std::string("c")));
  EXPECT_EQ("-9223372036854775808 18446744073709551615", strCat(INT64_MIN, ' ', UINT64_MAX));
  EXPECT_EQ("1-200", strCat(true, int16_t(-200), std::string_view()));
  EXPECT_EQ(std::string("a\0b", 3), strCat('a', '\0', std::string("b")));
  EXPECT_EQ("", strCat());
}

} // namespace
} // namespace tenon
