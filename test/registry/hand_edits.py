"""Somebody edits a registry's database, its schema and its files by hand: `registry verify` finds each edit, or the database refuses it.

Edits of data are made of the schema itself, one for each column of each table; forged events follow from the ones before by their hashes,
and the tables are made to fit them.
"""

import contextlib
import hashlib
import json
import os
import pathlib
import sqlite3
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import keys  # noqa: E402
import places  # noqa: E402
import shared  # noqa: E402

TABLES = {"blob": ["hash"], "object": ["name"], "version": ["object", "number"], "alias": ["object", "name"], "event": ["id"], "rule": ["object", "alias", "position"], "token": ["name"],
          "part": ["object", "number", "path"], "removal": ["hash"], "tag": ["key", "value", "created", "object", "version"], "metric": ["object", "version", "name"]}
FREE = {("token", "used"), ("removal", "since")}  # when a token was used last, and how much gc has removed, is no event
TEXTS = ("hash", "name", "kind", "object", "blob", "file", "facts", "note", "by", "action", "alias", "detail", "previous", "text", "role", "path", "key")


EVERY = 4 if os.environ.get("TENON_ALL_EDITS", "") == "" else 1  # of those of data in PostgreSQL, which takes a second for each three


class Edits:
    """Relies on `edit`, which runs statements past the triggers, `columns` of a table, `restore`, and `schema_edits`."""

    every = 1

    def setUp(self):
        super().setUp()
        for name, size in (("small", 1000), ("fits", 5000), ("more", 6000), ("large", 20000)):
            (self.folder / f"{name}.txt").write_text(name * (size // len(name)))
        for name in ("small", "fits", "more", "large"):
            self.push("cnn", f"{name}.txt")
        self.push("data")
        (self.folder / "words").mkdir(exist_ok=True)
        for name in ("labels", "tokenizer"):
            (self.folder / "words" / f"{name}.txt").write_text(name)
        self.get("push", "words", "words", "--kind", "report")
        self.get("promote", "cnn:1", "live")
        self.get("gate", "cnn@live", "--rule", "size <= 10KiB")
        for number in (2, 3):
            self.get("gate", f"cnn:{number}", "live")
            self.get("promote", f"cnn:{number}", "live")
        self.refused("TN1007", "gate", "cnn:4", "live")
        self.get("rollback", "cnn@live")
        keys.pair(self.folder / "mine")
        self.get("gate", "cnn@safe", "--rule", "signature mine.pub.pem")
        self.get("sign", "cnn:1", "--key", "mine.pem")
        self.get("promote", "cnn:1", "safe")
        self.push("old", "a.txt")
        self.push("old", "b.txt")
        self.get("gc", "--keep", "1")
        self.root = self.get("token", "add", "root", "--role", "admin")["token"]
        for role in ("read", "push"):
            self.get("token", "add", f"a-{role}", "--role", role, token=self.root)
        self.get("token", "revoke", "a-push", token=self.root)
        self.get("token", "add", "b-push", "--role", "push", token=self.root)
        for name, *rights in (("c-space", "--role", "promote:vision/"), ("d-space", "--role", "admin:vision/"), ("e-end", "--role", "admin", "--expires", "1d")):
            self.get("token", "add", name, *rights, token=self.root)
        self.head = self.get("verify", token=self.root)["head"]
        self.keep()

    def assertFound(self, what, edit):
        try:
            edit()
            done = self.call("verify", "--head", self.head, token=self.root)
            self.assertNotEqual(0, done.returncode, f"missed: {what}")
            self.assertRegex(done.stderr, "TN1011|TN1005|TN1001|TN1014|TN0105", what)
        except sqlite3.IntegrityError:
            pass  # the database refuses it
        except subprocess.CalledProcessError as error:
            self.assertRegex(error.stderr, "violates|never change", what)
        finally:
            self.restore()
        self.count += 1

    def data_edits(self):
        for table, key in TABLES.items():
            columns = self.columns(table)
            for column in columns:
                if (table, column) not in FREE:
                    value = f'"{column}" || \'x\'' if column in TEXTS or (table, column) == ("tag", "value") else f'"{column}" + 1000'
                    yield f"{table}.{column}", f'UPDATE {table} SET "{column}" = {value}'
            yield f"rows of {table} gone", f"DELETE FROM {table}"
            first = {name: f'"{name}" || \'x\'' if name in TEXTS else f'"{name}" + 1000' for name in key[-1:]}
            names = ", ".join(f'"{name}"' for name in columns)
            values = ", ".join(first.get(name, f'"{name}"') for name in columns)
            yield f"a row more in {table}", f"INSERT INTO {table} ({names}) SELECT {values} FROM {table} LIMIT 1"
        yield "a deletion of a version", "UPDATE version SET blob = NULL WHERE object = 'cnn' AND number = 1"
        yield "a deleted version comes back", "UPDATE version SET blob = hash WHERE object = 'old' AND number = 1"
        yield "a revoked token is good again", "UPDATE token SET revoked = 0"
        yield "the last events gone", "DELETE FROM event WHERE id > 12"
        yield "an event gone", "DELETE FROM event WHERE id = 7"

    def forge(self, action, version, *, name="cnn", alias="", origin=0, detail=None, by="root", more="", after=5):
        """Appends an event that follows from the one before, and what makes the tables fit."""
        number, time, previous = self.rows('SELECT id, time, hash FROM event ORDER BY id DESC LIMIT 1')[0]
        text = json.dumps(detail or {}, separators=(",", ":"))
        parts = [int(number) + 1, int(time) + after, by, action, name, version, alias, origin, text, previous]
        digest = hashlib.sha256(json.dumps(parts, separators=(",", ":")).encode()).hexdigest()
        values = ", ".join(str(part) if isinstance(part, int) else "'" + part.replace("'", "''") + "'" for part in (*parts, digest))
        self.edit(f'INSERT INTO event (id, time, "by", action, object, version, alias, origin, detail, previous, hash) VALUES ({values}); {more}')

    def forged_events(self):
        to = lambda version: f"UPDATE alias SET version = {version} WHERE object = 'cnn' AND name = 'live'"
        live = {"alias": "live", "detail": {"reason": ""}}
        figures = json.loads(self.rows("SELECT detail FROM event WHERE action = 'gate' ORDER BY id DESC LIMIT 1")[0][0])
        passed = dict(figures, verdict="passed", champion=2)
        pushed = json.loads(self.rows("SELECT detail FROM event WHERE action = 'push' AND object = 'cnn' ORDER BY id DESC LIMIT 1")[0][0])
        yield "a promotion that the gate refused", lambda: self.forge("promote", 4, origin=2, more=to(4), **live)
        yield "a promotion to what never was", lambda: self.forge("promote", 77, origin=2, more=to(77), **live)
        yield "a promotion of what gc deleted", lambda: self.forge("promote", 1, name="old", more="INSERT INTO alias VALUES ('old', 'live', 1)", **live)
        yield "a promotion of what nobody signed", lambda: self.forge("promote", 2, alias="safe", origin=1, detail=live["detail"], more="UPDATE alias SET version = 2 WHERE name = 'safe'")
        key = json.loads(self.rows("SELECT detail FROM event WHERE action = 'rules' AND alias = 'safe'")[0][0])["rules"][0]
        other = key[:-10] + key[-10:].swapcase()
        yield "a rule of a key that is none", lambda: self.forge("rules", 0, alias="safe", detail={"rules": [other]}, more=f"UPDATE rule SET text = '{other}' WHERE alias = 'safe'")
        for rules in (["loads"], ["loads", "machine = this"]):
            yield "a rule to load what is no engine", lambda rules=rules: self.forge("rules", 0, alias="other", detail={"rules": rules}, more=" ".join(
                f"INSERT INTO rule VALUES ('cnn', 'other', {index}, '{text}');" for index, text in enumerate(rules)))
        yield "a promotion from elsewhere", lambda: self.forge("promote", 3, origin=1, more=to(3), **live)
        yield "a rollback to where it never was", lambda: self.forge("rollback", 3, origin=2, more=to(3), **live)
        for who in ("stranger", "a-read", "a-push", "b-push"):
            yield f"a rollback by {who}", lambda who=who: self.forge("rollback", 1, origin=2, more=to(1), by=who, **live)
        for who, after in (("c-space", 5), ("d-space", 5), ("e-end", 86_400_001)):
            yield f"a rollback by {who}", lambda who=who, after=after: self.forge("rollback", 1, origin=2, more=to(1), by=who, after=after, **live)
        yield "a gate whose verdict is not its figures'", lambda: self.forge("gate", 4, alias="live", detail=passed)
        yield "a gate beside another champion", lambda: self.forge("gate", 4, alias="live", detail=dict(figures, champion=3))
        yield "a gate without figures", lambda: self.forge("gate", 4, alias="live", detail=dict(passed, figures=[]))
        yield "rules by whoever pushes", lambda: self.forge("rules", 0, alias="live", by="b-push", detail={"rules": []}, more="DELETE FROM rule")
        yield "the deletion of what is live", lambda: self.forge("delete", 2, more="UPDATE version SET blob = NULL WHERE object = 'cnn' AND number = 2")
        yield "a deletion by whoever pushes", lambda: self.forge("delete", 3, by="b-push", more="UPDATE version SET blob = NULL WHERE object = 'cnn' AND number = 3")
        yield "a deletion twice", lambda: self.forge("delete", 1, name="old")
        yield "a number left out", lambda: self.forge("push", 6, detail=pushed)
        yield "a push of another kind", lambda: self.forge("push", 5, detail=dict(pushed, kind="engine"))
        yield "a token by whoever pushes", lambda: self.forge("token", 0, name="", by="b-push", detail={"name": "x", "role": "admin", "hash": "0", "created": 1}, more="INSERT INTO token VALUES ('x', 'admin', '0', 1, 0, 0)")
        yield "a token beyond the namespace of its maker", lambda: self.forge("token", 0, name="", by="d-space", detail={"name": "x", "role": "read", "hash": "0", "created": 1}, more="INSERT INTO token VALUES ('x', 'read', '0', 1, 0, 0)")
        yield "a deletion by an admin of its namespace", lambda: self.forge("delete", 3, by="d-space", more="UPDATE version SET blob = NULL WHERE object = 'cnn' AND number = 3")
        yield "a token twice", lambda: self.forge("token", 0, name="", detail={"name": "root", "role": "read", "hash": "0", "created": 1})
        yield "a revocation of what never was", lambda: self.forge("revoke", 0, name="", detail={"name": "x"})
        yield "a signature of what never was", lambda: self.forge("sign", 77, detail={"bundle": "{}"})
        yield "a tag of what never was", lambda: self.forge("tag", 77, detail={"tags": {"a": "b"}})
        yield "a tag by whoever reads", lambda: self.forge("tag", 1, by="a-read", detail={"tags": {"a": "b"}})
        yield "an unknown action", lambda: self.forge("bless", 1)

    def file_edits(self):
        files = sorted(self.stored(row[0]) for row in self.rows("SELECT hash FROM blob"))
        changed = lambda path, content: (path.chmod(0o644), path.write_bytes(content))
        yield "a byte of a file", lambda: changed(files[0], b"x" + files[0].read_bytes()[1:])
        yield "the end of a file", lambda: changed(files[1], files[1].read_bytes()[:-1])
        yield "more of a file", lambda: changed(files[0], files[0].read_bytes() + b"x")
        yield "nothing in a file", lambda: changed(files[1], b"")
        yield "a file gone", lambda: files[0].unlink()
        yield "a file in another's place", lambda: changed(files[0], files[1].read_bytes())

    def test_edits(self):
        self.count = 0
        for what, statement in list(self.data_edits())[:: self.every]:
            self.assertFound(what, lambda: self.edit(statement))
        for what, edit in self.forged_events():
            self.assertFound(what, edit)
        for what, edit in self.file_edits():
            self.assertFound(what, edit)
        for what, statement in self.schema_edits():
            self.assertFound(what, lambda: self.sql(statement))
        self.assertEqual([], self.get("verify", "--head", self.head, token=self.root)["problems"], "restored")
        self.assertGreaterEqual(self.count, 90 if self.every == 1 else 40)
        print(f"{self.count} edits", file=sys.stderr)


class Folder(Edits, places.InFolder, unittest.TestCase):
    def keep(self):
        self.whole = {path: path.read_bytes() for path in self.registry.rglob("*") if path.is_file()}

    def restore(self):
        for path in self.registry.glob("registry.db-*"):
            path.unlink()
        for path, content in self.whole.items():
            if not path.exists() or path.read_bytes() != content:
                path.unlink(missing_ok=True)
                path.write_bytes(content)

    def rows(self, query):
        with contextlib.closing(sqlite3.connect(self.registry / "registry.db")) as database:
            return database.execute(query).fetchall()

    def columns(self, table):
        return [row[1] for row in self.rows(f"PRAGMA table_info({table})")]

    def edit(self, statements):
        with contextlib.closing(sqlite3.connect(self.registry / "registry.db")) as database:
            triggers = database.execute("SELECT name, sql FROM sqlite_schema WHERE type = 'trigger'").fetchall()
            database.executescript("".join(f"DROP TRIGGER {name};" for name, _ in triggers) + statements + ";" + "".join(f"{sql};" for _, sql in triggers))

    def schema_edits(self):
        for trigger, text in self.rows("SELECT name, sql FROM sqlite_schema WHERE type = 'trigger'"):
            yield f"{trigger} gone", f"DROP TRIGGER {trigger}"
        yield "a trigger that Tenon did not make", "CREATE TRIGGER hides AFTER INSERT ON event BEGIN DELETE FROM rule; END"
        yield "a view", "CREATE VIEW production AS SELECT * FROM alias"
        yield "an index gone", "DROP INDEX version_by_blob"
        yield "a column more", "ALTER TABLE alias ADD COLUMN weight INTEGER"
        yield "a column of another name", "ALTER TABLE rule RENAME COLUMN text TO words"


@unittest.skipIf(shared.missing(), shared.missing())
class Shared(Edits, places.InServers, unittest.TestCase):
    every = EVERY

    def keep(self):
        self.sql("CREATE SCHEMA whole; " + " ".join(f"CREATE TABLE whole.{table} AS TABLE {table};" for table in TABLES))
        self.whole = {path: path.read_bytes() for path in (self.servers.store.bucket / self.name).iterdir()}

    def restore(self):
        definitions = self.UNDO.pop("", "")
        self.sql(f"{definitions} SET session_replication_role = replica; " + " ".join(f"DELETE FROM {table}; INSERT INTO {table} SELECT * FROM whole.{table};" for table in TABLES))
        for path, content in self.whole.items():
            if not path.exists() or path.read_bytes() != content:
                path.write_bytes(content)

    UNDO = {}  # what undoes the definition that was edited

    def rows(self, query):
        return [line.split("|") for line in self.sql(query).splitlines()]

    def columns(self, table):
        return [row[0] for row in self.rows(f"SELECT column_name FROM information_schema.columns WHERE table_schema = '{self.name}' AND table_name = '{table}' ORDER BY ordinal_position")]

    def edit(self, statements):
        self.sql(f"SET session_replication_role = replica; {statements}")

    def schema_edits(self):
        for trigger, table in self.rows(f"SELECT DISTINCT tgname, tgrelid::regclass FROM pg_trigger WHERE tgfoid = '{self.name}.never_changes'::regproc"):
            self.UNDO[""] = f"ALTER TABLE {table} ENABLE TRIGGER {trigger};"
            yield f"{trigger} is off", f"ALTER TABLE {table} DISABLE TRIGGER {trigger}"
        body = "BEGIN RAISE EXCEPTION 'versions and the history never change'; END"
        for what, statement, undo in (
                ("a trigger that does nothing", "CREATE OR REPLACE FUNCTION never_changes() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END'",
                 f"CREATE OR REPLACE FUNCTION never_changes() RETURNS trigger LANGUAGE plpgsql AS $${body}$$;"),
                ("a key gone", "ALTER TABLE rule DROP CONSTRAINT rule_pkey", "ALTER TABLE rule ADD PRIMARY KEY (object, alias, position);"),
                ("a reference gone", "ALTER TABLE version DROP CONSTRAINT version_blob_fkey", "ALTER TABLE version ADD FOREIGN KEY (blob) REFERENCES blob (hash);"),
                ("a column that may be null", "ALTER TABLE version ALTER COLUMN note DROP NOT NULL", "ALTER TABLE version ALTER COLUMN note SET NOT NULL;"),
                ("a view", "CREATE VIEW production AS SELECT * FROM alias", "DROP VIEW production;")):
            self.UNDO[""] = undo
            yield what, statement


if __name__ == "__main__":
    unittest.main()
