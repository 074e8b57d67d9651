// Profiles of ~/.aws/credentials and ~/.aws/config, which AWS_SHARED_CREDENTIALS_FILE and
// AWS_CONFIG_FILE place elsewhere. https://docs.aws.amazon.com/sdkref/latest/guide/file-format.html

#pragma once

#include <map>
#include <string>
#include <string_view>

namespace tenon::registry {

using Profile = std::map<std::string, std::string>;

class Profiles {
public:
  static Profiles fromEnvironment();
  /// `credentials` and `config` are the text of the two files, of which the first counts where both
  /// have a key.
  Profiles(std::string_view credentials, std::string_view config);

  /// What AWS_PROFILE says, or "default".
  const std::string &selected() const { return name; }
  bool isNamed() const { return named; }
  /// Empty where there is none.
  Profile find(const std::string &profile) const;

private:
  std::map<std::string, Profile> profiles;
  std::string name = "default";
  bool named = false;
};

} // namespace tenon::registry
