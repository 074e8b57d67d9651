// A node is a set of unplaced buffers with a lower bound on each one's offset. Propagation raises
// the bounds; branching takes a buffer with the least bound and either places it there or raises
// its bound to the top of something that could lie under it, as some buffer must.
//
// Nothing lies below the least bound, so a layout is built upwards without holes that could still
// be filled (canonical layouts); sections are the moments at which most is live.

#include "support/memory/OffsetSearch.h"

#include <algorithm>
#include <vector>

namespace tenon {
namespace {

/// Every node of a try may be one level of recursion, so tries and with them problems are bounded.
constexpr size_t kMaxBuffers = 2000;
constexpr uint64_t kNodesPerTry = 3; ///< times the number of buffers
constexpr int kRounds = 8;           ///< of propagation at one node
constexpr size_t kFailedSlots = size_t(1) << 14;

struct Item {
  uint32_t begin = 0; ///< first section
  uint32_t end = 0;   ///< past the last section
  int32_t size = 0;   ///< in units, as all that follows
  int32_t least = 0;  ///< lower bound of the offset
  int32_t offset = 0;
  uint32_t blame = 0; ///< how often it could not be placed, older tries counting less
  int64_t life = 0;
  int64_t rank = 0; ///< among equal bounds the highest is tried first
};

/// What a try prefers to place first.
enum class Preference { Sections, Size, LifeArea, SectionArea, Load, Life };
constexpr int kPreferences = 6;

uint64_t mix(uint64_t value) {
  value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9ull;
  value = (value ^ (value >> 27)) * 0x94d049bb133111ebull;
  return value ^ (value >> 31);
}

bool meet(const Item &a, const Item &b) { return a.begin < b.end && b.begin < a.end; }

} // namespace

struct OffsetSearch::Impl {
  /// A list of items in `lists`, ordered by their first section.
  struct Range {
    size_t begin;
    size_t end;
    size_t size() const { return end - begin; }
  };
  struct Change {
    uint32_t item;
    int32_t least;
  };
  struct Event {
    int64_t time;
    bool isStart;
    uint32_t item;
  };

  std::vector<Item> items;
  std::vector<int32_t> unplaced; ///< by section: sizes not placed yet
  std::vector<int32_t> floors;   ///< by section, of one node: least bound of what is unplaced there
  std::vector<uint32_t> lists;   ///< a stack of item lists
  std::vector<Range> groups;     ///< a stack of lists that do not touch each other
  std::vector<Change> trail;     ///< old bounds, to undo
  std::vector<uint64_t> failed;  ///< nodes known to have no layout, by hash; newer replace older
  std::vector<Event> events;
  int32_t capacity = 0;
  uint64_t nodes = 0;

  /// One section for each moment at which the set of live buffers is not part of a neighbour's.
  void makeSections(std::span<const PlannedBuffer> buffers, int64_t unit) {
    items.assign(buffers.size(), {});
    events.clear();
    for (uint32_t i = 0; i < buffers.size(); ++i) {
      items[i].size = static_cast<int32_t>(buffers[i].size / unit);
      items[i].life = buffers[i].upper - buffers[i].lower;
      events.push_back({buffers[i].lower, true, i});
      events.push_back({buffers[i].upper, false, i});
    }
    std::sort(events.begin(), events.end(), [](const Event &a, const Event &b) {
      if (a.time != b.time) {
        return a.time < b.time;
      }
      return a.isStart != b.isStart ? !a.isStart : a.item < b.item;
    });
    uint32_t sections = 0;
    bool grown = false;
    for (const Event &event : events) {
      if (event.isStart) {
        items[event.item].begin = sections;
      } else {
        sections += grown ? 1 : 0;
        items[event.item].end = sections;
      }
      grown = event.isStart;
    }
    floors.assign(sections, 0);
    unplaced.assign(sections, 0);
    for (const Item &item : items) {
      for (uint32_t s = item.begin; s < item.end; ++s) {
        unplaced[s] += item.size;
      }
    }
  }

  int64_t preferenceOf(Preference preference, const Item &item) const {
    int64_t sections = item.end - item.begin;
    switch (preference) {
    case Preference::Sections:
      return (sections << 31) + item.size;
    case Preference::Size:
      return item.size;
    case Preference::LifeArea:
      return std::min(item.life, INT64_MAX >> 31) * item.size;
    case Preference::SectionArea:
      return sections * item.size;
    case Preference::Load:
      return (int64_t(*std::max_element(unplaced.begin() + item.begin, unplaced.begin() + item.end))
              << 16) +
             sections;
    case Preference::Life:
      return item.life;
    }
    return 0;
  }

