// The last requests to language models, which the page shows. One thread.

#pragma once

#include "server/protocol/TextRecord.h"

#include <deque>
#include <utility>

namespace tenon::server {

class RecentTexts {
public:
  void add(TextRecord record) {
    constexpr size_t kKept = 32;
    records.push_front(std::move(record));
    if (records.size() > kKept) {
      records.pop_back();
    }
  }
  /// The newest first.
  const std::deque<TextRecord> &all() const { return records; }

private:
  std::deque<TextRecord> records;
};

} // namespace tenon::server
