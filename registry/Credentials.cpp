#include "registry/Credentials.h"

#include "registry/S3Reply.h"
#include "registry/Sha256.h"
#include "support/Environment.h"
#include "support/json/Json.h"
#include "support/text/Printable.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <fstream>
#include <iterator>

namespace tenon::registry {
namespace {

/// How long before they expire keys are taken anew.
constexpr std::time_t kAhead = 300;
constexpr int kMaxProfiles = 8; ///< of which each takes the keys of the next
constexpr std::chrono::milliseconds kMetadataPatience{1000};
constexpr const char *kContainer = "http://169.254.170.2";
constexpr const char *kInstance = "http://169.254.169.254";

Status refused(std::string_view source, std::string_view why) {
  return Status::error(ErrorId::StoreFailed,
                       fmt::format("{} provides no keys for S3: {}", source, withoutControls(why)),
                       "docs/guides/registry-at-scale.md lists the sources and what each needs");
}

Result<std::string> textOf(std::string_view source, const std::string &path) {
  std::ifstream file(path, std::ios::binary);
  std::string text(std::istreambuf_iterator<char>(file), {});
  text.resize(text.find_last_not_of("\r\n ") + 1);
  return text.empty()
             ? Result<std::string>(refused(source, fmt::format("'{}' cannot be read", path)))
             : Result<std::string>(std::move(text));
}

/// The reply of a service of the container or the instance; refused where it is none.
Result<std::string> ask(std::string_view source, WebRequest request) {
  request.patience = kMetadataPatience;
  Result<WebReply> reply = fetch(request);
  if (!reply.isOk()) {
    return refused(source, reply.status().message());
  }
  return reply->status == kOk
             ? Result<std::string>(std::move(reply->body))
             : refused(source, fmt::format("{} answers {}", request.url, reply->status));
}

/// {"AccessKeyId": ...} as the container and the instance give it.
Result<Keys> keysOf(std::string_view source, const std::string &text) {
  Json answer = parseJson(text);
  auto field = [&](const char *name) {
    bool isText = answer.is_object() && answer.contains(name) && answer[name].is_string();
    return isText ? answer[name].get<std::string>() : std::string();
  };
  Keys keys = {field("AccessKeyId"), field("SecretAccessKey"), field("Token"), 0};
  keys.expires = field("Expiration").empty() ? 0 : secondsOf(field("Expiration"));
  std::string why = field("Message").empty() ? field("Code") : field("Message");
  return keys.id.empty() || keys.secret.empty()
             ? refused(source, why.empty() ? "its answer contains no keys" : why)
             : Result<Keys>(std::move(keys));
}

/// Where a container's service may be: not where others could read the answer. What stands before
/// an '@' is a user's name, not the host.
bool isNear(const std::string &url) {
  constexpr std::array kNear = {"http://127.0.0.1",      "http://localhost",
                                "http://[::1]",          "http://169.254.170.2",
                                "http://169.254.170.23", "http://[fd00:ec2::23]"};
  return url.starts_with("https://") || std::ranges::any_of(kNear, [&](std::string_view near) {
           return url.starts_with(near) && url.find('@') == url.npos &&
                  (url.size() == near.size() || url[near.size()] == '/' || url[near.size()] == ':');
         });
}

std::string valueOf(const Profile &profile, const char *key) {
  Profile::const_iterator found = profile.find(key);
  return found == profile.end() ? "" : found->second;
}

} // namespace

Credentials::Credentials(std::string region, std::string certificates)
    : region(std::move(region)), certificates(std::move(certificates)),
      profiles(Profiles::fromEnvironment()) {}

Result<Keys> Credentials::current() {
  std::lock_guard lock(mutex);
  std::time_t now = std::time(nullptr);
  if (!keys.id.empty() && (keys.expires == 0 || now + kAhead < keys.expires)) {
    return keys;
  }
  Result<Keys> found = find();
  if (!found.isOk() && !keys.id.empty() && now < keys.expires) {
    return keys; // they hold for some minutes, in which the source may come back
  }
  TENON_TRY(found.takeStatus());
  keys = *found;
  return keys;
}

Result<Keys> Credentials::find() {
  tried.clear();
  auto ofIdentity = [this]() -> Result<Keys> {
    std::string file = environment("AWS_WEB_IDENTITY_TOKEN_FILE"),
                role = environment("AWS_ROLE_ARN");
    if (file.empty() || role.empty()) {
      tried.push_back(fmt::format("{} is not set",
                                  file.empty() ? "AWS_WEB_IDENTITY_TOKEN_FILE" : "AWS_ROLE_ARN"));
      return Keys();
    }
    return fromWebIdentity(file, role, environment("AWS_ROLE_SESSION_NAME"));
  };
  TENON_ASSIGN(Keys found, fromEnvironment());
  if (found.id.empty()) {
    TENON_ASSIGN(found, ofIdentity());
  }
  if (found.id.empty()) {
    TENON_ASSIGN(found, fromProfile(profiles.selected(), 0));
  }
  if (found.id.empty()) {
    TENON_ASSIGN(found, fromContainer());
  }
  if (found.id.empty()) {
    TENON_ASSIGN(found, fromInstance());
  }
  return !found.id.empty()
             ? Result<Keys>(std::move(found))
             : Status::error(ErrorId::BadArgument,
                             fmt::format("no keys for S3 were found: {}", fmt::join(tried, "; ")),
                             "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE; "
                             "docs/guides/registry-at-scale.md lists all sources");
}

Result<Keys> Credentials::fromEnvironment() {
  Keys found = {environment("AWS_ACCESS_KEY_ID"), environment("AWS_SECRET_ACCESS_KEY"),
                environment("AWS_SESSION_TOKEN"), 0};
  if (found.id.empty() || found.secret.empty()) {
    tried.push_back(fmt::format("{} is not set",
                                found.id.empty() ? "AWS_ACCESS_KEY_ID" : "AWS_SECRET_ACCESS_KEY"));
    return Keys();
  }
  return found;
}

Result<Keys> Credentials::askTokenService(const std::string &form, const Keys &keys) {
  std::string endpoint = environment("AWS_ENDPOINT_URL_STS");
  endpoint = endpoint.empty() ? environment("AWS_ENDPOINT_URL") : endpoint;
  WebRequest request;
  request.method = "POST";
  request.url =
      endpoint.empty() ? fmt::format("https://sts.{}.amazonaws.com/", region) : endpoint + "/";
  request.body = form;
  request.certificates = certificates;
  request.headers = {"Content-Type: application/x-www-form-urlencoded"};
  if (!keys.id.empty()) {
    request.signature = {region, "sts", keys.id, keys.secret};
    request.headers.push_back("x-amz-content-sha256: " + sha256Of(form));
    if (!keys.token.empty()) {
      request.headers.push_back("x-amz-security-token: " + keys.token);
    }
  }
  Result<WebReply> reply = fetch(request);
  TENON_TRY(reply.isOk() ? Status::ok() : refused("the token service", reply.status().message()));
  Keys found = {std::string(element(reply->body, "AccessKeyId")),
                std::string(element(reply->body, "SecretAccessKey")),
                std::string(element(reply->body, "SessionToken")), 0};
  found.expires = secondsOf(std::string(element(reply->body, "Expiration")));
  bool isGiven = reply->status == kOk && !found.id.empty() && !found.secret.empty();
  return isGiven
             ? Result<Keys>(std::move(found))
             : refused("the token service",
                       fmt::format("{} answers {} {}: {}", request.url, reply->status,
                                   element(reply->body, "Code"), element(reply->body, "Message")));
}

Result<Keys> Credentials::fromWebIdentity(const std::string &tokenFile, const std::string &role,
                                          const std::string &session) {
  // Read each time: what puts it there renews it too.
  TENON_ASSIGN(std::string token, textOf("AWS_WEB_IDENTITY_TOKEN_FILE", tokenFile));
  return askTokenService(
      fmt::format("Action=AssumeRoleWithWebIdentity&Version=2011-06-15&RoleArn={}&RoleSessionName="
                  "{}&WebIdentityToken={}",
                  percent(role), percent(session.empty() ? "tenon" : session), percent(token)),
      {});
}

Result<Keys> Credentials::fromRole(const std::string &role, const std::string &session,
                                   const Keys &keys, const std::string &externalId) {
  std::string form =
      fmt::format("Action=AssumeRole&Version=2011-06-15&RoleArn={}&RoleSessionName={}",
                  percent(role), percent(session.empty() ? "tenon" : session));
  return askTokenService(externalId.empty() ? form : form + "&ExternalId=" + percent(externalId),
                         keys);
}

Result<Keys> Credentials::fromProfile(const std::string &name, int depth) {
  Profile profile = profiles.find(name);
  std::string what = fmt::format("the profile '{}'", name);
  if (profile.empty()) {
    tried.push_back(fmt::format("{} is not in ~/.aws", what));
    bool isMeant = profiles.isNamed() || depth > 0;
    return isMeant ? Result<Keys>(
                         refused(what, "it is in neither ~/.aws/credentials nor ~/.aws/config"))
                   : Keys();
  }
  Keys own = {valueOf(profile, "aws_access_key_id"), valueOf(profile, "aws_secret_access_key"),
              valueOf(profile, "aws_session_token"), 0};
  std::string role = valueOf(profile, "role_arn"), session = valueOf(profile, "role_session_name"),
              source = valueOf(profile, "source_profile"),
              file = valueOf(profile, "web_identity_token_file"),
              kind = valueOf(profile, "credential_source");
  if (!role.empty() && !file.empty()) {
    return fromWebIdentity(file, role, session);
  }
  if (!role.empty() && (!source.empty() || !kind.empty())) {
    Keys keys;
    if (source == name) {
      keys = own;
    } else if (!source.empty() && depth < kMaxProfiles) {
      TENON_ASSIGN(keys, fromProfile(source, depth + 1));
    } else if (kind == "Environment") {
      TENON_ASSIGN(keys, fromEnvironment());
    } else if (kind == "EcsContainer") {
      TENON_ASSIGN(keys, fromContainer());
    } else if (kind == "Ec2InstanceMetadata") {
      TENON_ASSIGN(keys, fromInstance());
    }
    return keys.id.empty() ? refused(what, "the source of the keys for its role has none")
                           : fromRole(role, session, keys, valueOf(profile, "external_id"));
  }
  if (!own.id.empty() && !own.secret.empty()) {
    return own;
  }
  for (const char *key : {"credential_process", "sso_session", "sso_start_url"}) {
    if (profile.contains(key)) {
      return refused(what,
                     fmt::format("it gets them through {}, which Tenon does not support; `aws "
                                 "configure export-credentials --format env` prints them",
                                 key));
    }
  }
  tried.push_back(what + " has none");
  return Keys();
}

Result<Keys> Credentials::fromContainer() {
  constexpr const char *kSource = "the container's service";
  std::string relative = environment("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI"),
              full = environment("AWS_CONTAINER_CREDENTIALS_FULL_URI");
  if (relative.empty() && full.empty()) {
    tried.push_back("AWS_CONTAINER_CREDENTIALS_FULL_URI is not set");
    return Keys();
  }
  WebRequest request;
  request.url = relative.empty() ? full : kContainer + relative;
  if (!isNear(request.url)) {
    return refused(kSource, request.url + " is neither HTTPS nor on this machine");
  }
  std::string file = environment("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE"),
              token = environment("AWS_CONTAINER_AUTHORIZATION_TOKEN");
  if (!file.empty()) {
    TENON_ASSIGN(token, textOf(kSource, file));
  }
  if (!token.empty()) {
    request.headers.push_back("Authorization: " + token);
  }
  TENON_ASSIGN(std::string answer, ask(kSource, request));
  return keysOf(kSource, answer);
}

Result<Keys> Credentials::fromInstance() {
  constexpr const char *kSource = "the instance's metadata";
  if (environment("AWS_EC2_METADATA_DISABLED") == "true") {
    tried.push_back("AWS_EC2_METADATA_DISABLED is true");
    return Keys();
  }
  std::string endpoint = environment("AWS_EC2_METADATA_SERVICE_ENDPOINT");
  endpoint = endpoint.empty() ? kInstance : endpoint;
  endpoint.resize(endpoint.find_last_not_of('/') + 1);
  WebRequest request;
  request.method = "PUT";
  request.url = endpoint + "/latest/api/token";
  request.headers = {"X-aws-ec2-metadata-token-ttl-seconds: 21600"};
  Result<std::string> token = ask(kSource, request);
  if (!token.isOk()) { // as on every machine that is no instance
    tried.emplace_back(token.status().message());
    return Keys();
  }
  request.method = "GET";
  request.url = endpoint + "/latest/meta-data/iam/security-credentials/";
  request.headers = {"X-aws-ec2-metadata-token: " + *token};
  TENON_ASSIGN(std::string role, ask(kSource, request));
  request.url += role.substr(0, role.find('\n'));
  TENON_ASSIGN(std::string answer, ask(kSource, request));
  return keysOf(kSource, answer);
}

} // namespace tenon::registry
