// What is near enough to be meant.

#include "support/text/NearestName.h"

#include <gtest/gtest.h>

#include <vector>

namespace tenon {
namespace {

const std::vector<std::string> kVerbs = {"doctor", "inspect", "check", "compile", "run", "bench"};

TEST(NearestName, IsTheOneWithTheFewestChanges) {
  struct Case {
    const char *word;
    const char *nearest;
  };
  for (Case c : {Case{"complie", "compile"}, Case{"COMPILE", "compile"}, Case{"compil", "compile"},
                 Case{"inspecct", "inspect"}, Case{"chekc", "check"}, Case{"rnu", "run"},
                 Case{"bunch", "bench"}, Case{"xyzzy", ""}, Case{"tune", ""}, Case{"", ""},
                 Case{"r", ""}, Case{"abc", ""}}) {
    EXPECT_EQ(c.nearest, nearestName(c.word, kVerbs)) << c.word;
  }
  EXPECT_EQ("", nearestName("run", {}));
  EXPECT_EQ("", nearestName(std::string(100000, 'r'), kVerbs));
}

TEST(NearestName, EndsAMessage) {
  EXPECT_EQ("did you mean 'run'?", didYouMean("runn", kVerbs, "see --help"));
  EXPECT_EQ("see --help", didYouMean("xyzzy", kVerbs, "see --help"));
}

} // namespace
} // namespace tenon
