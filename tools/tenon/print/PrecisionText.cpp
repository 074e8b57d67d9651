// The text of `tenon explain precision`: sums first, then what computes in floats beside integers,
// what `--precision` did, and each region.

#include "tools/tenon/print/ExplainParts.h"
#include "tools/tenon/print/JsonFields.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>

namespace tenon::tool {
namespace {

/// How many regions compute in which numbers, and what they are predicted to take.
std::string numbersText(const Json &products, const Json &conversions, double converting) {
  std::map<std::string, std::pair<size_t, double>> sums;
  for (const Json &row : products) {
    auto &[count, microseconds] = sums[textAt(row, "computes")];
    ++count;
    microseconds += row.value("us", 0.0);
  }
  std::string text = fmt::format("{:>7}  {:>10}  {}\n", "regions", "time", "computed in");
  for (const auto &[name, sum] : sums) {
    text += fmt::format("{:>7}  {:>10}  {}\n", sum.first, timeText(sum.second), name);
  }
  return text + fmt::format("{:>7}  {:>10}  quantization and casts between them\n",
                            conversions.size(), timeText(converting));
}

/// What --allow int8-activations changes in the logits of a language model.
std::string activationsText(const Json &record) {
  Json cost = fieldAt(record, "int8_activations");
  if (!cost.is_object()) {
    return "";
  }
  if (!cost.contains("beside")) {
    return "\nint8-activations: what it costs in logits is not known, since this engine has no "
           "variant without it for this machine; --target cpu compiles one\n";
  }
  auto shown = [&](const char *key) {
    Json mean = fieldAt(cost, key);
    return fmt::format("{:.4g} ({:.4g} .. {:.4g})", mean.value("mean", 0.0), mean.value("low", 0.0),
                       mean.value("high", 0.0));
  };
  return fmt::format("\nint8-activations costs, on {} tokens that the model carries, {} beside {}\n"
                     "largest difference of a logit  {:.2g} % of the largest\n"
                     "KL divergence                  {}  nats a token, 95 % interval\n"
                     "same top token                 {}\n",
                     numberAt(cost, "tokens"), textAt(cost, "variant"), textAt(cost, "beside"),
                     100 * cost.value("largest_difference", 0.0), shown("kl_divergence"),
                     shown("same_top_token"));
}

/// What --precision did, and what is approximated.
std::string changesText(const Json &record) {
  std::string text;
  if (textAt(record, "precision") != "keep") {
    text += fmt::format("\n{}: {} operations are narrow, {} weights take {}\n",
                        textAt(record, "precision"), numberAt(record, "narrow_operations"),
                        numberAt(record, "narrow_weights"),
                        formatBytes(static_cast<uint64_t>(
                            std::max<int64_t>(numberAt(record, "narrow_weights_bytes"), 0))));
  }
  if (record.contains("float8_products")) {
    text += fmt::format("{} products multiply 8-bit floats\n", numberAt(record, "float8_products"));
  }
  constexpr std::array<std::pair<const char *, std::string_view>, 4> lists = {{
      {"wider", "operations stay in fp32"},
      {"clamped", "values are clamped"},
      {"approximated", "operations are approximated"},
      {"not_float8", "products are not of 8-bit floats"},
  }};
  for (const auto &[list, what] : lists) {
    Json rows = listAt(record, list);
    bool isSaid = record.contains(list) && (!rows.empty() || textAt(record, "precision") != "keep");
    text += isSaid ? fmt::format("\n{} {}\n", rows.size(), what) : "";
    for (const Json &row : rows) {
      Json nodes = listAt(row, "nodes");
      text +=
          fmt::format("{}\n  {}: {}\n", nodes.empty() ? textAt(row, "operation") : joinTexts(nodes),
                      textAt(row, "rule"), textAt(row, "why"));
    }
  }
  return text;
}

/// What a search of `tenon quantize` measured of each layer and decided.
std::string searchedText(const Json &record) {
  Json layers = listAt(record, "layers");
  if (layers.empty()) {
    return "";
  }
  Json search = fieldAt(record, "search");
  std::string text =
      fmt::format("\nsearched by tenon quantize; times are measured with one sample and {} threads "
                  "of {}, errors "
                  "are those at the outputs "
                  "with the layer alone in this form\n{:>13} {:>9} {:>11}\n",
                  numberAt(search, "threads"), textAt(search, "level"), "form", "error", "time");
  for (const Json &row : layers) {
    text += fmt::format("{:>13} {:>7.2g} % {:>11}  {}\n{:>39}{}\n", textAt(row, "dtype"),
                        row.value("error", 0.0) * 100, timeText(row.value("us", 0.0)),
                        textAt(row, "name"), "", textAt(row, "rule"));
  }
  return text;
}

} // namespace

std::string precisionText(const Explained &what) {
  const Json &record = what.record;
  Json products = listAt(record, "products"), conversions = listAt(record, "conversions");
  std::string text;
  if (what.extent != Extent::Chosen) {
    text = basisText(record) + "\n" +
           numbersText(products, conversions, record.value("conversions_us", 0.0)) +
           activationsText(record);
  }
  size_t wide =
      static_cast<size_t>(std::count_if(products.begin(), products.end(), [](const Json &row) {
        return !textAt(row, "why_wide").empty();
      }));
  if (wide > 0) {
    text += fmt::format("\n{} wider than an operand could be\n", wide);
    for (const Json &row : products) {
      text += textAt(row, "why_wide").empty()
                  ? ""
                  : fmt::format("{}\n  {}, {}: {}\n", textAt(row, "label"), textAt(row, "computes"),
                                timeText(row.value("us", 0.0)), textAt(row, "why_wide"));
    }
  }
  text += searchedText(record);
  text += changesText(record);
  std::string rows;
  for (const Json &row : products) {
    double other = row.value("wide_us", 0.0);
    rows += textAt(row, "why_wide").empty()
                ? fmt::format("{}\n  {}, {}{}\n", textAt(row, "label"), textAt(row, "computes"),
                              timeText(row.value("us", 0.0)),
                              other > 0 ? fmt::format("; in fp32 {}", timeText(other)) : "")
                : "";
  }
  for (const Json &row : conversions) {
    rows +=
        fmt::format("{}\n  conversion, {}\n", textAt(row, "label"), timeText(row.value("us", 0.0)));
  }
  return rows.empty() ? text : text + "\n" + rows;
}

} // namespace tenon::tool
