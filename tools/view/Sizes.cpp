// Implements the formulas by recursive descent. A symbol's name may hold any character, so names
// are tried before operators.

#include "tools/view/Sizes.h"

#include "engine/Expr.h"
#include "tools/view/Escape.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cmath>

namespace tenon::view {
namespace {

using engine::ExprOp;
using Number = std::optional<int64_t>;

class Formula {
public:
  Formula(std::string_view formula, const Sizes &known) : text(formula), sizes(known) {}

  Number value() {
    Number result = sum();
    skipSpaces();
    return text.empty() ? result : std::nullopt;
  }

private:
  static constexpr int kDeepest = 100;

  void skipSpaces() { text.remove_prefix(std::min(text.find_first_not_of(' '), text.size())); }

  bool take(std::string_view token) {
    skipSpaces();
    bool isThere = text.starts_with(token);
    text.remove_prefix(isThere ? token.size() : 0);
    return isThere;
  }

  static Number apply(ExprOp op, Number left, Number right) {
    return left && right ? engine::applyExprOp(op, *left, *right) : std::nullopt;
  }

  Number sum() {
    Number left = product();
    while (left) {
      if (take("+")) {
        left = apply(ExprOp::Add, left, product());
      } else if (take("-")) {
        left = apply(ExprOp::Sub, left, product());
      } else {
        break;
      }
    }
    return left;
  }

  Number product() {
    Number left = atom();
    while (left) {
      if (take("*")) {
        left = apply(ExprOp::Mul, left, atom());
      } else if (take("mod ")) {
        left = apply(ExprOp::Mod, left, atom());
      } else {
        break;
      }
    }
    return left;
  }

  /// Two operands and what ends a call.
  Number call(ExprOp op, std::string_view between) {
    Number left = sum();
    Number right = left && take(between) ? sum() : std::nullopt;
    return take(")") ? apply(op, left, right) : std::nullopt;
  }

  Number atom() {
    if (depth == kDeepest) {
      return std::nullopt;
    }
    ++depth;
    Number value = symbolOrNumber();
    if (!value && take("floor(")) {
      value = call(ExprOp::FloorDiv, "/");
    } else if (!value && take("ceil(")) {
      value = call(ExprOp::CeilDiv, "/");
    } else if (!value && take("min(")) {
      value = call(ExprOp::Min, ",");
    } else if (!value && take("max(")) {
      value = call(ExprOp::Max, ",");
    } else if (!value && take("(")) {
      value = sum();
      value = take(")") ? value : std::nullopt;
    }
    --depth;
    return value;
  }

  Number symbolOrNumber() {
    skipSpaces();
    const Sizes::value_type *longest = nullptr;
    for (const Sizes::value_type &symbol : sizes) {
      const std::string &name = symbol.first;
      bool fits = !name.empty() && text.starts_with(name);
      longest = fits && (!longest || name.size() > longest->first.size()) ? &symbol : longest;
    }
    if (longest) {
      text.remove_prefix(longest->first.size());
      return longest->second;
    }
    int64_t number = 0;
    auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (error != std::errc()) {
      return std::nullopt;
    }
    text.remove_prefix(static_cast<size_t>(end - text.data()));
    return number;
  }

