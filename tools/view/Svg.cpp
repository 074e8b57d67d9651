// Implements the drawing as SVG: boxes and lines of a layout, in colors for light and for dark.

#include "tools/view/Escape.h"
#include "tools/view/Labels.h"
#include "tools/view/Layout.h"
#include "tools/view/Render.h"

#include <fmt/format.h>

#include <algorithm>

namespace tenon::view {
namespace {

/// Beyond this many boxes modules are folded.
constexpr size_t kMaxBoxes = 220;
constexpr double kMargin = 16;
/// Characters that fit into a box of a node.
constexpr size_t kTitleLength = 27, kTypeLength = 31;

constexpr const char *kSvgStyle =
    "svg{background:#fff;color:#1d2330;font:12px system-ui,sans-serif}"
    "rect{fill:#fff;stroke:#8a93a5;rx:5}.product{fill:#dfeaff;stroke:#4a76c9}.row{fill:#fdeedd;"
    "stroke:#c9843a}.point{fill:#e3f4e8;stroke:#3f8a5b}.move{fill:#eceef2;stroke:#8a93a5}"
    ".group{fill:#f4f1e8;stroke:#a8935a}"
    ".open{fill:#7f7f7f;fill-opacity:.05;stroke:#8a93a5;stroke-dasharray:4 "
    "3}.port{fill:#fff;stroke:#98a1b3;rx:14}"
    "text{fill:#1d2330}.what{font-weight:600}.small{font-size:10px;fill:#566074}path{fill:none;"
    "stroke:#8a93a5}"
    "@media(prefers-color-scheme:dark){svg{background:#14171d}rect{fill:#14171d}"
    ".product{fill:#1c2a45;stroke:#6f9be8}.row{fill:#3a2918;stroke:#dc9c57}"
    ".point{fill:#193124;stroke:#63b985}.move{fill:#262b35;stroke:#828ca0}"
    ".group{fill:#2d2a1f;stroke:#c3ab6a}.open{fill:#bbb;fill-opacity:.07}.port{fill:#14171d;"
    "stroke:#667086}"
    "text{fill:#e7eaf0}.small{fill:#a3adbf}path{stroke:#707a8d}}";

struct Words {
  const char *style;
  std::string where; ///< before the title
  std::string title;
  std::string detail;
  std::string hover;
};

Words wordsOf(const Graph &graph, const Box &box) {
  auto typeOf = [&](int64_t value) {
    return value < 0 ? std::string() : visible(typeText(graph.values[value]));
  };
  if (box.kind == Box::Kind::Node) {
    const Node &node = graph.nodes[box.index];
    std::string name = visible(node.name);
    std::string what = shortened(visible(whatOf(graph, node)), kTitleLength);
    size_t room = kTitleLength > what.size() + 5 ? kTitleLength - what.size() - 1 : 0;
    std::string where = visible(whereOf(node));
    return {familyOf(node), room > 0 && !where.empty() ? shortened(where, room) : "", what,
            node.outputs.empty() ? "" : typeOf(node.outputs[0]),
            fmt::format("{} {}\n{}\nFLOPs {}, bytes {}", visible(node.op), name,
                        node.outputs.empty() ? "" : typeOf(node.outputs[0]), countText(node.flops),
                        countText(node.bytes))};
  }
  if (box.kind == Box::Kind::Group) {
    const Group &group = graph.groups[box.index];
    return {box.isOpen ? "open" : "group", "", visible(group.title), group.kind,
            fmt::format("{} {}", group.kind, visible(group.title))};
  }
  const Port &port = (box.kind == Box::Kind::Input ? graph.inputs : graph.outputs)[box.index];
  std::string name = visible(port.name);
  return {"port", "", name, typeOf(port.value), name + "\n" + typeOf(port.value)};
}

std::string boxText(const Graph &graph, const Box &box) {
  Words words = wordsOf(graph, box);
  std::string text =
      fmt::format("<g><title>{}</title><rect class=\"{}\" x=\"{:.0f}\" y=\"{:.0f}\" "
                  "width=\"{:.0f}\" height=\"{:.0f}\"/>",
                  xml(words.hover), words.style, box.x, box.y, box.width, box.height);
  bool isPort = box.kind == Box::Kind::Input || box.kind == Box::Kind::Output;
  text += fmt::format("<text x=\"{:.0f}\" y=\"{:.0f}\">{}{}<tspan class=\"what\">{}</tspan></text>",
                      box.x + 8, box.y + 16, xml(words.where), words.where.empty() ? "" : " ",
                      xml(shortened(words.title, kTitleLength)));
  if (!box.isOpen && !isPort && !words.detail.empty()) {
    text += fmt::format("<text class=\"small\" x=\"{:.0f}\" y=\"{:.0f}\">{}</text>", box.x + 8,
                        box.y + 31, xml(shortened(words.detail, kTypeLength)));
  }
  return text + "</g>\n";
}

/// Vertical at each point, so that lines leave and meet boxes upright.
std::string lineText(const std::vector<Point> &points) {
  std::string text = fmt::format("M{:.0f} {:.0f}", points[0].x, points[0].y);
  for (size_t i = 1; i < points.size(); ++i) {
    double middle = (points[i - 1].y + points[i].y) / 2;
    text += fmt::format("C{:.0f} {:.0f} {:.0f} {:.0f} {:.0f} {:.0f}", points[i - 1].x, middle,
                        points[i].x, middle, points[i].x, points[i].y);
  }
  return fmt::format("<path d=\"{}\" marker-end=\"url(#end)\"/>\n", text);
}

} // namespace

std::string renderSvg(const Graph &graph) {
  Layout layout = layOut(graph, chooseOpen(graph, kMaxBoxes));
  double width = layout.width + 2 * kMargin, height = layout.height + 2 * kMargin;
  std::string text =
      fmt::format("<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"{:.0f} {:.0f} {:.0f} "
                  "{:.0f}\" width=\"{:.0f}\" "
                  "height=\"{:.0f}\" role=\"img\"><title>{}</title><style>{}</style>"
                  "<defs><marker id=\"end\" viewBox=\"0 0 8 8\" refX=\"8\" refY=\"4\" "
                  "markerWidth=\"7\" markerHeight=\"7\" "
                  "orient=\"auto\"><path d=\"M0 0L8 4L0 8z\" "
                  "style=\"fill:#8a93a5;stroke:none\"/></marker></defs>\n",
                  -kMargin, -kMargin, width, height, width, height, xml(graph.title), kSvgStyle);
  // Lines lie above the backgrounds of open groups and below all other boxes.
  for (const Box &box : layout.boxes) {
    text += box.isOpen ? boxText(graph, box) : "";
  }
  for (const std::vector<Point> &line : layout.lines) {
    text += lineText(line);
  }
  for (const Box &box : layout.boxes) {
    text += box.isOpen ? "" : boxText(graph, box);
  }
  return text + "</svg>\n";
}

} // namespace tenon::view
