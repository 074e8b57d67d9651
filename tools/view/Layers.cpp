// Implements the four steps of Sugiyama's method: layers by longest path, dummy items where a line
// passes a layer, barycenter sweeps against crossings, least squares for the coordinates.

#include "tools/view/Layers.h"

#include <algorithm>
#include <cstdint>
#include <limits>

namespace tenon::view {
namespace {

constexpr double kGapX = 24;
constexpr double kGapY = 34;
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
    for (LayerLine &line : lines) {
      cells[line.from].behind.push_back(line.to);
      cells[line.to].before.push_back(line.from);
    }
    for (size_t i = 0; i < items.size(); ++i) {
      cells[i].width = items[i].width;
      for (size_t before : cells[i].before) {
        cells[i].layer = std::max(cells[i].layer, cells[before].layer + 1);
      }
    }
    // What reads nothing stands right before its first reader.
    for (size_t i = items.size(); i-- > 0;) {
      if (cells[i].before.empty() && !cells[i].behind.empty()) {
        size_t first = std::numeric_limits<size_t>::max();
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
    dummies.resize(lines.size());
    for (size_t i = 0; i < lines.size(); ++i) {
      size_t last = lines[i].from;
      for (size_t layer = cells[last].layer + 1; layer < cells[lines[i].to].layer; ++layer) {
        cells.push_back({.width = kDummyWidth, .layer = layer, .before = {}, .behind = {}});
        connect(last, cells.size() - 1);
        last = cells.size() - 1;
        dummies[i].push_back(last);
      }
      connect(last, lines[i].to);
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
      std::stable_sort(keyed.begin(), keyed.end(),
                       [](const auto &a, const auto &b) { return a.first < b.first; });
      for (size_t i = 0; i < layer.size(); ++i) {
        layer[i] = keyed[i].second;
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
    for (double height : heights) {
      tops.push_back(y);
      y += height + kGapY;
    }
    for (size_t i = 0; i < cells.size(); ++i) {
      cells[i].middle -= left;
      right = std::max(right, cells[i].middle + cells[i].width / 2);
      if (i < items.size()) {
        items[i].x = cells[i].middle - items[i].width / 2;
        items[i].y = tops[cells[i].layer] + (heights[cells[i].layer] - items[i].height) / 2;
      }
    }
    for (size_t i = 0; i < lines.size(); ++i) {
      for (size_t dummy : dummies[i]) {
        double top = tops[cells[dummy].layer];
        lines[i].bends.push_back({cells[dummy].middle, top});
        lines[i].bends.push_back({cells[dummy].middle, top + heights[cells[dummy].layer]});
      }
    }
    return {right, std::max(0.0, y - kGapY)};
  }

  std::vector<LayerItem> &items;
  std::vector<LayerLine> &lines;
  std::vector<Cell> cells;                  ///< items first, then dummies
  std::vector<std::vector<size_t>> dummies; ///< by line
  std::vector<std::vector<size_t>> layers;
};

} // namespace

std::pair<double, double> layOutLayers(std::vector<LayerItem> &items, std::vector<LayerLine> &lines) {
  return items.empty() ? std::pair(0.0, 0.0) : Placer(items, lines).run();
}

} // namespace tenon::view
