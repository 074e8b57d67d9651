// Implements the four steps of Sugiyama's method: layers by longest path, dummy items where a line
// passes a layer, barycenter sweeps against crossings, least squares for the coordinates.

#include "tools/view/Layers.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <numeric>

namespace tenon::view {
namespace {

constexpr double kGapX = 24;
constexpr double kGapY = 34;
constexpr double kGapGate = 18; ///< beside a row of gates, which have no height
constexpr double kDummyWidth = 6;
constexpr int kSweeps = 6;
/// Beyond this many items the sweeps are fewer: drawing stays linear in what is drawn.
constexpr size_t kManyItems = 20000;

/// An item or a dummy.
struct Cell {
  double width = 0;
  double middle = 0; ///< of x
  size_t layer = 0;
  std::vector<size_t> before, behind;
};

class Placer {
public:
  Placer(std::vector<LayerItem> &placed, std::vector<LayerLine> &drawn)
      : items(placed), lines(drawn), cells(placed.size()) {}

  std::pair<double, double> run() {
    chooseLayers();
    insertDummies();
    order();
    placeMiddles();
    return finish();
  }

private:
  void chooseLayers() {
    using Place = LayerItem::Place;
    for (LayerLine &line : lines) {
      cells[line.from].behind.push_back(line.to);
      cells[line.to].before.push_back(line.from);
    }
    bool hasFirst = std::any_of(items.begin(), items.end(),
                                [](const LayerItem &item) { return item.place == Place::First; });
    size_t last = 0;
    for (size_t i = 0; i < items.size(); ++i) {
      cells[i].width = items[i].width;
      cells[i].layer = hasFirst && items[i].place != Place::First ? 1 : 0;
      for (size_t before : cells[i].before) {
        cells[i].layer = std::max(cells[i].layer, cells[before].layer + 1);
      }
      last = std::max(last, cells[i].layer + (items[i].place != Place::Last));
    }
    for (size_t i = items.size(); i-- > 0;) {
      if (items[i].place == Place::Last) {
        cells[i].layer = last;
      } else if (items[i].place == Place::Anywhere && cells[i].before.empty() &&
                 !cells[i].behind.empty()) {
        // What reads nothing stands right before its first reader.
        size_t first = last;
        for (size_t behind : cells[i].behind) {
          first = std::min(first, cells[behind].layer);
        }
        cells[i].layer = first - 1;
      }
    }
  }

  void insertDummies() {
    for (Cell &cell : cells) {
      cell.before.clear();
      cell.behind.clear();
    }
    dummies.resize(items.size());
    for (const LayerLine &line : lines) {
      size_t first = cells[line.from].layer + 1, end = cells[line.to].layer;
      std::vector<size_t> &chain = dummies[line.from];
      while (first + chain.size() < end) {
        cells.push_back(
            {.width = kDummyWidth, .layer = first + chain.size(), .before = {}, .behind = {}});
        connect(chain.empty() ? line.from : chain.back(), cells.size() - 1);
        chain.push_back(cells.size() - 1);
      }
      connect(end > first ? chain[end - first - 1] : line.from, line.to);
    }
    for (size_t i = 0; i < cells.size(); ++i) {
      layers.resize(std::max(layers.size(), cells[i].layer + 1));
      layers[cells[i].layer].push_back(i);
    }
  }

  void connect(size_t from, size_t to) {
    cells[from].behind.push_back(to);
    cells[to].before.push_back(from);
  }

  int sweeps() const { return cells.size() > kManyItems ? 1 : kSweeps; }

  void order() {
    std::vector<double> rank(cells.size());
    auto number = [&](const std::vector<size_t> &layer) {
      for (size_t i = 0; i < layer.size(); ++i) {
        rank[layer[i]] = static_cast<double>(i) - static_cast<double>(layer.size()) / 2;
      }
    };
    auto sortBy = [&](std::vector<size_t> &layer, std::vector<size_t> Cell::*side) {
      std::vector<std::pair<double, size_t>> keyed;
      for (size_t cell : layer) {
        double sum = 0;
        for (size_t other : cells[cell].*side) {
          sum += rank[other];
        }
        size_t count = (cells[cell].*side).size();
        keyed.push_back({count ? sum / static_cast<double>(count) : rank[cell], cell});
      }
      // Equal ones keep their order.
      std::vector<size_t> places(layer.size());
      std::iota(places.begin(), places.end(), 0);
      std::sort(places.begin(), places.end(), [&](size_t a, size_t b) {
        return std::pair(keyed[a].first, a) < std::pair(keyed[b].first, b);
      });
      for (size_t i = 0; i < layer.size(); ++i) {
        layer[i] = keyed[places[i]].second;
      }
      number(layer);
    };
    std::for_each(layers.begin(), layers.end(), number);
    for (int sweep = 0; sweep < sweeps(); ++sweep) {
      for (size_t i = 1; i < layers.size(); ++i) {
        sortBy(layers[i], &Cell::before);
      }
      for (size_t i = layers.size() - 1; i-- > 0;) {
        sortBy(layers[i], &Cell::behind);
      }
    }
  }

