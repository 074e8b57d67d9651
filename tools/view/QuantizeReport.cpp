// Puts the page about a quantized model together. Its scripts set names as text, never as markup.

#include "tools/view/Escape.h"
#include "tools/view/Page.h"

namespace tenon::view {
namespace {

constexpr std::string_view kPage =
#include "tools/view/report.html.inc"
    ;
constexpr std::string_view kReportStyle =
#include "tools/view/report.css.inc"
    ;
constexpr std::string_view kScript =
#include "tools/view/report.js.inc"
    ;

} // namespace

std::string renderQuantizeReport(Json info) {
  makeVisible(info);
  std::string title = info.value("output", info.value("model", std::string()));
  return fillPage(kPage, {{"{{title}}", xml(title)},
                          {"{{style}}", std::string(kReportStyle)},
                          {"{{facts}}", scriptJson(info)},
                          {"{{script}}", std::string(kScript)}});
}

} // namespace tenon::view
