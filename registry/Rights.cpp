// What tokens allow, as text and back.

#include "registry/History.h"
#include "registry/Reference.h"
#include "registry/Token.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <string>

namespace tenon::registry {
namespace {

constexpr std::string_view kRoles[] = {"read", "push", "promote", "admin"};
constexpr std::string_view kUntil = " until ";

} // namespace

const char *nameOf(Role role) { return kRoles[static_cast<size_t>(role)].data(); }

std::string Grant::text() const {
  return space.empty() ? nameOf(role) : fmt::format("{}:{}", nameOf(role), space);
}

Result<Grant> parseGrant(std::string_view text) {
  size_t colon = text.find(':');
  const std::string_view *found = std::ranges::find(kRoles, text.substr(0, colon));
  if (found == std::end(kRoles)) {
    return Status::error(
        ErrorId::BadArgument, fmt::format("there is no role '{}'", text.substr(0, colon)),
        "use read, push, promote or admin, or one of them for a namespace: push:vision/");
  }
  Grant grant{static_cast<Role>(found - kRoles), ""};
  if (colon != text.npos) {
    TENON_ASSIGN(grant.space, parseNamespace(text.substr(colon + 1)));
  }
  return grant;
}

bool Rights::allow(Role role, std::string_view name) const {
  return std::ranges::any_of(grants, [&](const Grant &grant) {
    return grant.role >= role && name.starts_with(grant.space);
  });
}

std::string Rights::roles() const {
  std::vector<std::string> texts;
  for (const Grant &grant : grants) {
    texts.push_back(grant.text());
  }
  return fmt::format("{}", fmt::join(texts, ","));
}

std::string Rights::text() const {
  return roles() + (expires != 0 ? std::string(kUntil) + timeText(expires) : "");
}

Result<Rights> parseRights(std::string_view text) {
  Rights rights;
  size_t until = text.find(kUntil);
  if (until != text.npos) {
    TENON_ASSIGN(rights.expires, parseTime(text.substr(until + kUntil.size())));
  }
  std::string_view roles = text.substr(0, until);
  while (true) {
    size_t comma = roles.find(',');
    TENON_ASSIGN(Grant grant, parseGrant(roles.substr(0, comma)));
    rights.grants.push_back(std::move(grant));
    if (comma == roles.npos) {
      return rights;
    }
    roles.remove_prefix(comma + 1);
  }
}

Result<int64_t> parseExpiry(std::string_view text, int64_t now) {
  constexpr std::string_view kUnits = "mhd";
  constexpr int64_t kMilliseconds[] = {60'000, 3'600'000, 86'400'000}, kMaxCount = 1'000'000;
  size_t unit = text.empty() ? kUnits.npos : kUnits.find(text.back());
  int64_t time = 0;
  if (unit != kUnits.npos) {
    int64_t count = 0;
    const char *end = text.data() + text.size() - 1;
    std::from_chars_result parsed = std::from_chars(text.data(), end, count);
    bool isCount = parsed.ec == std::errc() && parsed.ptr == end && count <= kMaxCount;
    time = isCount ? now + count * kMilliseconds[unit] : 0;
  } else {
    TENON_ASSIGN(time, parseTime(text));
  }
  return time > now
             ? Result<int64_t>(time)
             : Status::error(
                   ErrorId::BadArgument, fmt::format("'{}' is not a time in the future", text),
                   "use a date, such as 2027-01-31, or a duration from now: 30d, 12h, 15m");
}

} // namespace tenon::registry
