"""PostgreSQL and an object store of a test's own, each behind a proxy that fails as it is told. PostgreSQL is Debian's, on a Unix
socket in a temporary folder, as another user where this is root; the store is rclone's S3 of .venv-registry, which checks signatures.
"""

import http.client
import http.server
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import time

SOURCE = pathlib.Path(os.environ.get("TENON_SOURCE_DIR", "."))
RCLONE = SOURCE / ".venv-registry/bin/rclone"
PROGRAMS = sorted(pathlib.Path("/usr/lib/postgresql").glob("*/bin"))
KEY, SECRET = "test-key", "test-secret"


def missing():
    """What is not installed here; empty where all is."""
    return "no PostgreSQL" if not PROGRAMS else "no .venv-registry (scripts/setup.sh registry)" if not RCLONE.exists() else ""


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def wait_until(condition, what, seconds=30):
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            raise AssertionError(f"{what} did not come")
        time.sleep(0.02)


class Postgres:
    """A server with the superuser `tenon` and the database `registry`; ends with `close`."""

    def __init__(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="pg-"))
        self.user = "postgres" if os.getuid() == 0 else None
        if self.user:
            shutil.chown(self.folder, self.user, self.user)
        self.folder.chmod(0o755)
        self.data, self.log_writer = self.folder / "data", None
        self.program("initdb", "-D", self.data, "-A", "trust", "-U", "tenon", "-E", "UTF8", "--locale=C", "--no-sync")
        self.start()
        self.sql("CREATE DATABASE registry", database="postgres")

    def program(self, name, *arguments):
        more = {"user": self.user, "group": self.user, "extra_groups": []} if self.user else {}
        subprocess.run([PROGRAMS[-1] / name, *map(str, arguments)], check=True, stdout=subprocess.DEVNULL, cwd=self.folder, **more)

    def start(self):
        # Without what a registry must ask for itself: a commit that waits for the disk. Nothing else writes its log on the way.
        self.program("pg_ctl", "-D", self.data, "-l", self.folder / "log", "-w", "-s", "-o",
                     f"-k {self.folder} -c listen_addresses= -c shared_buffers=32MB -c synchronous_commit=off -c wal_writer_delay=10s "
                     "-c wal_buffers=16MB -c bgwriter_lru_maxpages=0 -c autovacuum=off -c recovery_init_sync_method=syncfs", "start")

    def hold_log(self):
        """Until `stop` only a commit that waits for the disk comes to it."""
        self.log_writer = int(self.sql("SELECT pid FROM pg_stat_activity WHERE backend_type = 'walwriter'"))
        os.kill(self.log_writer, signal.SIGSTOP)

    def stop(self, mode="immediate"):
        self.program("pg_ctl", "-D", self.data, "-m", mode, "-W", "-s", "stop")
        if self.log_writer:  # the first that it does when it goes on is to end
            os.kill(self.log_writer, signal.SIGQUIT)
            os.kill(self.log_writer, signal.SIGCONT)
            self.log_writer = None
        wait_until(lambda: not (self.data / "postmaster.pid").exists(), "the end of PostgreSQL", 60)

    def sql(self, text, database="registry", user="tenon"):
        """What psql prints; CalledProcessError where the server refuses."""
        done = subprocess.run([PROGRAMS[-1] / "psql", "-h", self.folder, "-U", user, "-d", database, "-qAt", "-v", "ON_ERROR_STOP=1", "-c", text],
                              capture_output=True, text=True, check=True, env=dict(os.environ, PGOPTIONS="-c search_path=tenon"))
        return done.stdout.strip()

    def url(self, query, folder=None, user="tenon"):
        return f"postgresql://{user}@/registry?host={folder or self.folder}&{query}"

    def close(self):
        if (self.data / "postmaster.pid").exists():
            self.stop()
        shutil.rmtree(self.folder)


class PostgresProxy:
    """A socket before PostgreSQL's. `cut` is "" or, once, "before" or "after": the connection ends when a client says COMMIT, before
    the server hears it, or after it has done it. `late` plants a fault: commits are acknowledged before they are on the disk."""

    def __init__(self, postgres, late=False):
        self.folder, self.target, self.cut, self.late = pathlib.Path(tempfile.mkdtemp(prefix="pgp-")), str(postgres.folder / ".s.PGSQL.5432"), "", late
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.bind(str(self.folder / ".s.PGSQL.5432"))
        self.socket.listen()
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            try:
                client, _ = self.socket.accept()
                server = socket.socket(socket.AF_UNIX)
                server.connect(self.target)
            except OSError:
                client.close() if "client" in locals() else None
                if self.socket.fileno() < 0:
                    return
                continue
            state = {"mute": False}
            threading.Thread(target=self.pump, args=(client, server, True, state), daemon=True).start()
            threading.Thread(target=self.pump, args=(server, client, False, state), daemon=True).start()

    def pump(self, source, target, is_client, state):
        try:
            while data := source.recv(1 << 16):
                if is_client and self.cut and b"COMMIT\0" in data:
                    cut, self.cut = self.cut, ""
                    state["mute"] = True
                    if cut == "after":
                        target.sendall(data)
                        time.sleep(0.3)
                    break
                if is_client and self.late:
                    data = data.replace(b"'synchronous_commit', 'on', false", b"'synchronous_commit','off', false")
                if is_client or not state["mute"]:
                    target.sendall(data)
        except OSError:
            pass
        for each in (source, target):
            try:
                each.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
        source.close()

    def close(self):
        self.socket.close()
        shutil.rmtree(self.folder)