  /// The first try of each preference is plain; later ones are shaken a little, and what could not
  /// be placed before weighs up to 101 times as much.
  void rankItems(uint64_t attempt) {
    constexpr int64_t blameWeight = 100;
    Preference preference = static_cast<Preference>(attempt % kPreferences);
    int64_t most = 1;
    int64_t mostBlame = 1;
    for (Item &item : items) {
      item.rank = preferenceOf(preference, item);
      most = std::max(most, item.rank);
      item.blame = item.blame * 7 / 10;
      mostBlame = std::max<int64_t>(mostBlame, item.blame);
    }
    for (size_t i = 0; attempt >= kPreferences && i < items.size(); ++i) {
      Item &item = items[i];
      int64_t scaled = static_cast<int64_t>((static_cast<__int128>(item.rank) << 30) / most) + 1;
      int64_t shaken = 1024 + static_cast<int64_t>(mix(attempt * items.size() + i) % 100);
      int64_t blamed = 1024 + 1024 * blameWeight * item.blame / mostBlame;
      item.rank = scaled * shaken / 1024 * blamed;
    }
  }

  void raise(uint32_t index, int32_t least) {
    if (least > items[index].least) {
      trail.push_back({index, items[index].least});
      items[index].least = least;
    }
  }

  void undo(size_t mark) {
    while (trail.size() > mark) {
      items[trail.back().item].least = trail.back().least;
      trail.pop_back();
    }
  }

  void setFloors(Range rest) {
    for (size_t at = rest.begin; at < rest.end; ++at) {
      const Item &item = items[lists[at]];
      std::fill(floors.begin() + item.begin, floors.begin() + item.end, INT32_MAX);
    }
    for (size_t at = rest.begin; at < rest.end; ++at) {
      const Item &item = items[lists[at]];
      int32_t least = item.least;
      for (uint32_t s = item.begin; s < item.end; ++s) {
        floors[s] = std::min(floors[s], least);
      }
    }
  }

  /// Whether every section still holds what is unplaced there; else what is there takes the blame.
  bool sectionsHold(Range rest) {
    for (size_t at = rest.begin; at < rest.end; ++at) {
      const Item &item = items[lists[at]];
      for (uint32_t s = item.begin; s < item.end; ++s) {
        if (floors[s] > capacity - unplaced[s]) {
          blameSection(rest, s);
          return false;
        }
      }
    }
    return true;
  }

  void blameSection(Range rest, uint32_t section) {
    for (size_t at = rest.begin; at < rest.end; ++at) {
      Item &item = items[lists[at]];
      item.blame += item.begin <= section && section < item.end ? 1 : 0;
    }
  }

  /// Raises bounds until nothing changes: a buffer lies above the floor of each of its sections,
  /// and a section's floor is the least bound there. False when something cannot fit.
  bool propagate(Range rest) {
    for (int round = 0; round < kRounds; ++round) {
      setFloors(rest);
      size_t mark = trail.size();
      for (size_t at = rest.begin; at < rest.end; ++at) {
        Item &item = items[lists[at]];
        int32_t least = item.least;
        for (uint32_t s = item.begin; s < item.end; ++s) {
          least = std::max(least, floors[s]);
        }
        raise(lists[at], least);
        if (least > capacity - item.size) {
          ++item.blame;
          return false;
        }
      }
      if (!sectionsHold(rest)) {
        return false;
      }
      if (trail.size() == mark) {
        break;
      }
    }
    return true;
  }

  /// Splits a list where no buffer crosses; the parts have nothing to do with each other.
  void split(Range rest) {
    size_t begin = rest.begin;
    uint32_t end = items[lists[begin]].end;
    for (size_t at = rest.begin + 1; at < rest.end; ++at) {
      const Item &item = items[lists[at]];
      if (item.begin >= end) {
        groups.push_back({begin, at});
        begin = at;
      }
      end = std::max(end, item.end);
    }
    groups.push_back({begin, rest.end});
  }

  /// Finds offsets for a list, or fails with all bounds as raised here (the caller undoes).
  bool solve(Range rest) {
    if (rest.size() == 0) {
      return true;
    }
    if (nodes == 0) {
      return false;
    }
    --nodes;
    if (!propagate(rest)) {
      return false;
    }
    size_t firstGroup = groups.size();
    split(rest);
    // Small parts first: they fail sooner.
    std::sort(groups.begin() + static_cast<ptrdiff_t>(firstGroup), groups.end(),
              [](Range a, Range b) {
                return a.size() != b.size() ? a.size() < b.size() : a.begin < b.begin;
              });
    size_t count = groups.size();
    bool found = true;
    for (size_t group = firstGroup; found && group < count; ++group) {
      found = branch(groups[group]);
    }
    groups.resize(firstGroup);
    return found;
  }

