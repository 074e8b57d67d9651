// The keys of S3, from where the AWS SDKs have them and in their order: the environment, a web
// identity, a profile, the container, the instance. Those that expire are taken anew before they
// do. https://docs.aws.amazon.com/sdkref/latest/guide/standardized-credentials.html has the order.

#pragma once

#include "registry/Profile.h"
#include "support/Result.h"

#include <ctime>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace tenon::registry {

struct Keys {
  std::string id, secret;
  std::string token;       ///< of keys that expire
  std::time_t expires = 0; ///< seconds since 1970; 0: they do not
};

class Credentials {
public:
  /// What the environment and the user's files say; `region` is that of the token service.
  explicit Credentials(std::string region, std::string certificates);

  /// Keys that hold for some minutes. TN0105 with the sources that were looked at where none has
  /// any; TN1013 where one that is set up does not give them. Any thread.
  Result<Keys> current();

private:
  Result<Keys> find();
  /// Of each, no keys where it is not set up: `tried` says so.
  Result<Keys> fromEnvironment();
  Result<Keys> fromWebIdentity(const std::string &tokenFile, const std::string &role,
                               const std::string &session);
  Result<Keys> fromProfile(const std::string &name, int depth);
  Result<Keys> fromRole(const std::string &role, const std::string &session, const Keys &keys,
                        const std::string &externalId);
  Result<Keys> fromContainer();
  Result<Keys> fromInstance();
  /// Asks the token service, signed where there are keys.
  Result<Keys> askTokenService(const std::string &form, const Keys &keys);

  const std::string region, certificates;
  const Profiles profiles;
  std::vector<std::string> tried;
  std::mutex mutex;
  Keys keys; ///< with the mutex
};

} // namespace tenon::registry
