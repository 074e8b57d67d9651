// One level of a layered drawing: items with sizes, and which of them lie before which. Places each
// in a layer, orders the layers so that few lines cross, and gives coordinates.

#pragma once

#include <cstddef>
#include <utility>
#include <vector>

namespace tenon::view {

struct LayerItem {
  enum class Place { Anywhere, First, Last };
  double width = 0, height = 0;
  Place place = Place::Anywhere; ///< First and Last: where lines enter and leave the whole
  double x = 0, y = 0;           ///< of the upper left corner; the result
};

/// From an item to one behind it. The result bends through a point in each layer between, which
/// lines of one beginning share.
struct LayerLine {
  size_t from = 0, to = 0;
  std::vector<std::pair<double, double>> bends;
};

/// Every line goes from a lower number to a higher one. Returns the size of the whole.
std::pair<double, double> layOutLayers(std::vector<LayerItem> &items,
                                       std::vector<LayerLine> &lines);

} // namespace tenon::view
