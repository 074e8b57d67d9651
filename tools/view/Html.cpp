// Puts the page together: template, style and scripts are files of tools/view/page that the build
// embeds; the graph is JSON in a script element, which browsers do not run.

#include "tools/view/Escape.h"
#include "tools/view/Render.h"

namespace tenon::view {
namespace {

constexpr std::string_view kPage =
#include "tools/view/page.html.inc"
    ;
constexpr std::string_view kStyle =
#include "tools/view/page.css.inc"
    ;
constexpr std::string_view kScripts[] = {
#include "tools/view/layout.js.inc"
    ,
#include "tools/view/facts.js.inc"
    ,
#include "tools/view/panel.js.inc"
    ,
#include "tools/view/page.js.inc"
};

/// The template has each mark once; what is put in is not searched for marks.
class Template {
public:
  explicit Template(std::string_view source) : rest(source) {}

  void put(std::string_view mark, std::string_view text) {
    size_t at = rest.find(mark);
    page += rest.substr(0, at);
    page += text;
    rest.remove_prefix(at + mark.size());
  }
  std::string finish() { return page + std::string(rest); }

private:
  std::string page;
  std::string_view rest;
};

} // namespace

std::string renderHtml(const Graph &graph) {
  Template page(kPage);
  page.put("{{title}}", xml(graph.title));
  page.put("{{style}}", kStyle);
  page.put("{{graph}}", scriptJson(toJson(graph)));
  std::string scripts;
  for (std::string_view script : kScripts) {
    scripts += script;
  }
  page.put("{{scripts}}", scripts);
  return page.finish();
}

} // namespace tenon::view
