// Opens a registry on PostgreSQL, with its files in S3 or in a folder that all machines see.

#include "registry/BlobFolder.h"
#include "registry/ObjectStore.h"
#include "registry/PostgresDatabase.h"
#include "registry/Stores.h"
#include "support/Environment.h"
#include "support/text/Printable.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

namespace tenon::registry {
namespace {

constexpr const char *kExample =
    "for example postgresql://me@db.example/registry?blobs=s3://models/registry";
constexpr std::string_view kObjects = "s3://";
constexpr const char *kDefaultSchema = "tenon";
/// What S3 takes as a part, but for the last.
constexpr uint64_t kMinPartBytes = uint64_t(5) << 20, kMaxPartBytes = uint64_t(5) << 30;

Status badUrl(const std::string &url, std::string_view why) {
  return Status::error(ErrorId::BadArgument,
                       fmt::format("'{}' {}", withoutControls(shownRegistry(url)), why), kExample);
}

bool consistsOf(std::string_view text, std::string_view more) {
  return std::ranges::all_of(text, [&](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || more.find(c) != more.npos;
  });
}

/// Where the two parts are. What is not ours of the URL is for libpq.
struct SharedAddress {
  PostgresAddress database;
  std::string blobs; ///< empty: what the registry was made with
  uint64_t partBytes = ObjectStore::kPartBytes;
};

/// Takes our parameters out of the URL's.
Status takeOurs(std::string &url, SharedAddress &address) {
  size_t question = url.find('?');
  std::string rest = question == url.npos ? "" : url.substr(question + 1), theirs;
  for (size_t from = 0; from < rest.size();) {
    size_t end = std::min(rest.find('&', from), rest.size());
    std::string part = rest.substr(from, end - from);
    from = end + 1;
    size_t equals = std::min(part.find('='), part.size());
    std::string key = part.substr(0, equals),
                value = part.substr(std::min(equals + 1, part.size()));
    if (key == "blobs") {
      address.blobs = value;
    } else if (key == "schema") {
      address.database.schema = value;
    } else if (key == "part-bytes") {
      uint64_t &bytes = address.partBytes;
      std::from_chars_result parsed =
          std::from_chars(value.data(), value.data() + value.size(), bytes);
      if (parsed.ec != std::errc() || parsed.ptr != value.data() + value.size() ||
          bytes < kMinPartBytes || bytes > kMaxPartBytes) {
        return badUrl(url, fmt::format("has a 'part-bytes' that is not between {} and {}",
                                       kMinPartBytes, kMaxPartBytes));
      }
    } else {
      theirs += (theirs.empty() ? "?" : "&") + part;
    }
  }
  url = url.substr(0, question) + theirs;
  const std::string &schema = address.database.schema;
  bool isName = !schema.empty() && schema.size() < 64 && consistsOf(schema, "_") &&
                !(schema[0] >= '0' && schema[0] <= '9');
  return isName ? Status::ok()
                : badUrl(url,
                         "has a 'schema' with characters other than small letters, digits and '_'");
}

Result<SharedAddress> parseShared(std::string url) {
  SharedAddress address;
  address.database.shown = shownRegistry(url);
  address.database.schema = kDefaultSchema;
  TENON_TRY(takeOurs(url, address));
  TENON_ASSIGN(const Libpq *pq, Libpq::open());
  char *problem = nullptr;
  std::unique_ptr<PQconninfoOption, decltype(pq->freeParsed)> parsed(
      pq->parse(url.c_str(), &problem), pq->freeParsed);
  std::unique_ptr<char, decltype(pq->freeMemory)> freed(problem, pq->freeMemory);
  if (!parsed) {
    return Status::error(ErrorId::BadArgument,
                         fmt::format("the registry's address is not a PostgreSQL address: {}",
                                     withoutControls(problem ? problem : "out of memory")),
                         kExample);
  }
  // A server that is gone without a word is noticed: PostgreSQL's own defaults wait for hours.
  std::vector<std::pair<std::string, std::string>> &parameters = address.database.parameters;
  parameters = {{"fallback_application_name", "tenon registry"},
                {"client_encoding", "UTF8"},
                {"connect_timeout", "10"},
                {"keepalives_idle", "5"},
                {"keepalives_interval", "2"},
                {"keepalives_count", "3"},
                {"tcp_user_timeout", "10000"}};
  for (PQconninfoOption *option = parsed.get(); option->keyword; ++option) {
    if (option->val && std::string_view(option->keyword) == "password") {
      return Status::error(
          ErrorId::BadArgument,
          "the registry's address contains a password, which others on this machine can read",
          "put it in $PGPASSWORD or ~/.pgpass");
    }
    if (option->val) {
      std::erase_if(parameters, [&](const auto &each) { return each.first == option->keyword; });
      parameters.emplace_back(option->keyword, option->val);
    }
  }
  return address;
}

Result<std::unique_ptr<BlobStore>> openBlobs(const std::string &blobs, uint64_t partBytes) {
  if (!blobs.starts_with(kObjects)) {
    return std::unique_ptr<BlobStore>(std::make_unique<BlobFolder>(blobs));
  }
  size_t slash = std::min(blobs.find('/', kObjects.size()), blobs.size());
  std::string bucket = blobs.substr(kObjects.size(), slash - kObjects.size()),
              prefix = blobs.substr(std::min(slash + 1, blobs.size()));
  if (!prefix.empty()) {
    prefix += '/';
  }
  TENON_ASSIGN(S3Settings settings, S3Settings::fromEnvironment());
  std::string cache = userCacheFolder();
  if (cache.empty()) {
    return Status::error(ErrorId::BadArgument,
                         "the environment names no folder for the registry's cache",
                         "set XDG_CACHE_HOME or HOME");
  }
  std::unique_ptr<BlobStore> store = std::make_unique<ObjectStore>(
      S3Client(std::move(settings), std::move(bucket), std::move(prefix)), cache + "/registry",
      partBytes);
  TENON_TRY(store->create());
  return store;
}

/// s3://BUCKET, s3://BUCKET/PREFIX or an absolute folder, in characters that stand in a URL as they
/// are.
Status checkBlobs(const std::string &url, const std::string &blobs) {
  constexpr const char *kLetters = "ABCDEFGHIJKLMNOPQRSTUVWXYZ-_./";
  std::string_view objects =
      std::string_view(blobs).substr(blobs.starts_with(kObjects) ? kObjects.size() : 0);
  bool isObjects = objects.size() < blobs.size();
  bool isPlain = consistsOf(objects, kLetters) && objects.find("//") == objects.npos &&
                 objects.find("..") == objects.npos && !objects.ends_with('/');
  return isPlain && !objects.empty() && (isObjects ? objects[0] != '/' : objects[0] == '/')
             ? Status::ok()
             : badUrl(url, "needs blobs=s3://BUCKET/PREFIX, or blobs=/FOLDER that all machines "
                           "share; both of letters, digits, '-', '_' and '.'");
}

} // namespace

Result<Stores> openShared(const std::string &url, bool creates,
                          std::chrono::milliseconds patience) {
  TENON_ASSIGN(SharedAddress address, parseShared(url));
  if (!address.blobs.empty()) {
    TENON_TRY(checkBlobs(url, address.blobs));
  }
  TENON_ASSIGN(std::unique_ptr<PostgresDatabase> database,
               PostgresDatabase::open(address.database, patience));
  Result<std::string> kept = database->blobsOf();
  bool isAbsent = !kept.isOk() && kept.status().id() == ErrorId::BadRegistry;
  bool isNew = creates && isAbsent;
  std::unique_ptr<BlobStore> blobs;
  if (isNew) {
    TENON_TRY(checkBlobs(url, address.blobs));
    TENON_ASSIGN(blobs, openBlobs(address.blobs, address.partBytes));
    TENON_TRY(blobs->create());
    TENON_TRY(database->makeTables(address.blobs));
    kept = database->blobsOf();
  }
  TENON_TRY(kept.takeStatus());
  if (!address.blobs.empty() && address.blobs != *kept) {
    return badUrl(url, fmt::format("stores its files at '{}', not at '{}'", *kept, address.blobs));
  }
  TENON_TRY(checkBlobs(url, *kept));
  if (!blobs) {
    TENON_ASSIGN(blobs, openBlobs(*kept, address.partBytes));
  }
  return Stores{std::move(database), std::move(blobs)};
}

} // namespace tenon::registry
