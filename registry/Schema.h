// The tables of a registry, as SQLite takes them; PostgresDatabase puts its own types in. Versions
// and events cannot be changed through the database either.

#pragma once

namespace tenon::registry {

/// "TNRG", in the header of the database file.
inline constexpr long long kApplication = 0x544e5247;
/// Of the first registries: without the tables of format 2, and with a lock that pushes and gc take
/// (Registry.h). What needs the tables makes them, and older versions of Tenon refuse it from then
/// on, whose gc would take the files of a version of several for those of nobody.
inline constexpr long long kFirstFormat = 1;
inline constexpr long long kFormat = 2;

inline constexpr const char *kTables = R"sql(
CREATE TABLE blob (
  hash TEXT PRIMARY KEY,
  bytes INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE object (
  name TEXT PRIMARY KEY,
  kind TEXT NOT NULL,
  newest INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- The blob is empty once the version is deleted: its number is never given again.
CREATE TABLE version (
  object TEXT NOT NULL REFERENCES object (name),
  number INTEGER NOT NULL,
  kind TEXT NOT NULL,
  hash TEXT NOT NULL,
  bytes INTEGER NOT NULL,
  blob TEXT REFERENCES blob (hash),
  file TEXT NOT NULL,
  created INTEGER NOT NULL,
  facts TEXT NOT NULL,
  note TEXT NOT NULL,
  PRIMARY KEY (object, number)
) STRICT, WITHOUT ROWID;
CREATE INDEX version_by_blob ON version (blob);
CREATE INDEX version_by_hash ON version (object, hash);

CREATE TABLE alias (
  object TEXT NOT NULL,
  name TEXT NOT NULL,
  version INTEGER NOT NULL,
  PRIMARY KEY (object, name),
  FOREIGN KEY (object, version) REFERENCES version (object, number)
) STRICT, WITHOUT ROWID;

CREATE TABLE event (
  id INTEGER PRIMARY KEY,
  time INTEGER NOT NULL,
  by TEXT NOT NULL,
  action TEXT NOT NULL,
  object TEXT NOT NULL,
  version INTEGER NOT NULL,
  alias TEXT NOT NULL,
  origin INTEGER NOT NULL,
  detail TEXT NOT NULL,
  previous TEXT NOT NULL,
  hash TEXT NOT NULL
) STRICT;
CREATE INDEX event_by_object ON event (object, alias, id);

CREATE TABLE rule (
  object TEXT NOT NULL,
  alias TEXT NOT NULL,
  position INTEGER NOT NULL,
  text TEXT NOT NULL,
  PRIMARY KEY (object, alias, position)
) STRICT, WITHOUT ROWID;
)sql";

/// Tables that came after the first registries: older ones get them when they are opened.
inline constexpr const char *kLaterTables = R"sql(
CREATE TABLE IF NOT EXISTS token (
  name TEXT PRIMARY KEY,
  role TEXT NOT NULL,
  hash TEXT NOT NULL,
  created INTEGER NOT NULL,
  used INTEGER NOT NULL,
  revoked INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
)sql";

inline constexpr const char *kTablesOfFormat2 = R"sql(
-- The files of versions of several; the blob is empty once the version is deleted.
CREATE TABLE part (
  object TEXT NOT NULL,
  number INTEGER NOT NULL,
  path TEXT NOT NULL,
  hash TEXT NOT NULL,
  bytes INTEGER NOT NULL,
  blob TEXT REFERENCES blob (hash),
  PRIMARY KEY (object, number, path),
  FOREIGN KEY (object, number) REFERENCES version (object, number)
) STRICT, WITHOUT ROWID;
CREATE INDEX part_by_blob ON part (blob);

-- What gc removes at this moment, and since when (Collect.cpp). The row of the empty hash counts
-- the batches that it has removed so far.
CREATE TABLE removal (
  hash TEXT PRIMARY KEY,
  since INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
INSERT INTO removal VALUES ('', 0);
)sql";

inline constexpr const char *kSqliteRulesOfFormat2 = R"sql(
PRAGMA user_version = 2;

CREATE TRIGGER part_is_immutable BEFORE UPDATE OF object, number, path, hash, bytes ON part
BEGIN SELECT RAISE(ABORT, 'a version never changes'); END;
CREATE TRIGGER part_stays BEFORE DELETE ON part
BEGIN SELECT RAISE(ABORT, 'a version never goes'); END;
)sql";

/// What `search` reads: tags of versions that are not deleted, of which each has one with an empty
/// key for its kind, and one that is empty, and the last values that gates measured of them. Keys
/// are in the order of search, so that the newest are found first. A registry that has no such
/// tables gets them, and what belongs in them, when somebody opens it who may write.
inline constexpr const char *kSearchTables = R"sql(
CREATE TABLE tag (
  key TEXT NOT NULL,
  value TEXT NOT NULL,
  created INTEGER NOT NULL,
  object TEXT NOT NULL,
  version INTEGER NOT NULL,
  PRIMARY KEY (key, value, created, object, version)
) STRICT, WITHOUT ROWID;

CREATE TABLE metric (
  object TEXT NOT NULL,
  version INTEGER NOT NULL,
  name TEXT NOT NULL,
  created INTEGER NOT NULL,
  value REAL NOT NULL,
  PRIMARY KEY (object, version, name)
) STRICT, WITHOUT ROWID;
CREATE INDEX metric_by_name ON metric (name, created, object, version, value);
)sql";

inline constexpr const char *kSqliteRules = R"sql(
PRAGMA application_id = 1414419015;
PRAGMA user_version = 1;

CREATE TRIGGER version_is_immutable BEFORE UPDATE OF object, number, kind, hash, bytes, file, created, facts, note ON version
BEGIN SELECT RAISE(ABORT, 'a version never changes'); END;
CREATE TRIGGER version_stays BEFORE DELETE ON version
BEGIN SELECT RAISE(ABORT, 'a version never goes'); END;
CREATE TRIGGER event_is_immutable BEFORE UPDATE ON event
BEGIN SELECT RAISE(ABORT, 'the history never changes'); END;
CREATE TRIGGER event_stays BEFORE DELETE ON event
BEGIN SELECT RAISE(ABORT, 'the history never goes'); END;
)sql";

} // namespace tenon::registry