  std::string_view text;
  const Sizes &sizes;
  int depth = 0;
};

/// What a region's instructions do in all.
struct Amounts {
  double bytes = 0, work = 0;
};

/// Of each region at these sizes; none for a region of which it is not known.
std::map<size_t, std::optional<Amounts>> amountsOf(const Json &placement, const Sizes &sizes) {
  std::map<size_t, std::optional<Amounts>> regions;
  for (const Json &row : placement.at("instructions")) {
    if (!row.contains("region")) {
      continue;
    }
    std::optional<Amounts> &sum =
        regions.try_emplace(row.at("region").get<size_t>(), Amounts()).first->second;
    Number bytes = evaluate(row.value("bytes_moved", ""), sizes);
    Number work = evaluate(row.value("flops", "0"), sizes);
    if (!sum || !bytes || !work) {
      sum.reset();
      continue;
    }
    sum->bytes += static_cast<double>(*bytes);
    sum->work += static_cast<double>(*work);
  }
  return regions;
}

double ratio(double to, double from) { return from > 0 ? to / from : 1; }

double rounded(double microseconds) { return std::round(microseconds * 100) / 100; }

} // namespace

std::string sizesText(const Json &sizes) {
  std::vector<std::string> texts;
  for (const Json &size : sizes) {
    texts.push_back(
        fmt::format("{}={}", visible(size.value("name", "")), size.value("size", int64_t(0))));
  }
  return fmt::format("{}", fmt::join(texts, ", "));
}

std::string sizesText(const Graph &graph) {
  Json sizes = Json::array();
  for (const Symbol &symbol : graph.symbols) {
    sizes.push_back({{"name", symbol.name}, {"size", symbol.typical}});
  }
  return sizesText(sizesOfInputs(graph, sizes));
}

bool isOfInput(const Graph &graph, const std::string &symbol) {
  return std::ranges::any_of(graph.inputs, [&](const Port &input) {
    const std::optional<std::vector<std::string>> &shape = graph.values[input.value].shape;
    return shape && std::ranges::any_of(*shape, [&](const std::string &dim) {
             return dim.find(symbol) != std::string::npos;
           });
  });
}

Json sizesOfInputs(const Graph &graph, const Json &sizes) {
  Json kept = Json::array();
  for (const Json &size : sizes) {
    if (isOfInput(graph, size.value("name", ""))) {
      kept.push_back(size);
    }
  }
  return kept;
}

std::optional<int64_t> evaluate(std::string_view formula, const Sizes &sizes) {
  return Formula(formula, sizes).value();
}

Sizes sizesOf(const Graph &graph, const InputDims &dims) {
  Sizes sizes;
  auto learn = [&](const std::string &dim, int64_t size) {
    for (const Symbol &symbol : graph.symbols) {
      if (sizes.contains(symbol.name)) {
        continue;
      }
      // A line in the one symbol that is not known yet; nothing if another is unknown too.
      auto at = [&](int64_t value) {
        Sizes tried = sizes;
        tried[symbol.name] = value;
        return evaluate(dim, tried);
      };
      Number zero = at(0), one = at(1);
      if (zero && one && *one > *zero && (size - *zero) % (*one - *zero) == 0) {
        sizes[symbol.name] = (size - *zero) / (*one - *zero);
      }
    }
  };
  for (const Port &input : graph.inputs) {
    InputDims::const_iterator given = dims.find(input.name);
    const std::optional<std::vector<std::string>> &shape = graph.values[input.value].shape;
    for (size_t i = 0; given != dims.end() && shape && i < shape->size(); ++i) {
      if (i < given->second.size()) {
        learn((*shape)[i], given->second[i]);
      }
    }
  }
  for (const Symbol &symbol : graph.symbols) {
    sizes.try_emplace(symbol.name, symbol.typical);
  }
  return sizes;
}

void setSizes(Graph &graph, const Sizes &sizes) {
  for (Symbol &symbol : graph.symbols) {
    Sizes::const_iterator size = sizes.find(symbol.name);
    symbol.typical = size == sizes.end() ? symbol.typical : size->second;
  }
  auto set = [&](Count &count) {
    if (!count.formula.empty()) {
      count.typical = evaluate(count.formula, sizes);
    }
  };
  for (Node &node : graph.nodes) {
    set(node.flops);
    set(node.bytes);
  }
  for (Value &value : graph.values) {
    set(value.bytes);
  }
}

Sizes sizesOf(const Json &fusion) {
  Sizes sizes;
  for (const Json &size : fusion.value("sizes", Json::array())) {
    sizes[size.at("name").get<std::string>()] = size.at("size").get<int64_t>();
  }
  return sizes;
}

void setLevel(Json &fusion, const std::string &level, const std::string &decidedOn) {
  double launch = fusion.value("launch_us", 0.0);
  std::vector<double> changes;
  bool differs = false;
  for (Json &region : fusion.at("regions")) {
    Json own = region.value("levels", Json::object()).value(level, Json::object());
    region.erase("levels");
    Json &cost = region.at("cost");
    changes.push_back(own.empty() ? 0 : own.at("us").get<double>() - cost.at("us").get<double>());
    for (const char *figure : {"us", "bytes_us", "work_us"}) {
      if (own.contains(figure)) {
        cost[figure] = own[figure];
      }
    }
    for (const char *part : {"other", "candidates"}) {
      if (own.contains(part)) {
        region[part] = own[part];
      }
    }
    differs = differs || !own.empty();
  }
  if (differs) {
    fusion["decided_on"] = decidedOn;
  }
  for (Json &edge : fusion.at("edges")) {
    double change = changes.at(edge.at("producerRegion").get<size_t>()) +
                    changes.at(edge.at("consumerRegion").get<size_t>());
    Json &apart = edge.at("apart").at("us"), &fused = edge.at("fused").at("us");
    apart = rounded(apart.get<double>() + change);
    fused = change == 0 ? fused : Json(rounded(std::max(fused.get<double>() + change, launch)));
  }
}

/// The time of a kernel that was measured at several sizes, at sizes with `change` times the bytes
/// of the first: between two of them on a line, beyond the last by its bytes.
static void setMeasured(Json &region, double change) {
  const Json &times = region.at("measured");
  double bytes = times.at(0).at(0).get<double>() * change;
  size_t next = 0;
  while (next < times.size() && times.at(next).at(0).get<double>() < bytes) {
    ++next;
  }
  auto figure = [&](size_t point, size_t which) { return times.at(point).at(which).get<double>(); };
  double us = figure(next == 0 ? 0 : next - 1, 1);
  if (next == times.size()) {
    us *= bytes / figure(next - 1, 0);
  } else if (next > 0) {
    double part = (bytes - figure(next - 1, 0)) / (figure(next, 0) - figure(next - 1, 0));
    us += part * (figure(next, 1) - us);
  }
  region.at("cost").at("us") = rounded(us);
  for (Json &candidate : region.at("candidates")) {
    if (candidate.at("verdict") == "chosen") {
      candidate.at("us") = rounded(us);
    }
  }
}

void setSizes(Json &fusion, const Json &placement, const Sizes &sizes) {
  Sizes before = sizesOf(fusion);
  bool areAllKnown = std::ranges::all_of(
      before, [&](const Sizes::value_type &symbol) { return sizes.contains(symbol.first); });
  if (before.empty() || before == sizes || !areAllKnown) {
    return;
  }
  std::map<size_t, std::optional<Amounts>> from = amountsOf(placement, before),
                                           to = amountsOf(placement, sizes);
  double launch = fusion.value("launch_us", 0.0);
  Json &regions = fusion.at("regions");
  Json earlier = regions;
  for (size_t i = 0; i < regions.size(); ++i) {
    Json &cost = regions[i].at("cost");
    if (!from[i] || !to[i]) {
      continue;
    }
    double bytes = ratio(to[i]->bytes, from[i]->bytes), work = ratio(to[i]->work, from[i]->work);
    double byBytes = cost.value("bytes_us", 0.0), byWork = cost.value("work_us", 0.0);
    auto changeOf = [&](double ofBytes, double ofWork) {
      return ratio(std::max(ofBytes * bytes, ofWork * work), std::max(ofBytes, ofWork));
    };
    double change = changeOf(byBytes, byWork);
    if (regions[i].contains("measured")) {
      setMeasured(regions[i], bytes);
      change = 1;
    }
    auto scale = [&](Json &json, double by) {
      double us = json.at("us").get<double>();
      json["us"] = rounded(us > launch ? launch + (us - launch) * by : us);
    };
    scale(cost, change);
    cost["bytes"] = std::llround(cost.at("bytes").get<double>() * bytes);
    cost["work"] = std::llround(cost.at("work").get<double>() * work);
    cost["bytes_us"] = byBytes * bytes;
    cost["work_us"] = byWork * work;
    for (Json &candidate : regions[i].at("candidates")) {
      scale(candidate, change);
      candidate.erase("time"); // other sizes have other blocks
    }
    if (regions[i].contains("freely")) {
      scale(regions[i]["freely"], change);
    }
    if (regions[i].contains("other")) {
      Json &other = regions[i]["other"];
      scale(other, changeOf(other.value("bytes_us", 0.0), other.value("work_us", 0.0)));
    }
  }
  for (Json &edge : fusion.at("edges")) {
    constexpr std::string_view times = "us";
    auto both = [&](const Json &list, std::string_view figure) {
      return list.at(edge.at("producerRegion").get<size_t>()).at("cost").at(figure).get<double>() +
             list.at(edge.at("consumerRegion").get<size_t>()).at("cost").at(figure).get<double>();
    };
    for (std::string_view figure : {times, std::string_view("bytes"), std::string_view("work")}) {
      double change = ratio(both(regions, figure), both(earlier, figure));
      for (const char *key : {"apart", "fused"}) {
        Json &value = edge.at(key).at(figure);
        double changed = value.get<double>() * change;
        value = figure == times ? Json(rounded(changed)) : Json(std::llround(changed));
      }
    }
  }
  fusion["decided_at"] = fusion.at("sizes");
  for (Json &size : fusion.at("sizes")) {
    size["size"] = sizes.at(size.at("name").get<std::string>());
  }
}

} // namespace tenon::view