  uint64_t hashOf(Range group) const {
    uint64_t hash = 0;
    for (size_t at = group.begin; at < group.end; ++at) {
      hash += mix((uint64_t(lists[at]) << 32) + static_cast<uint32_t>(items[lists[at]].least) + 1);
    }
    return hash | 1;
  }

  uint32_t choose(Range group) const {
    uint32_t chosen = lists[group.begin];
    for (size_t at = group.begin; at < group.end; ++at) {
      const Item &item = items[lists[at]];
      const Item &best = items[chosen];
      bool isBetter = item.least != best.least ? item.least < best.least : item.rank > best.rank;
      chosen = isBetter ? lists[at] : chosen;
    }
    return chosen;
  }

  bool branch(Range group) {
    uint64_t hash = hashOf(group);
    if (failed[hash % kFailedSlots] == hash) {
      return false;
    }
    uint32_t chosen = choose(group);
    size_t mark = trail.size();
    int32_t lowestTop = INT32_MAX;
    bool raised = false;
    if (place(group, chosen, lowestTop, raised)) {
      return true;
    }
    undo(mark);
    // When nothing was in the way of placing it, not placing it helps nothing either.
    if (nodes != 0 && raised) {
      raise(chosen, lowestTop);
      if (solve(group)) {
        return true;
      }
      undo(mark);
    }
    if (nodes != 0) {
      failed[hash % kFailedSlots] = hash;
    }
    return false;
  }

  /// Tries the chosen item at its bound. Sets the lowest top of what could lie under it instead,
  /// and whether placing it raised anything.
  bool place(Range group, uint32_t chosen, int32_t &lowestTop, bool &raised) {
    Item &item = items[chosen];
    int32_t top = item.least + item.size;
    Range rest = {lists.size(), lists.size()};
    for (size_t at = group.begin; at < group.end; ++at) {
      uint32_t other = lists[at];
      if (other == chosen) {
        continue;
      }
      lists.push_back(other);
      if (meet(items[other], item)) {
        lowestTop = std::min(lowestTop, items[other].least + items[other].size);
        raised |= items[other].least < top;
        raise(other, top);
      }
    }
    rest.end = lists.size();
    for (uint32_t s = item.begin; s < item.end; ++s) {
      unplaced[s] -= item.size;
    }
    item.offset = item.least;
    bool found = solve(rest);
    for (uint32_t s = item.begin; s < item.end; ++s) {
      unplaced[s] += item.size;
    }
    lists.resize(rest.begin);
    return found;
  }

  bool attempt(uint64_t budget) {
    for (Item &item : items) {
      item.least = 0;
    }
    trail.clear();
    groups.clear();
    lists.resize(items.size());
    for (uint32_t i = 0; i < items.size(); ++i) {
      lists[i] = i;
    }
    std::sort(lists.begin(), lists.end(), [&](uint32_t a, uint32_t b) {
      return items[a].begin != items[b].begin ? items[a].begin < items[b].begin : a < b;
    });
    nodes = budget;
    return solve({0, lists.size()});
  }
};

OffsetSearch::OffsetSearch() : impl(std::make_unique<Impl>()) {}
OffsetSearch::~OffsetSearch() = default;

bool OffsetSearch::fit(std::span<PlannedBuffer> buffers, int64_t capacity, int64_t unit,
                       uint64_t &nodes) {
  Impl &search = *impl;
  if (buffers.size() > kMaxBuffers || capacity / unit > INT32_MAX / 2) {
    return false;
  }
  search.capacity = static_cast<int32_t>(capacity / unit);
  search.makeSections(buffers, unit);
  search.failed.assign(kFailedSlots, 0);
  for (uint64_t attempt = 0; nodes != 0; ++attempt) {
    search.rankItems(attempt);
    uint64_t budget = std::min<uint64_t>(nodes, kNodesPerTry * buffers.size());
    bool found = search.attempt(budget);
    nodes -= budget - search.nodes;
    if (found) {
      for (size_t i = 0; i < buffers.size(); ++i) {
        buffers[i].offset = search.items[i].offset * unit;
      }
      return true;
    }
    if (search.nodes != 0) {
      return false; // the try was complete: there is no layout
    }
  }
  return false;
}

} // namespace tenon
