// Where a registry is: a folder (SQLite and files), or PostgreSQL with S3 or a shared folder.
//
//   DIR                                                           DIR/registry.db, DIR/blobs,
//   DIR/lock postgresql://USER@HOST/DATABASE?blobs=s3://BUCKET/PREFIX      PostgreSQL and S3
//   postgresql://USER@HOST/DATABASE?blobs=/SHARED/FOLDER          PostgreSQL and a folder that all
//   machines see

#pragma once

#include "registry/BlobStore.h"
#include "registry/Database.h"

#include <chrono>
#include <memory>
#include <string>

namespace tenon::registry {

struct Stores {
  std::unique_ptr<Database> database;
  std::unique_ptr<BlobStore> blobs;
};

/// Whether it names PostgreSQL rather than a folder.
bool isSharedRegistry(std::string_view where);
/// The place as messages tell it: without the query of a URL, and without a password in it.
std::string shownRegistry(const std::string &where);

/// TN1001 where there is none, or one of another format; with `creates` one is made then.
Result<Stores> openStores(const std::string &where, bool creates,
                          std::chrono::milliseconds patience);
/// The same, of a folder.
Result<Stores> openFolder(const std::string &folder, bool creates,
                          std::chrono::milliseconds patience);
/// The same, of PostgreSQL. TN0105 where the URL holds a password or is none.
Result<Stores> openShared(const std::string &url, bool creates, std::chrono::milliseconds patience);

} // namespace tenon::registry
