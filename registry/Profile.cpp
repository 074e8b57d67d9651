#include "registry/Profile.h"

#include "support/Environment.h"

#include <algorithm>
#include <fstream>
#include <iterator>

namespace tenon::registry {
namespace {

constexpr std::string_view kBlanks = " \t\r";

std::string_view trimmed(std::string_view text) {
  size_t begin = text.find_first_not_of(kBlanks);
  return begin == text.npos ? std::string_view()
                            : text.substr(begin, text.find_last_not_of(kBlanks) + 1 - begin);
}

/// In the config file all sections but the default one begin with "profile".
void readProfiles(std::string_view text, bool isConfig, std::map<std::string, Profile> &profiles) {
  constexpr std::string_view kPrefix = "profile ";
  Profile *profile = nullptr;
  for (size_t from = 0; from < text.size();) {
    size_t end = std::min(text.find('\n', from), text.size());
    std::string_view whole = text.substr(from, end - from), line = trimmed(whole);
    from = end + 1;
    if (line.empty() || line[0] == '#' || line[0] == ';') {
      continue;
    }
    if (line[0] == '[') {
      std::string_view name = trimmed(line.substr(1, line.find(']') - 1));
      bool isPrefixed = name.starts_with(kPrefix);
      bool isProfile = !isConfig || isPrefixed || name == "default";
      name = isConfig && isPrefixed ? trimmed(name.substr(kPrefix.size())) : name;
      profile = isProfile ? &profiles[std::string(name)] : nullptr;
      continue;
    }
    size_t equals = line.find('=');
    bool isNested = kBlanks.find(whole[0]) != kBlanks.npos; // of a section in the section
    if (profile && equals != line.npos && !isNested) {
      profile->try_emplace(std::string(trimmed(line.substr(0, equals))),
                           trimmed(line.substr(equals + 1)));
    }
  }
}

std::string textOfFile(const char *variable, const std::string &file) {
  std::string named = environment(variable);
  std::string path = !named.empty() ? named : environment("HOME") + "/.aws/" + file;
  std::ifstream stream(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), {}};
}

} // namespace

Profiles::Profiles(std::string_view credentials, std::string_view config) {
  readProfiles(credentials, false, profiles);
  readProfiles(config, true, profiles);
}

Profiles Profiles::fromEnvironment() {
  Profiles found(textOfFile("AWS_SHARED_CREDENTIALS_FILE", "credentials"),
                 textOfFile("AWS_CONFIG_FILE", "config"));
  for (const char *variable : {"AWS_DEFAULT_PROFILE", "AWS_PROFILE"}) {
    std::string value = environment(variable);
    if (!value.empty()) {
      found.name = value;
      found.named = true;
    }
  }
  return found;
}

Profile Profiles::find(const std::string &profile) const {
  std::map<std::string, Profile>::const_iterator found = profiles.find(profile);
  return found == profiles.end() ? Profile() : found->second;
}

} // namespace tenon::registry
