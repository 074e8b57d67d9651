// Pages with references, and the pages that are found again by what they hold. A page that nobody
// references keeps its contents until its room is needed, the longest unused first.
#pragma once

#include <cstdint>
#include <list>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

namespace tenon::generate {

/// What a full page holds: its tokens behind those of other pages. Contents are compared, not only
/// their hashes: no prompt can be made that finds another's page.
struct PageContents {
  uint64_t before = 0; ///< the number in the chain of the page before; 0 for the first
  std::string salt;    ///< of a sequence's first page; the others follow it
  std::vector<int32_t> tokens;
  bool operator==(const PageContents &) const = default;
};

/// One thread at a time.
class PagePool {
public:
  explicit PagePool(int64_t pages);

  /// A full page, and the number that its contents have in chains; no two contents have one.
  struct Match {
    int32_t page = 0;
    uint64_t chain = 0;
  };

  int64_t size() const { return static_cast<int64_t>(pages.size()); }
  /// Pages that nobody references, among them those that are kept.
  int64_t free() const { return static_cast<int64_t>(idle.size()); }
  /// Of the free ones, those with contents to be found.
  int64_t kept() const { return idleNamed; }
  int64_t references(int32_t page) const { return pages[page].references; }

  std::optional<Match> find(const PageContents &contents) const;
  /// One more reference of a page.
  void reference(int32_t page);
  /// A page with one reference, and without contents. There is a free one.
  int32_t take();
  void release(int32_t page);
  /// Says what a referenced page is full of, and gives the number for chains. Where another page
  /// holds the same, that one goes on to be found.
  uint64_t name(int32_t page, PageContents contents);

private:
  struct Hash {
    size_t operator()(const PageContents &contents) const;
  };
  struct Page {
    int64_t references = 0;
    const PageContents *contents = nullptr; ///< a key of `named`
    std::list<int32_t>::iterator at;        ///< in `idle`, without references
  };

  std::vector<Page> pages;
  /// First those without contents, then the others, the longest unused first.
  std::list<int32_t> idle;
  int64_t idleNamed = 0;
  std::unordered_map<PageContents, Match, Hash> named;
  uint64_t chains = 0;
};

} // namespace tenon::generate
