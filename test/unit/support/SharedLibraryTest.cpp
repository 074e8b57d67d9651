#include "support/SharedLibrary.h"

#include <gtest/gtest.h>

using namespace tenon;

TEST(SharedLibrary, IsWholeWithAllThatWasLookedFor) {
  SharedLibrary library("libm.so.6");
  double (*cosine)(double) = nullptr;
  library.find(cosine, "cos");
  ASSERT_TRUE(library.isWhole());
  EXPECT_EQ(1.0, cosine(0.0));
  library.find(cosine, "no_such_function");
  EXPECT_EQ(nullptr, cosine);
  library.find(cosine, "cos");
  EXPECT_NE(nullptr, cosine);
  EXPECT_FALSE(library.isWhole()); // one was missing
}

TEST(SharedLibrary, IsNotWholeWhereItIsNotThere) {
  SharedLibrary library("libtenon-has-no-such-library.so.1");
  double (*cosine)(double) = nullptr;
  library.find(cosine, "cos");
  EXPECT_EQ(nullptr, cosine);
  EXPECT_FALSE(library.isWhole());
}
