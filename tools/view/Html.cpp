// Puts the page together: template, style and scripts are files of tools/view/page that the build
// embeds; the graph is JSON in a script element, which browsers do not run.

#include "tools/view/Escape.h"
#include "tools/view/Page.h"
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

} // namespace

std::string renderHtml(const Graph &graph) {
  std::string scripts;
  for (std::string_view script : kScripts) {
    scripts += script;
  }
  return fillPage(kPage, {{"{{title}}", xml(graph.title)},
                          {"{{style}}", std::string(kStyle)},
                          {"{{graph}}", scriptJson(toJson(graph))},
                          {"{{scripts}}", std::move(scripts)}});
}

} // namespace tenon::view
