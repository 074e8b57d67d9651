// A plug-in whose pass asks for an operation that there is not.

#include <tenon/graph.hpp>

static void misspells(tenon::Graph &graph) {
  for (const tenon::Match &match : graph.match("relu(x)")) {
    graph.replace(match.result(), graph.create("gelo", {match["x"]}));
  }
}

TENON_PLUGIN("misspells", tenon::pass<misspells>("relu-to-gelo", "normalize"))
