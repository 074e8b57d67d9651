// The registry: objects with numbered versions that never change, aliases that move between them,
// the gates that a promotion passes, and the history of all of it. It relies on Database for what
// is small, on BlobStore for files, and on a lock that those share who read files, and that the one
// has alone who deletes some; who adds files needs none (Collect.cpp says why). Stores.h says where
// all of it is.
//
// A version is acknowledged when its file and then its row are on the disk; gc deletes rows first
// and then files. So a process that ends anywhere leaves at most files that no row names, which the
// next gc removes.

#pragma once

#include "registry/BlobStore.h"
#include "registry/Database.h"
#include "registry/Folder.h"
#include "registry/Gate.h"
#include "registry/History.h"
#include "registry/Lineage.h"
#include "registry/Reference.h"
#include "registry/Search.h"
#include "registry/Stores.h"
#include "registry/Token.h"
#include "registry/signing/Trust.h"
#include "support/Result.h"
#include "support/files/FileStamp.h"

#include <nlohmann/json.hpp>

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace tenon::registry {

/// What an object is: "model", "engine", "data", "report" or "tuning".
extern const std::vector<std::string> kKinds;

struct Options {
  /// Who does what is done, as the history tells it.
  std::string by;
  /// For whom a program does it that has a token of its own, as the history tells it besides.
  std::string caller = "";
  /// How long to wait for other processes.
  std::chrono::milliseconds patience{10'000};
  /// Milliseconds since 1970, for a registry in a folder; PostgreSQL's own server tells the time.
  std::function<int64_t()> clock;
  /// What opens a registry that has tokens; where empty, what $TENON_REGISTRY_TOKEN says. Its name
  /// takes the place of `by`.
  std::string token = "";
  /// Whether $TENON_REGISTRY_TOKEN counts: not where somebody else than this process asks.
  bool takesEnvironment = true;
  /// Bytes that files of S3 may take on this machine's disk; 0: those of ObjectStore.
  uint64_t cacheSize = 0;
};

struct Version;

struct PushRequest {
  std::string name;
  std::string kind;
  std::string path; ///< of the file to copy in
  /// Of the file when it was looked at: one that was changed since then is refused, TN1010.
  FileStamp stamp;
  Json facts = Json::object(); ///< where it comes from: source, options, compiler, data, parent
  std::string note;
  /// Of the push itself: machine, program. The same file with the same facts is the same version,
  /// whatever these are.
  Json circumstances = Json::object();
  /// Makes the signature that becomes one of the version's together with it; none where it is
  /// empty.
  std::function<Result<std::string>(const Version &)> sign = {};
  /// Of a version of several files (Folder.h), which is called like the folder `path`; empty where
  /// that is the one file.
  std::vector<SourceFile> files = {};
};

struct Version {
  std::string name;
  int64_t number = 0;
  std::string kind;
  Blob blob;        ///< of a version of several files: of its manifest, and the bytes of all
  std::string file; ///< its name when it was pushed; "NAME/" of several files
  int64_t created = 0;
  Json facts;
  std::string note;
  bool isDeleted = false;
  std::vector<Part> parts = {}; ///< of a version of several files, as `find` and `push` give it

  /// "NAME:NUMBER".
  std::string text() const;
  bool isFolder() const { return isFolderName(file); }
  /// Of a version of several files, the path of the one that is run, compiled or measured: what
  /// was pushed as such. Empty where there is none.
  std::string mainPath() const;
};

struct Pushed {
  Version version;
  bool isExisting = false; ///< a version with the same bytes and facts was there
};

struct Alias {
  std::string name;
  int64_t version = 0;
};

struct Object {
  std::string name;
  std::string kind;
  int64_t newest = 0; ///< the number of its newest version
  std::vector<Alias> aliases;
};

/// A version that `search` found.
struct FoundVersion {
  Version version;
  std::vector<std::string> aliases;
  std::map<std::string, double> metrics; ///< as gates measured them last
};
struct Found {
  std::vector<FoundVersion> versions; ///< the newest first
  std::optional<SearchPlace> next;    ///< where the next page begins, if there may be one
};

/// An alias moved.
struct Move {
  std::string name;
  std::string alias;
  int64_t from = 0; ///< 0: it did not exist
  int64_t to = 0;
};

struct Collected {
  std::vector<std::string> versions; ///< that were deleted: "NAME:NUMBER"
  uint64_t files = 0;
  uint64_t bytes = 0;
};

struct Verified {
  uint64_t versions = 0;
  uint64_t files = 0;
  uint64_t bytes = 0;
  uint64_t events = 0;
  uint64_t signatures = 0;
  std::string head;                       ///< hash of the last event
  std::map<std::string, uint64_t> hashes; ///< of the files that the history has, and their bytes
  /// Everything that is wrong: TN1005, TN1011, TN1001, TN1016.
  std::vector<Status> problems;
};

/// Not for several threads at once; several processes may have the same registry open.
class Registry {
public:
  /// `where` is a folder or a URL, as Stores.h says. TN1001 where there is none, or one of another
  /// format; TN1013 where the database does not answer; TN1014 where it has tokens and none of them
  /// was given.
  static Result<Registry> open(const std::string &where, Options options);
  /// Makes one where there is none.
  static Result<Registry> create(const std::string &where, Options options);

  /// Whether it has tokens, and so knows who asks.
  bool knowsWhoAsks() const { return !tokenName.empty(); }

  /// TN1014 where the token does not allow it now; `name` as Rights::allow takes it.
  Status allow(Role role, const std::string &name);

  /// Stores a file as the next version. Durable when it returns.
  Result<Pushed> push(const PushRequest &request);

  /// Objects by name: those behind `after`, at most so many, of a namespace where one is given.
  Result<std::vector<Object>> objects(const std::string &after, int64_t most,
                                      const std::string &space = "");
  Result<Object> object(const std::string &name);
  /// Versions that are not deleted and that have everything that is asked for, by one query.
  Result<Found> search(const Search &search);
  /// Of all objects that have the alias, the versions that it is at, by their names.
  Result<std::map<std::string, int64_t>> objectsAt(const std::string &alias);
  /// Of an object, the newest first.
  Result<std::vector<Version>> versions(const std::string &name);
  /// TN1003. A deleted version is found by its number only.
  Result<Version> find(const Reference &reference);
  /// The number of the version that an alias is at; 0 where there is no such alias.
  Result<int64_t> aliasOf(const std::string &name, const std::string &alias);
  /// Where the version's file is on this machine, once `check` has brought it there.
  std::string pathOf(const Version &version) const { return blobs->pathOf(version.blob.hash); }
  /// Brings the version's files to this machine where they are not, and reads them whole: TN1005,
  /// TN1013.
  Status check(const Version &version) const;
  /// The files of a version of several under their names in a folder, which is made: hard links
  /// where they can be made, which stay whatever gc does, else copies, which are checked. As
  /// `check`.
  Status writeFolder(const Version &version, const std::string &folder, bool copies) const;

  /// Moves an alias. With `expected` only from that version (0: where there is none), TN1006. Where
  /// the alias has rules, what its gates found of the version must stand (Gate.h): TN1007, TN1008.
  Result<Move> promote(const Reference &reference, const std::string &alias,
                       std::optional<int64_t> expected, const std::string &reason);
  /// Moves an alias back to what it was before the promotion that brought it to where it is: TN1012
  /// where there is none. With `expected` only from that version, TN1006: of several who see that a
  /// version is bad, one goes back, and by one step.
  Result<Move> rollback(const std::string &name, const std::string &alias,
                        std::optional<int64_t> expected, const std::string &reason);

  /// Adds the text of a signature (signing::Signer) to a version: TN1016 where it is of another
  /// file.
  Status sign(const Version &version, const std::string &bundle);
  /// Those of a version, the newest first.
  Result<std::vector<std::string>> signatures(const Version &version);
  /// TN1015, TN1016 unless one of them is of somebody who is trusted.
  Status requireSignature(const Version &version, const signing::Trust &trust);

  using Tags = std::map<std::string, std::string>;
  /// Sets tags of a version, or of the object where it is 0, and takes away those whose value is
  /// null: what people say of it later, where facts are what it was made from. TN1003, TN1004.
  Status tag(const std::string &name, int64_t version, const Json &changes);
  /// Of an object, by the number of the version; 0 has the object's own.
  Result<std::map<int64_t, Tags>> tags(const std::string &name);

  Result<Terms> terms(const std::string &name, const std::string &alias);
  /// Takes the place of those that were; results by those count no longer.
  Status setTerms(const std::string &name, const std::string &alias, const Terms &terms);
  /// Records what was measured of a version. TN1006 where the alias or its terms are no longer
  /// those of the result; TN1009 where it was measured on or with something else than they pin.
  /// Where the rules ask for data and none are pinned, those of this result are from now on, which
  /// takes the role that setTerms takes.
  Status record(const std::string &name, const GateResult &result);

  /// Events from the newest on, at most so many; of one object or alias where they are not empty.
  Result<std::vector<Event>> history(const std::string &name, const std::string &alias,
                                     int64_t most);

  /// Events behind one, the oldest first, at most so many.
  Result<std::vector<Event>> eventsAfter(int64_t id, int64_t most);
  /// The hash of an event, whoever may look at it; empty where it is not there.
  Result<std::string> hashOfEvent(int64_t id);
  /// The number of the newest event; 0 where there is none.
  Result<int64_t> newestEvent();
  /// What the version was made from and what was made from it, each at most so many.
  Result<Lineage> lineage(const Version &version, size_t most);

  /// Deletes versions beyond the newest `keep` of each object, but for those at aliases, those that
  /// a rollback goes to, and what these name (parents, data, data of gates); then the files that no
  /// version has.
  Result<Collected> collect(std::optional<int64_t> keep, bool isDryRun);
  /// Hashes every file and the history, derives every table from the history, looks whether tables
  /// and triggers are those that were made, and whether signatures are of the files that they are
  /// with. `head`, where not empty, is the hash of an
  /// event that must be in it.
  Result<Verified> verify(const std::string &head);

  /// Makes a token and gives it: it is told this once, and kept as its SHA-256. The first must be
  /// an admin's of everything, for ever; later ones allow what an admin may give: an admin of a
  /// namespace gives rights in it. TN1004 for the name, TN0105 where there is one of that name
  /// already.
  Result<std::string> addToken(const std::string &name, const Rights &rights);
  /// Those whose rights lie where this one may look.
  Result<std::vector<Token>> tokens();
  /// TN1003 where there is none of the name; TN0105 for the last that the first could be.
  Status revokeToken(const std::string &name);
  /// What time it is for the registry, in milliseconds since 1970.
  Result<int64_t> now();

  /// Its files, which outlive it.
  const std::shared_ptr<BlobStore> &files() const { return blobs; }
  /// Keeps gc away as long as it lives, for who reads files.
  Result<FilesLock> keepFiles() const;
  /// The folder on this machine whose file system pathOf is on.
  const std::string &filesFolder() const { return blobs->folder(); }
  /// Where the registry is, for people.
  const std::string &shown() const { return where; }

private:
  Registry(std::string where, Stores stores, Options options);
  static Result<Registry> open(const std::string &where, Options options, bool creates);

  /// Finds out whose token it is: TN1014 where the registry has tokens and that of the options is
  /// none of them now.
  Status identify();
  /// As somebody who opens it, which is kept as the last use of the token.
  Status enter();
  /// As a condition of SQL: the objects in `column` that the token may look at.
  std::string isSeen(std::string_view column) const;
  Result<std::vector<Token>> allTokens();
  /// Commits. Where the connection was lost in that, looks whether the last event of `add` is
  /// there.
  Status finish(Transaction &transaction);

  /// Begins to write, as somebody who may. TN1014.
  Result<Transaction> beginAs(Role role, const std::string &name);
  Status checkGate(const Version &version, const std::string &alias, int64_t champion);
  Status writeTerms(const std::string &name, const std::string &alias,
                    const std::vector<std::string> &texts);
  Result<Move> move(const Version &version, const std::string &alias, int64_t from,
                    const char *action, const std::string &reason);
  Result<std::vector<int64_t>> earlier(const std::string &name, const std::string &alias);
  Status add(Event event);
  Result<std::vector<Part>> partsOf(const std::string &name, int64_t number);
  /// Makes the tables of kFormat where they are missing, when nobody pushes.
  Status raiseFormat();
  /// Copies the files of a push in.
  Result<Version> store(const PushRequest &request);
  /// Whether all of them are there and will be when the transaction that is open is committed;
  /// `batches` is what removedBatches gave before they were stored.
  Result<bool> areStored(const Version &version, int64_t batches);
  Result<int64_t> removedBatches();
  Result<Pushed> insert(const PushRequest &request, Version version);
  Status insertRows(const Version &version, const std::string &facts);
  Status addSignature(const Version &version, const std::string &bundle);
  /// The newest version of the same bytes and facts.
  Result<std::optional<Version>> sameVersion(const PushRequest &request, const std::string &hash);
  Status checkRelations(const PushRequest &request);
  Status signPushed(const PushRequest &request, const Version &version);
  using Number = std::pair<std::string, int64_t>; ///< an object and a version
  Result<std::set<Number>> needed();
  Result<std::vector<Version>> superfluous(int64_t keep);
  Status deleteVersions(std::optional<int64_t> keep, std::vector<std::string> &deleted);
  Result<std::set<std::string>> usedFiles(int64_t &lastEvent);
  Result<std::vector<std::string>> mark(const std::vector<std::string> &unused,
                                        std::set<std::string> &used, int64_t &lastEvent);
  Status unmark(const std::vector<std::string> &removed);
  Status compareWithHistory(Verified &verified, const std::string &head);

  std::string where; ///< for people
  std::unique_ptr<Database> database;
  std::shared_ptr<BlobStore> blobs;
  Options options;
  std::string tokenName; ///< whose token it is; empty where the registry has none
  Rights rights;         ///< of the token; of an admin where the registry has none
  Event written;         ///< by the last `add`
};

/// For readVersion: of the table of versions, without their parts.
inline constexpr const char *kVersionColumns =
    "SELECT object, number, kind, hash, bytes, blob, file, created, facts, note FROM version ";
Version readVersion(const Query &query);

/// What a signature of a version says: the file, or all files of a version of several.
signing::Manifest signedOf(const Version &version);
/// TN1015.
Status noSignature(const Version &version);
/// TN1015, TN1016 unless one of the signatures, the newest first, is of somebody who is trusted.
Status requireSignature(const std::vector<std::string> &bundles, const Version &version,
                        const signing::Trust &trust);
/// The same of each signer that the terms name.
Status requireSigners(const Terms &terms, const std::vector<std::string> &bundles,
                      const Version &version);
/// TN1016 unless a signature says that it is of the version's file; whose it is stays open.
Status checkSignature(const std::string &bundle, const Version &version);

} // namespace tenon::registry
