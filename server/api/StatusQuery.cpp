#include "server/api/StatusQuery.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <iterator>

namespace tenon::server {
namespace {

constexpr std::string_view kStates[] = {"ready", "cold", "loading", "unloading", "unavailable"};
constexpr std::string_view kOrders[] = {"name", "traffic", "latency", "errors", "memory"};
constexpr size_t kMaxValue = 300;

Status badQuery(std::string_view what) {
  return Status::error(ErrorId::BadRequest,
                       fmt::format("the query of the status is not valid: {}", what),
                       "for example ?find=cnn&state=ready&order=traffic&first=0&count=50");
}

Result<std::string> decodeValue(std::string_view text) {
  std::string decoded;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      decoded += text[i];
      continue;
    }
    unsigned value = 0;
    std::string_view digits = text.substr(i + 1, 2);
    std::from_chars_result read =
        std::from_chars(digits.data(), digits.data() + digits.size(), value, 16);
    if (digits.size() < 2 || read.ptr != digits.data() + 2) {
      return badQuery("'%' without two hexadecimal digits");
    }
    decoded += static_cast<char>(value);
    i += 2;
  }
  return decoded;
}

/// Letters of ASCII alone: names have no others.
std::string lowered(std::string_view text) {
  std::string lower(text);
  std::ranges::transform(lower, lower.begin(), [](char c) {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  });
  return lower;
}

void splitWords(std::string_view text, std::vector<std::string> &words) {
  while (!text.empty()) {
    size_t end = std::min(text.find(' '), text.size());
    if (end > 0) {
      words.push_back(lowered(text.substr(0, end)));
    }
    text.remove_prefix(std::min(end + 1, text.size()));
  }
}

template <size_t N>
Status takeWord(std::string_view key, const std::string &value, const std::string_view (&known)[N],
                std::string &to) {
  bool isKnown = value.empty() || std::ranges::find(known, value) != std::end(known);
  to = value;
  return isKnown ? Status::ok() : badQuery(fmt::format("the value of '{}' is unknown", key));
}

Status takeNumber(std::string_view key, const std::string &value, size_t most, size_t &to) {
  std::from_chars_result read = std::from_chars(value.data(), value.data() + value.size(), to);
  return read.ec == std::errc() && read.ptr == value.data() + value.size() && to <= most
             ? Status::ok()
             : badQuery(fmt::format("'{}' must be a number up to {}", key, most));
}

bool isFound(const Model &model, const Version &version, const StatusQuery &query) {
  if (!query.state.empty() && query.state != rowState(version)) {
    return false;
  }
  return std::ranges::all_of(query.words, [&](const std::string &word) {
    return lowered(model.name).find(word) != std::string::npos ||
           std::ranges::any_of(version.labels, [&](const std::string &label) {
             return lowered(label).find(word) != std::string::npos;
           });
  });
}

} // namespace

std::string_view rowState(const Version &version) {
  switch (version.state()) {
  case VersionState::Ready:
    return "ready";
  case VersionState::Cold:
    return "cold";
  case VersionState::Loading:
    return "loading";
  case VersionState::Unloading:
    return "unloading";
  case VersionState::Unloaded:
  case VersionState::Failed:
    break;
  }
  return "unavailable";
}

Result<StatusQuery> parseStatusQuery(std::string_view text) {
  StatusQuery query;
  constexpr size_t kMaxFirst = 1'000'000;
  while (!text.empty()) {
    std::string_view part = text.substr(0, text.find('&'));
    text.remove_prefix(std::min(part.size() + 1, text.size()));
    std::string_view key = part.substr(0, part.find('='));
    TENON_ASSIGN(std::string value,
                 decodeValue(part.substr(std::min(key.size() + 1, part.size()))));
    if (value.size() > kMaxValue) {
      return badQuery(fmt::format("a value has more than {} bytes", kMaxValue));
    }
    if (key == "find") {
      splitWords(value, query.words);
    } else if (key == "chosen") {
      query.chosen = std::move(value);
    } else if (key == "state") {
      TENON_TRY(takeWord(key, value, kStates, query.state));
    } else if (key == "order") {
      TENON_TRY(takeWord(key, value, kOrders, query.order));
    } else if (key == "first") {
      TENON_TRY(takeNumber(key, value, kMaxFirst, query.first));
    } else if (key == "count") {
      TENON_TRY(takeNumber(key, value, StatusQuery::kMaxRows, query.count));
    } else {
      return badQuery("there is no such key");
    }
  }
  return query;
}

StatusRows chooseRows(const ModelCatalog &catalog, const StatusQuery &query,
                      const RecentTraffic &recent) {
  struct Keyed {
    uint64_t key;
    StatusRow row;
  };
  std::vector<Keyed> found;
  StatusRows chosen;
  for (const auto &[name, model] : catalog.all()) {
    for (const auto &[number, version] : model.versions) {
      ++chosen.all;
      if (!isFound(model, *version, query)) {
        continue;
      }
      RecentTraffic::Recent traffic;
      if (query.order == "traffic" || query.order == "latency" || query.order == "errors") {
        traffic = recent.of(*version);
      }
      uint64_t key = query.order == "traffic"   ? traffic.ok
                     : query.order == "latency" ? traffic.p99
                     : query.order == "errors"  ? traffic.lost
                     : query.order == "memory"  ? (version->isLoaded() ? version->bytes() : 0)
                                                : version->state() == VersionState::Failed;
      found.push_back({key, {&model, version.get()}});
    }
  }
  std::ranges::stable_sort(found, std::ranges::greater(), &Keyed::key);
  chosen.found = found.size();
  for (size_t i = query.first; i < std::min(query.first + query.count, found.size()); ++i) {
    chosen.rows.push_back(found[i].row);
  }
  return chosen;
}

} // namespace tenon::server
