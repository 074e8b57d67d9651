// The formats of elements that are only stored, by values known from their definitions.
#include "compiler/reference/LowBits.h"

#include "ReferenceFixture.h"

#include <cmath>
#include <gtest/gtest.h>

namespace tenon::reference {
namespace {

struct Known {
  DType type;
  double number;
  int code;           ///< of a cast that saturates
  int unbounded = -1; ///< of one that does not, where it differs
};

TEST(LowBits, NumbersHaveTheCodesOfTheFormats) {
  const Known known[] = {
      {DType::F8E4M3FN, 1, 0x38},
      {DType::F8E4M3FN, 448, 0x7E},
      {DType::F8E4M3FN, 464, 0x7E},
      {DType::F8E4M3FN, 465, 0x7E, 0x7F},
      {DType::F8E4M3FN, -kInf, 0xFE, 0xFF},
      {DType::F8E4M3FN, kNan, 0x7F},
      {DType::F8E4M3FN, -0.0, 0x80},
      {DType::F8E4M3FN, 0x1p-9, 0x01},
      {DType::F8E4M3FN, 0x1p-10, 0x00},
      {DType::F8E4M3FN, 0x1.8p-9, 0x02},
      {DType::F8E4M3FNUZ, 240, 0x7F},
      {DType::F8E4M3FNUZ, 1e9, 0x7F, 0x80},
      {DType::F8E4M3FNUZ, -0.0, 0x00},
      {DType::F8E4M3FNUZ, -kNan, 0x80},
      {DType::F8E5M2, 57344, 0x7B},
      {DType::F8E5M2, kInf, 0x7B, 0x7C},
      {DType::F8E5M2, -1e9, 0xFB, 0xFC},
      {DType::F8E5M2, kNan, 0x7E},
      {DType::F8E5M2FNUZ, 57344, 0x7F},
      {DType::F8E5M2FNUZ, -1e9, 0xFF, 0x80},
      {DType::F4E2M1, 0.25, 0},
      {DType::F4E2M1, 0.26, 1},
      {DType::F4E2M1, 5, 6},
      {DType::F4E2M1, -1e9, 15},
      {DType::F4E2M1, kNan, 8},
      {DType::F8E8M0, 1, 127},
      {DType::F8E8M0, 1.1, 128},
      {DType::F8E8M0, 0, 0, 255},
      {DType::F8E8M0, kInf, 254, 255},
      {DType::F8E8M0, kNan, 255},
      {DType::I4, -9, 7},
      {DType::I4, -1.9, 15},
      {DType::U4, 17, 1},
      {DType::I2, 2, 2},
      {DType::U2, kNan, 0},
      {DType::U2, 1e20, 0},
  };
  for (const Known &row : known) {
    EXPECT_EQ(lowBitCode(row.type, row.number), row.code) << nameOf(row.type) << " " << row.number;
    int unbounded = row.unbounded < 0 ? row.code : row.unbounded;
    EXPECT_EQ(lowBitCode(row.type, row.number, {.saturate = false}), unbounded)
        << nameOf(row.type) << " " << row.number;
  }
}

TEST(LowBits, PowersOfTwoRoundAsAsked) {
  EXPECT_EQ(lowBitCode(DType::F8E8M0, 1.4, {.round = "nearest"}), 127);
  EXPECT_EQ(lowBitCode(DType::F8E8M0, 1.5, {.round = "nearest"}), 128);
  EXPECT_EQ(lowBitCode(DType::F8E8M0, 1.9, {.round = "down"}), 127);
  EXPECT_EQ(lowBitCode(DType::F8E8M0, -1.9, {.round = "down"}), 127);
}

TEST(LowBits, EachCodeSurvivesBothWays) {
  for (int value = 1; value <= kLastDType; ++value) {
    DType type = static_cast<DType>(value);
    for (int code = 0; isLowBit(type) && code < 1 << valueBits(type); ++code) {
      double number = lowBitNumber(type, static_cast<uint8_t>(code));
      bool isCode = lowBitCode(type, number, {.saturate = false}) == code;
      EXPECT_TRUE(isCode || std::isnan(number)) << nameOf(type) << " " << code;
    }
  }
}

} // namespace
} // namespace tenon::reference