  /// Puts a layer's items as near as can be to where they want to be, in their order and without
  /// overlap: items that would overlap form a block, which stands at the mean of its wishes.
  void settle(const std::vector<size_t> &layer, const std::vector<double> &wishes) {
    struct Block {
      double sum = 0;
      size_t count = 0;
      double mean() const { return sum / static_cast<double>(count); }
    };
    std::vector<double> offsets;
    std::vector<Block> blocks;
    double offset = 0;
    for (size_t i = 0; i < layer.size(); ++i) {
      double half = cells[layer[i]].width / 2;
      offset += i == 0 ? 0 : half + kGapX;
      offsets.push_back(offset);
      offset += half;
      blocks.push_back({wishes[i] - offsets[i], 1});
      while (blocks.size() > 1 && blocks[blocks.size() - 2].mean() > blocks.back().mean()) {
        Block last = blocks.back();
        blocks.pop_back();
        blocks.back().sum += last.sum;
        blocks.back().count += last.count;
      }
    }
    size_t next = 0;
    for (const Block &block : blocks) {
      for (size_t i = 0; i < block.count; ++i, ++next) {
        cells[layer[next]].middle = block.mean() + offsets[next];
      }
    }
  }

  void placeMiddles() {
    auto pull = [&](const std::vector<size_t> &layer, std::vector<size_t> Cell::*side) {
      std::vector<double> wishes;
      for (size_t cell : layer) {
        double sum = 0;
        for (size_t other : cells[cell].*side) {
          sum += cells[other].middle;
        }
        size_t count = (cells[cell].*side).size();
        wishes.push_back(count ? sum / static_cast<double>(count) : cells[cell].middle);
      }
      settle(layer, wishes);
    };
    for (const std::vector<size_t> &layer : layers) {
      pull(layer, &Cell::before);
    }
    for (int sweep = 0; sweep < sweeps(); ++sweep) {
      for (size_t i = layers.size() - 1; i-- > 0;) {
        pull(layers[i], &Cell::behind);
      }
      for (size_t i = 1; i < layers.size(); ++i) {
        pull(layers[i], &Cell::before);
      }
    }
  }

  std::pair<double, double> finish() {
    double left = std::numeric_limits<double>::max(), right = 0;
    for (const Cell &cell : cells) {
      left = std::min(left, cell.middle - cell.width / 2);
    }
    std::vector<double> tops, heights(layers.size());
    for (size_t i = 0; i < items.size(); ++i) {
      heights[cells[i].layer] = std::max(heights[cells[i].layer], items[i].height);
    }
    double y = 0;
    for (size_t i = 0; i < heights.size(); ++i) {
      tops.push_back(y);
      bool isLast = i + 1 == heights.size();
      y += heights[i] + (isLast ? 0 : heights[i] > 0 && heights[i + 1] > 0 ? kGapY : kGapGate);
    }
    for (size_t i = 0; i < cells.size(); ++i) {
      cells[i].middle -= left;
      right = std::max(right, cells[i].middle + cells[i].width / 2);
      if (i < items.size()) {
        items[i].x = cells[i].middle - items[i].width / 2;
        items[i].y = tops[cells[i].layer] + (heights[cells[i].layer] - items[i].height) / 2;
      }
    }
    for (LayerLine &line : lines) {
      for (size_t layer = cells[line.from].layer + 1; layer < cells[line.to].layer; ++layer) {
        size_t dummy = dummies[line.from][layer - cells[line.from].layer - 1];
        line.bends.push_back({cells[dummy].middle, tops[layer]});
        line.bends.push_back({cells[dummy].middle, tops[layer] + heights[layer]});
      }
    }
    return {right, y};
  }

  std::vector<LayerItem> &items;
  std::vector<LayerLine> &lines;
  std::vector<Cell> cells;                  ///< items first, then dummies
  std::vector<std::vector<size_t>> dummies; ///< by item: the stem of its lines, a layer each
  std::vector<std::vector<size_t>> layers;
};

} // namespace

std::pair<double, double> layOutLayers(std::vector<LayerItem> &items,
                                       std::vector<LayerLine> &lines) {
  return items.empty() ? std::pair(0.0, 0.0) : Placer(items, lines).run();
}

} // namespace tenon::view
