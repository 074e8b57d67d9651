// The search over whole forms against all of them, for nets whose times and errors do not add up: a
// conversion stands wherever a wide layer meets a narrow one, errors of neighbours strengthen or
// weaken each other, and what was measured of single layers is off.
#include "compiler/quant/FormSearch.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>

namespace tenon::quant {
namespace {

/// A chain of layers, each wide or narrow.
struct Net {
  std::vector<double> wide, narrow, errors;
  double conversion = 0;
  std::vector<double> together; ///< what two narrow neighbours add to the error, relative to theirs

  Net(std::mt19937 &random, size_t count, double conversion) : conversion(conversion) {
    std::uniform_real_distribution<double> time(0.5, 2), ratio(0.4, 1.1), error(-5, -1),
        part(-0.3, 0.5);
    for (size_t i = 0; i < count; ++i) {
      wide.push_back(time(random));
      narrow.push_back(wide.back() * ratio(random));
      errors.push_back(std::pow(10, error(random)));
      together.push_back(part(random));
    }
  }

  FormCost costOf(const Form &form) const {
    FormCost cost;
    bool wasNarrow = false;
    for (size_t i = 0; i < form.size(); ++i) {
      bool isNarrow = form[i] != 0;
      cost.time += (isNarrow ? narrow[i] : wide[i]) + (isNarrow != wasNarrow ? conversion : 0);
      cost.drop += isNarrow ? errors[i] : 0;
      cost.drop += isNarrow && wasNarrow ? together[i] * std::sqrt(errors[i] * errors[i - 1]) : 0;
      wasNarrow = isNarrow;
    }
    cost.drop = std::max(cost.drop, 0.0);
    return cost;
  }

