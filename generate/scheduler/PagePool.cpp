// Implements the order in which contents are given up.
#include "generate/scheduler/PagePool.h"

#include "support/Hash.h"

#include <span>

namespace tenon::generate {

size_t PagePool::Hash::operator()(const PageContents &contents) const {
  Hasher hasher;
  hasher.update(std::as_bytes(std::span(&contents.before, 1)));
  hasher.update(std::as_bytes(std::span(contents.tokens)));
  hasher.update(contents.salt);
  return hasher.digest().low;
}

PagePool::PagePool(int64_t count) : pages(static_cast<size_t>(count)) {
  for (int64_t page = 0; page < count; ++page) {
    pages[page].at = idle.insert(idle.end(), static_cast<int32_t>(page));
  }
}

std::optional<PagePool::Match> PagePool::find(const PageContents &contents) const {
  auto found = named.find(contents);
  return found == named.end() ? std::nullopt : std::optional(found->second);
}

void PagePool::reference(int32_t number) {
  Page &page = pages[number];
  if (page.references++ == 0) {
    idle.erase(page.at);
    idleNamed -= page.contents ? 1 : 0;
  }
}

int32_t PagePool::take() {
  int32_t number = idle.front();
  reference(number);
  Page &page = pages[number];
  if (page.contents) {
    named.erase(named.find(*page.contents));
    page.contents = nullptr;
  }
  return number;
}

void PagePool::release(int32_t number) {
  Page &page = pages[number];
  if (--page.references == 0) {
    page.at = idle.insert(page.contents ? idle.end() : idle.begin(), number);
    idleNamed += page.contents ? 1 : 0;
  }
}

uint64_t PagePool::name(int32_t number, PageContents contents) {
  auto [place, isNew] = named.try_emplace(std::move(contents), Match{number, chains + 1});
  if (isNew) {
    ++chains;
    pages[number].contents = &place->first;
  }
  return place->second.chain;
}

} // namespace tenon::generate