class ObjectStore:
    """rclone's S3 with the bucket `models`, whose objects are files of `bucket`. Its cache of folders is short because tests change those
    files; with a cache of no time at all rclone keeps a core busy."""

    def __init__(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="s3-"))
        self.bucket = self.folder / "models"
        self.bucket.mkdir()
        self.port = free_port()
        self.process = subprocess.Popen([RCLONE, "serve", "s3", self.folder, "--addr", f"127.0.0.1:{self.port}", "--auth-key", f"{KEY},{SECRET}", "--config", "/dev/null",
                                         "--vfs-cache-mode", "off", "--dir-cache-time", "10ms"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        wait_until(self.answers, "the object store")

    def answers(self):
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", self.port)) == 0

    def close(self):
        self.process.kill()
        self.process.wait()
        shutil.rmtree(self.folder)


class ObjectProxy(http.server.ThreadingHTTPServer):
    """Before the object store. `faults` are taken one a request that has a key, the last one again and again where `stays`:

    None: none; a number: that status, with an error as S3 has it; "cut": the connection ends; "short": half the body; "wrong": other bytes;
    "slow": a pause of two seconds first; "held": the request waits until `release` is set; "gone": it waits so, then the connection ends; "old": uploads that have not ended were begun years ago. `pause` comes before each request, in seconds.
    """

    daemon_threads = True

    def __init__(self, store):
        super().__init__(("127.0.0.1", 0), ObjectRequest)
        self.store, self.faults, self.stays, self.requests, self.ranges, self.pause = store, [], False, [], [], 0
        self.release = threading.Event()
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def fault(self):
        if not self.faults:
            return None
        return self.faults[0] if self.stays else self.faults.pop(0)

    def environment(self):
        return {"AWS_ENDPOINT_URL": f"http://127.0.0.1:{self.server_port}", "AWS_ACCESS_KEY_ID": KEY, "AWS_SECRET_ACCESS_KEY": SECRET, "AWS_REGION": "us-east-1"}

    def close(self):
        self.shutdown()
        self.server_close()


class ObjectRequest(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def handle(self):
        try:
            super().handle()
        except ConnectionError:
            pass  # the client was killed

    def answer(self):
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.server.requests.append((self.command, self.path))
        self.server.ranges.append((self.command, self.path, self.headers.get("Range")))
        fault = self.server.fault()
        if fault in ("cut", "gone"):
            if fault == "gone":
                self.server.release.wait()
            self.close_connection = True
            return
        if isinstance(fault, int):
            self.reply(fault, f"<?xml version='1.0'?><Error><Code>Fault{fault}</Code><Message>planted</Message></Error>".encode())
            return
        time.sleep(2 if fault == "slow" else self.server.pause)
        if fault == "held":
            self.server.release.wait()
        # The signature is of the name that the client knows.
        connection = http.client.HTTPConnection("127.0.0.1", self.server.store.port)
        connection.putrequest(self.command, self.path, skip_host=True, skip_accept_encoding=True)
        for name, value in self.headers.items():
            connection.putheader(name, value)
        connection.endheaders(body)
        answer = connection.getresponse()
        content = answer.read()
        connection.close()
        if fault == "wrong":
            content = bytes(byte ^ 1 for byte in content)
        if fault == "old":
            content = re.sub(rb"<Initiated>\d+", b"<Initiated>2001", content)
        self.reply(answer.status, content, len(content) // 2 if fault == "short" else None, answer.headers)

    def reply(self, status, content, most=None, headers=None):
        self.send_response(status)
        for name in ("ETag", "Content-Range"):
            if headers and headers[name]:
                self.send_header(name, headers[name])
        if self.command == "HEAD" and headers and headers["Content-Length"]:
            self.send_header("Content-Length", headers["Content-Length"])
            self.end_headers()
            return
        if status != 204:
            self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content[:most])
        if most is not None:
            self.close_connection = True

    do_GET = do_PUT = do_DELETE = do_HEAD = do_POST = answer


class Shared:
    """All four, and what a client needs: `environment`, and `url` of a registry with a schema and a prefix of its own."""

    def __init__(self):
        self.postgres = Postgres()
        self.database_proxy = PostgresProxy(self.postgres)
        self.store = ObjectStore()
        self.proxy = ObjectProxy(self.store)
        self.environment = self.proxy.environment()

    def query(self, name):
        return f"schema={name}&blobs=s3://models/{name}"

    def close(self):
        for each in (self.proxy, self.store, self.database_proxy, self.postgres):
            each.close()
