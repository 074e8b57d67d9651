// The module is written in several files, which follow one another.

#include "server/page/Page.h"

#include <algorithm>
#include <iterator>

namespace tenon::server {
namespace {

constexpr PageFile kFiles[] = {
    {
        "",
        "text/html; charset=utf-8",
#include "server/page/page.html.inc"
    },
    {
        "page.css",
        "text/css; charset=utf-8",
#include "server/page/page.css.inc"
    },
    {
        "page.js",
        "text/javascript; charset=utf-8",
// One script: each file reads what those before it define.
// clang-format off
#include "server/page/elements.js.inc"
#include "server/page/samples.js.inc"
#include "server/page/charts.js.inc"
#include "server/page/registry.js.inc"
#include "server/page/lineage.js.inc"
#include "server/page/chat.js.inc"
#include "server/page/page.js.inc"
        // clang-format on
    },
    {
        "icon.svg",
        "image/svg+xml",
#include "server/page/icon.svg.inc"
    },
};

} // namespace

const PageFile &pageFile(std::string_view path) {
  return *std::find_if(std::begin(kFiles), std::prev(std::end(kFiles)),
                       [&](const PageFile &file) { return file.path == path; });
}

} // namespace tenon::server