  /// What a measurement of single layers, off by some percent, says.
  std::vector<std::vector<Choice>> choices(std::mt19937 &random) const {
    std::uniform_real_distribution<double> off(0.97, 1.03);
    std::vector<std::vector<Choice>> groups;
    for (size_t i = 0; i < wide.size(); ++i) {
      groups.push_back({{0, 0}, {narrow[i] * off(random) - wide[i], errors[i]}});
    }
    return groups;
  }
};

Form formOf(size_t bits, size_t count) {
  Form form(count);
  for (size_t i = 0; i < count; ++i) {
    form[i] = bits >> i & 1;
  }
  return form;
}

struct Asked {
  Limits limits;
  double best = 0; ///< the least time within the drop, or the least drop within the time
};

/// Limits that some of all forms keep, from the tightest to the loosest.
std::vector<Asked> askedOf(const Net &net, size_t count) {
  std::vector<FormCost> all;
  for (size_t bits = 0; bits < size_t(1) << count; ++bits) {
    all.push_back(net.costOf(formOf(bits, count)));
  }
  std::vector<Asked> asked;
  for (double share : {0.0, 0.02, 0.1, 0.3, 0.6, 1.0}) {
    double most = 0, slowest = 0, fastest = 1e30;
    for (const FormCost &cost : all) {
      most = std::max(most, cost.drop);
      slowest = std::max(slowest, cost.time);
      fastest = std::min(fastest, cost.time);
    }
    Asked byDrop{{share * share * most, std::nullopt}, 1e30};
    Asked byTime{{std::nullopt, slowest + share * (fastest * 1.03 - slowest)}, 1e30};
    for (const FormCost &cost : all) {
      byDrop.best =
          cost.drop <= *byDrop.limits.drop ? std::min(byDrop.best, cost.time) : byDrop.best;
      byTime.best =
          cost.time <= *byTime.limits.time ? std::min(byTime.best, cost.drop) : byTime.best;
    }
    asked.push_back(byDrop);
    asked.push_back(byTime);
  }
  return asked;
}

TEST(FormSearch, MeetsWhatExhaustiveSearchMeets) {
  constexpr size_t kCount = 12;
  std::mt19937 random(7);
  size_t measured = 0, searches = 0, missed = 0;
  for (double conversion : {0.0, 0.1, 0.3}) {
    for (int repeat = 0; repeat < 10; ++repeat) {
      Net net(random, kCount, conversion);
      for (const Asked &asked : askedOf(net, kCount)) {
        FormSearch search(
            net.choices(random), asked.limits, net.costOf(Form(kCount)).time,
            [&](const Form &form) -> Result<FormCost> {
              ++measured;
              return net.costOf(form);
            },
            [] { return true; });
        ASSERT_TRUE(search.run(Form(kCount, 1)).isOk());
        ++searches;
        std::optional<Form> best = search.best();
        ASSERT_TRUE(best) << "conversion " << conversion << ", drop "
                          << asked.limits.drop.value_or(-1) << ", time "
                          << asked.limits.time.value_or(-1);
        FormCost cost = net.costOf(*best);
        EXPECT_TRUE(search.fits(cost));
        if (asked.limits.drop) {
          EXPECT_LE(cost.time, 1.03 * asked.best)
              << "conversion " << conversion << ", drop " << *asked.limits.drop;
        } else {
          // Where neighbours strengthen each other's errors, a few need more than two changes at
          // once.
          missed += cost.drop > 1.03 * asked.best + 1e-9;
          EXPECT_LE(cost.drop, 1.3 * asked.best + 1e-9)
              << "conversion " << conversion << ", time " << *asked.limits.time;
        }
      }
    }
  }
  EXPECT_LE(missed, searches / 2 / 50) << "of searches with a time";
  std::printf("%zu forms measured for a search, of 4096\n", measured / searches);
  EXPECT_LT(measured / searches, 60U); // of 4096
}

TEST(FormSearch, StopsWhenThereIsNoTime) {
  std::mt19937 random(8);
  Net net(random, 12, 0.02);
  size_t measured = 0;
  FormSearch search(
      net.choices(random), {0.01, std::nullopt}, net.costOf(Form(12)).time,
      [&](const Form &form) -> Result<FormCost> {
        ++measured;
        return net.costOf(form);
      },
      [&] { return measured < 4; });
  ASSERT_TRUE(search.run(Form(12, 1)).isOk());
  EXPECT_EQ(measured, 4U);
  EXPECT_TRUE(search.best());
}

TEST(FormSearch, KnownFormsAreNotMeasuredAgain) {
  FormSearch search(
      {{{0, 0}, {-1, 0.1}}}, {1.0, std::nullopt}, 4,
      [](const Form &) -> Result<FormCost> {
        return Status::error(ErrorId::InternalError, "again");
      },
      [] { return true; });
  search.add({0}, {0, 4});
  search.add({1}, {0.1, 3});
  ASSERT_TRUE(search.run({1}).isOk());
  EXPECT_EQ(*search.best(), Form{1});
}

TEST(FormSearch, NoFormKeepsWhatCannotBe) {
  FormSearch search(
      {{{0, 0}, {-1, 0.1}}}, {0.05, 3.5}, 4,
      [](const Form &form) -> Result<FormCost> {
        return form[0] ? FormCost{0.1, 3} : FormCost{0, 4};
      },
      [] { return true; });
  ASSERT_TRUE(search.run({1}).isOk());
  EXPECT_FALSE(search.best());
}

TEST(FormSearch, OfEqualTimesTheSmallestFile) {
  FormSearch search(
      {{{0, 0}, {-0.001, 0.1}}, {{0, 0}, {0.001, 0.1}}}, {1.0, std::nullopt}, 4,
      [](const Form &form) -> Result<FormCost> {
        return FormCost{0.1 * (form[0] + form[1]), 4 + 0.01 * form[1]};
      },
      [] { return true; });
  ASSERT_TRUE(search.run({1, 1}).isOk());
  EXPECT_EQ(*search.best(), (Form{1, 1}));
}

} // namespace
} // namespace tenon::quant
