"""The page of `tenon serve` in a real browser: what it shows, with keys alone, narrow, dark, behind a token, and with hostile text; then
promotions and rollbacks over a registry.
"""

import contextlib
import http.server
import json
import os
import pathlib
import subprocess
import sys
import threading
import time
import unittest
import urllib.parse

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "e2e"))
import browser  # noqa: E402
from server import CNN, SOURCE, TENON, Server, ServingTest, compile_cnn  # noqa: E402
from traffic import SIZE, write_version  # noqa: E402

HOSTILE = "<img src=x onerror=window.broken=1>\u202eevil"
TOKENS = {"infer": "i" * 16, "read": "r" * 16, "admin": "a" * 16}
MISSING = "Failed to load resource: the server responded with a status of 404 (Not Found)"  # of drift, where no model is monitored
FOCUSED = "document.activeElement.id || document.activeElement.className || document.activeElement.tagName"


@contextlib.contextmanager
def other_site():
    """A server of an empty page: its port, and the paths that it was asked for."""
    asked = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            asked.append(self.path)
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.end_headers()
            self.wfile.write(b"<!DOCTYPE html><link rel=icon href='data:,'>")

        def log_message(self, *_):
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield server.server_address[1], asked
        finally:
            server.shutdown()


class PageTest(ServingTest):
    address = ""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.browser = browser.Browser()
        cls.addClassCleanup(cls.browser.__exit__)

    def open(self, server, width=1280, dark=False):
        self.browser.resize(width, 800, dark)
        self.browser.errors.clear()
        self.browser.requests.clear()
        self.address = f"http://127.0.0.1:{server.port}/"
        self.browser.open(self.address)

    def tearDown(self):
        self.assertEqual([], [error for error in self.browser.errors if error != MISSING])
        self.assertEqual([], [address for address in self.browser.requests if not address.startswith(self.address)])
        if os.environ.get("TENON_SCREENSHOTS"):
            self.browser.screenshot(pathlib.Path(os.environ["TENON_SCREENSHOTS"]) / f"{self.id().split('.')[-1]}.png")

    def see(self, expression):
        return self.browser.evaluate(expression)

    def text(self, selector):
        """As it is shown: nothing of what is hidden."""
        return self.see(f"(() => {{ const element = document.querySelector({json.dumps(selector)}); return element?.checkVisibility() ? element.innerText : ''; }})()")

    def await_text(self, selector, part, seconds=60):
        end = time.monotonic() + seconds
        while part not in self.text(selector):
            if time.monotonic() > end:
                self.fail(f"{selector} has no '{part}' but: {self.text(selector)}")
            time.sleep(0.05)

    def choose(self, selector, value, event="change"):
        self.see(f"(() => {{ const element = document.querySelector({json.dumps(selector)}); element.value = {json.dumps(value)}; element.dispatchEvent(new Event('{event}')); }})()")

    def tab_to(self, selector, most=60, shift=False):
        """Presses Tab until that has the focus, which is seen; gives what had it in between."""
        passed = []
        while not self.see(f"document.activeElement.matches({json.dumps(selector)})"):
            self.assertLess(len(passed), most, f"Tab does not come to {selector}: {passed}")
            self.browser.press("Tab", shift)
            passed.append(self.see(FOCUSED))
            self.assertIn("solid", self.see("getComputedStyle(document.activeElement).outlineStyle"), passed)
        return passed


class Shown(PageTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        (cls.folder / "models/broken.tenon").write_bytes(b"no engine")
        cls.server = Server(cls.folder / "models", "--memory-budget", 1 << 30, waits=False).__enter__()
        cls.addClassCleanup(cls.server.__exit__)
        cls.server.wait_until(lambda: cls.server.get("/v2/models/cnn/ready")[0] == 200)

    def status(self):
        return json.loads(self.server.get("/v2/tenon/status")[1])

    def test_content(self):
        self.open(self.server)
        self.await_text("#state", "not ready")
        self.await_text("#model-rows", "not ready")
        self.assertIn("TN0", self.text("#model-rows td small"))  # those that are not ready come first
        self.assertEqual("ready", self.text('[data-key="cnn/1"] .chip').strip())
        before = self.status()["models"]["cnn"]["versions"]["1"]
        for _ in range(30):
            self.assertEqual(200, self.server.infer()[0])
        self.assertEqual(400, self.server.post("/v2/models/cnn/infer", {"inputs": []})[0])
        self.await_text("#tiles", f"{before['ok'] + 30:,} answered")
        self.await_text("#tiles", f"{before['failed']} failed")  # that was the client's
        self.assertIn("1 GiB", self.text("#tiles"))
        row = self.text('[data-key="cnn/1"]').split()
        self.assertIn("100", row)
        self.assertRegex(" ".join(row), r"(KiB|MiB)$")
        for stage in ("queue", "copy_in", "compute", "copy_out"):
            figure = f'[data-key="{stage}"]'
            self.assertRegex(self.text(f"{figure} .p99 b"), r"^[\d.]+ (µs|ms|s)$", stage)
            self.assertTrue(self.see(f"document.querySelector('{figure} path.p50').getAttribute('d')"), stage)
            self.assertRegex(self.see(f"document.querySelector('{figure} svg').getAttribute('aria-label')"), r"p50 [\d.]+ ")
        self.await_text("#errors", "TN0807")
        self.assertIn("model 'broken' version 1", self.text("#errors"))
        self.assertIn("cnn", self.text("#errors"))
        self.assertEqual("", self.text("#registry"), "the models come from a folder")

    def test_quantiles(self):
        """Those of the page against durations that are known; a histogram alone would tell 250 to 500."""
        self.open(self.server)
        self.browser.open("about:blank")
        source = "".join((SOURCE / f"server/page/static/{name}.js").read_text() for name in ("elements", "samples"))
        self.assertEqual([375, 497.5, None, None, 500], self.see(source + """
            samples.bounds = [50, 100, 250, 500];
            [quantile([0, 0, 0, 100, 0], [], 0.5), quantile([10, 0, 0, 100, 0], [10, 0, 0, 0, 0], 0.99), quantile([5, 0, 0, 0, 0], [5], 0.5), quantile([], [], 0.5), quantile([0, 0, 0, 0, 3], [], 0.5)]"""))
        self.browser.requests.clear()

    def test_status(self):
        """The counters of the page are those of the metrics."""
        self.server.infer()
        info = self.status()
        version = info["models"]["cnn"]["versions"]["1"]
        self.assertEqual(self.server.metric("tenon_requests_total", 'model="cnn",version="1",outcome="ok"'), version["ok"])
        for name in ("request", "queue", "copy_in", "compute", "copy_out"):
            self.assertEqual((len(info["bounds_us"]) + 1, version["ok"]), (len(version[name]), sum(version[name])), name)
        self.assertEqual(self.server.metric("tenon_model_bytes"), version["bytes"])
        self.assertEqual([], info["models"]["broken"]["versions"]["1"]["request"])
        self.assertLessEqual({"cnn", "broken"}, {row["name"] for row in info["index"]})

    def test_last_errors_are_bounded(self):
        for i in range(100):
            self.server.infer(f"none{i}")
        for _ in range(5):
            self.server.infer("none99")
        # No operation, and what is only asked for, are not noted.
        for path in ["/nothing", "/v2/models/none/ready", "/v2/models/cnn/drift", "/v2/tenon/models/cnn/history"]:
            self.assertIn(self.server.get(path)[0], (404, 501))
        errors = self.status()["errors"]
        self.assertEqual((64, "TN0810", "none99", 6), (len(errors), errors[0]["code"], errors[0]["model"], errors[0]["count"]))
        self.assertEqual(sorted((error["time"] for error in errors), reverse=True), [error["time"] for error in errors])
        self.server.infer("x" * 700)
        self.assertLess(len(self.status()["errors"][0]["message"]), 1001)

    def test_hostile_text(self):
        self.open(self.server, width=400)
        self.server.infer(urllib.parse.quote(HOSTILE, safe=""))
        self.await_text("#errors", "<img src=x onerror")
        self.assertEqual(0, self.see("document.querySelectorAll('main img').length"))
        self.assertTrue(self.see("window.broken === undefined"))
        self.assertIn("\\u202Eevil", self.text("#errors"))
        self.assertNotIn("\u202e", self.see("document.body.textContent"))
        self.assertLessEqual(self.see("document.documentElement.scrollWidth"), 400)
        # Even where a script would try: the browser refuses markup, scripts in the page and other origins.
        self.assertIn("TrustedHTML", self.see("try { document.body.innerHTML = 'x'; 'done' } catch (error) { error.message }"))
        self.see("document.head.append(Object.assign(document.createElement('style'), {textContent: 'body { color: red }'}))")
        self.assertNotEqual("rgb(255, 0, 0)", self.see("getComputedStyle(document.body).color"))
        with other_site() as (port, asked):
            self.assertEqual("refused", self.see(f"fetch('http://127.0.0.1:{port}/', {{mode: 'no-cors'}}).then(() => 'sent', () => 'refused')"))
            self.assertEqual([], asked)
        self.assertTrue(any("Content Security Policy" in error for error in self.browser.errors))
        self.browser.errors.clear()
        self.browser.requests.clear()

    def test_narrow_and_dark(self):
        seen = {}
        for width, dark in ((400, False), (400, True), (1280, True)):
            self.open(self.server, width, dark)
            self.await_text("#model-rows", "cnn")
            self.assertLessEqual(self.see("document.documentElement.scrollWidth"), width)
            seen[dark] = self.see("getComputedStyle(document.body).backgroundColor")
            self.assertGreater(self.see(CONTRAST), 4.5)
        self.assertEqual({False: "rgb(245, 246, 249)", True: "rgb(20, 23, 29)"}, seen)
        self.see("document.getElementById('info').style.minWidth = '1500px'")
        self.assertGreater(self.see("document.documentElement.scrollWidth"), 1280, "what is too wide would be seen")

    def test_keys(self):
        self.open(self.server)
        self.await_text("#model-rows", "cnn")
        self.assertEqual(["skip", "pause", "chosen"], self.tab_to("#chosen"))
        self.tab_to("#errors")
        self.tab_to("#pause", shift=True)
        self.browser.press("Enter")
        self.assertEqual("true", self.see("document.getElementById('pause').getAttribute('aria-pressed')"))
        counts = []
        for seconds in (0.5, 2.5):
            time.sleep(seconds)
            self.browser.settle()
            counts.append(len(self.browser.requests))
        self.assertEqual(counts[0], counts[1], "it is paused")
        self.browser.press("Enter")
        time.sleep(0.5)
        self.browser.settle()
        self.assertLess(counts[1], len(self.browser.requests))

    def test_names_for_screen_readers(self):
        self.open(self.server)
        self.await_text("#model-rows", "cnn")
        nodes = [node for node in self.browser.call("Accessibility.getFullAXTree")["nodes"] if not node["ignored"]]
        roles = {}
        for node in nodes:
            roles.setdefault(node["role"]["value"], []).append(node.get("name", {}).get("value", ""))
        for role in ("button", "combobox", "region", "image", "table", "columnheader", "heading", "main", "banner"):
            self.assertIn(role, roles)
        nameless = {role: names for role, names in roles.items() if role in ("button", "combobox", "searchbox", "textbox", "region", "image", "table", "heading") and not all(names)}
        self.assertEqual({}, nameless)
        self.assertTrue({"Models", "Latency by stage", "Last errors"} <= set(roles["region"]), roles["region"])
        self.assertIn("cnn", roles["rowheader"])
        self.assertEqual("polite", self.see("document.getElementById('said').ariaLive"))

    def test_motion(self):
        moving = "[...document.querySelectorAll('*')].filter((each) => parseFloat(getComputedStyle(each).transitionDuration) > 0 || getComputedStyle(each).animationName !== 'none').length"
        self.open(self.server)
        self.assertGreater(self.see(moving), 0)
        self.browser.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-reduced-motion", "value": "reduce"}])
        self.assertEqual(0, self.see(moving))

    def test_drift(self):
        """Where the server has that route and a model is monitored."""
        info = {"rows": 1200, "drift": True, "features": [{"feature": "image[<b>]", "psi": 0.42, "psi_threshold": 0.03, "ks": None, "ks_threshold": None, "missing": 2, "out_of_range": 3, "drift": True},
                                                           {"feature": "other", "psi": 0.01, "psi_threshold": 0.03, "ks": 0.02, "ks_threshold": 0.05, "missing": 0, "out_of_range": 0, "drift": False}]}
        script = self.browser.call("Page.addScriptToEvaluateOnNewDocument", source=f"""
            const real = window.fetch, info = {json.dumps(json.dumps(info))};
            const answer = (path) => path.includes("/cnn/") ? new Response(info) : new Response('{{"error": "TN0810: it is not monitored"}}', {{status: 404}});
            window.fetch = (path, ...more) => path.endsWith("/drift") ? Promise.resolve(answer(path)) : real(path, ...more);""")
        try:
            self.open(self.server)
            self.await_text("#drift", "1 of 2 features in 1,200 rows")
            self.assertIn("PSI 0.42 (limit 0.03) · KS – · missing 2 · out of range 3", self.text("#drift"))
            self.assertIn("image[<b>]", self.text("#drift"))
            self.assertEqual(1, self.see("document.querySelectorAll('#drift-models > div').length"))
        finally:
            self.browser.call("Page.removeScriptToEvaluateOnNewDocument", identifier=script["identifier"])
        self.open(self.server)
        self.await_text("#model-rows", "cnn")
        self.assertEqual("", self.text("#drift"))

    def test_other_sites(self):
        """A page elsewhere has its browser send what it cannot read the answer of."""
        unload = f"fetch('http://127.0.0.1:{self.server.port}/v2/repository/models/other/unload', {{method: 'POST', mode: 'no-cors'}}).then((answer) => answer.status)"
        compile_cnn(self.folder / "models/other.tenon")
        self.server.post("/v2/repository/models/other/load")
        self.server.wait_until(lambda: self.server.state("other") == "READY")
        with other_site() as (port, asked):
            for host in ("127.0.0.1", "localhost"):
                self.browser.open(f"http://{host}:{port}/")
                self.assertEqual(0, self.see(unload), "its answer is not to be read")
                self.assertEqual("READY", self.server.state("other"))
            self.browser.open(f"http://127.0.0.1:{port}/")
            frame = self.see(f"new Promise((done) => {{ const frame = document.createElement('iframe'); frame.src = 'http://127.0.0.1:{self.server.port}/'; frame.onload = () => done(frame.contentDocument); document.body.append(frame); }})")
            self.assertIsNone(frame)
            self.assertTrue(any("frame-ancestors" in error for error in self.browser.errors), self.browser.errors)
            self.assertEqual(["/"] * 3, asked)
        self.open(self.server)
        self.assertEqual(200, self.see(unload), "the same of the server's own page")
        self.server.wait_until(lambda: self.server.state("other") == "UNAVAILABLE")
        (self.folder / "models/other.tenon").unlink()

    def test_server_that_goes(self):
        with Server(self.folder / "models", waits=False) as server:
            self.open(server)
            self.await_text("#model-rows", "cnn")
            self.assertIn("1 at work", self.text("#tiles"))
            os.kill(server.worker(), 9)
            self.await_text("#tiles", "and started again")
        self.await_text("#state", "cannot be reached")
        self.assertIn("cannot be reached", self.see("document.getElementById('said').textContent"))
        self.browser.open("about:blank")
        self.browser.errors.clear()
        self.browser.requests.clear()


# The least contrast of text with what is behind it. Source: WCAG 2.2, relative luminance and contrast ratio.
CONTRAST = """(() => {
  const parse = (color) => color.match(/[\\d.]+/g).map(Number);
  const light = (color) => { const [r, g, b] = parse(color).map((part) => (part /= 255) <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4); return 0.2126 * r + 0.7152 * g + 0.0722 * b; };
  const behind = (each) => { const color = getComputedStyle(each).backgroundColor; return parse(color)[3] === 0 && each.parentElement ? behind(each.parentElement) : color; };
  const ratios = [...document.querySelectorAll("body *")].filter((each) => each.checkVisibility() && [...each.childNodes].some((node) => node.nodeType === 3 && node.data.trim())).map((each) => {
    const [a, b] = [light(getComputedStyle(each).color), light(behind(each))];
    return (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
  });
  return Math.min(...ratios);
})()"""


class Many(PageTest):
    def test_split_and_shadow(self):
        for version, factor in ((1, 2.0), (2, 2.0), (3, 2.5)):
            write_version(self.folder / f"split/m/{version}/model.tenon", factor)
        (self.folder / "split/m/config.pbtxt").write_text("version_policy { all { } }\n")
        with Server(self.folder / "split") as server:
            server.post("/v2/repository/models/m/traffic", {"weights": {"1": 90, "2": 10}, "shadow": "3"})
            for _ in range(10):
                server.post("/v2/models/m/infer", {"inputs": [{"name": "x", "shape": [1, SIZE], "datatype": "FP32", "data": [1, 2, 3, 4]}]})
            self.open(server)
            self.await_text('[data-key="m/3"]', "shadow: 10 compared, 10 differ (y by up to 2), 0 failed, 0 passed over")
            self.assertEqual(["90 %", "10 %", "shadow"], [self.text(f'[data-key="m/{version}"] td[data-label=Share]') for version in (1, 2, 3)])
            server.post("/v2/repository/models/m/rollback")
            self.await_text('[data-key="m/3"]', "100 %")
            self.assertEqual("–", self.text('[data-key="m/1"] td[data-label=Share]'))

    def test_many_models(self):
        write_version(self.folder / "one/m/1/model.tenon", 2.0)
        (self.folder / "many").mkdir()
        for i in range(60):
            os.link(self.folder / "one/m/1/model.tenon", self.folder / f"many/model{i:02}.tenon")
        with Server(self.folder / "many") as server:
            self.open(server, width=400)
            self.await_text("#more", "1 to 50 of 60 versions")
            self.assertEqual(50, self.see("document.querySelectorAll('#model-rows tr').length"))
            server.post("/v2/repository/models/model59/unload")
            self.tab_to("#filter")
            self.browser.type("L59")
            self.await_text("#more", "1 to 1 of 1 found versions, of 60")
            self.await_text("#model-rows", "unloaded")
            self.assertLessEqual(self.see("document.documentElement.scrollWidth"), 400)
            self.choose("#filter", "", "input")
            self.await_text("#more", "1 to 50 of 60 versions")
            self.tab_to("#next")
            self.browser.press("Enter")
            self.await_text("#more", "51 to 60 of 60 versions")
            self.assertEqual([False, True], self.see("[document.getElementById('previous').disabled, document.getElementById('next').disabled]"))
            self.choose("#filter-state", "unavailable")
            self.await_text("#more", "1 to 1 of 1 found versions, of 60")
            self.choose("#filter-state", "")
            for model, count in (("model33", 3), ("model07", 2)):
                for _ in range(count):
                    server.post(f"/v2/models/{model}/infer", {"inputs": [{"name": "x", "shape": [1, 4], "datatype": "FP32", "data": [1] * 4}]})
            self.choose("#order", "traffic")
            self.await_text("#model-rows tr:first-child", "model33")
            self.await_text("#model-rows tr:nth-child(2)", "model07")
            # What it asks for is one page, and not more for more models.
            asked = [address.split("/v2/", 1)[1] for address in self.browser.requests if "/v2/" in address and not address.endswith("/drift")]
            self.assertEqual({"tenon/status"}, {address.split("?")[0] for address in asked})
            status = json.loads(server.get("/v2/tenon/status?find=model0&order=name&first=2&count=3")[1])
            self.assertEqual((["model02", "model03", "model04"], 10, 60), ([row["name"] for row in status["index"]], status["found"], status["all"]))
            self.assertEqual((5, 3), (status["totals"]["ok"], len(status["models"])))
            for query in ("first=-1", "count=201", "order=size", "state=on", "find=%G1", "page=2"):
                self.assertIn("TN0806", server.get(f"/v2/tenon/status?{query}")[1].decode(), query)


class Token(PageTest):
    def test_token(self):
        file = self.folder / "tokens"
        file.write_text("".join(f"{token} {role}\n" for role, token in TOKENS.items()))
        file.chmod(0o600)
        with Server(self.folder / "models", "--token-file", file, waits=False) as server:
            server.wait_until(lambda: server.get("/v2/health/ready")[0] == 200)
            self.open(server)
            self.await_text("#token-form", "asks for a token")
            self.assertEqual("", self.text("#content"))
            for token, answer in (("x" * 16, "TN0815"), (TOKENS["infer"], "TN0816")):
                self.tab_to("#token")
                self.browser.type(token)
                self.browser.press("Enter")
                self.await_text("#token-problem", answer)
            self.assertEqual(403, server.infer(headers={"Authorization": f"Bearer {TOKENS['read']}"})[0])
            self.assertEqual([], json.loads(server.get("/v2/tenon/status", headers={"Authorization": f"Bearer {TOKENS['read']}"})[1])["errors"], "of those who may not ask")
            self.browser.type(TOKENS["read"])
            self.browser.press("Enter")
            self.await_text("#model-rows", "cnn")
            self.assertEqual("", self.text("#token-form"))
            kept = self.see("location.href + document.cookie + JSON.stringify(localStorage) + document.documentElement.outerHTML")
            self.assertFalse(TOKENS["read"] in kept, "the token is where others may see it")
            self.browser.open(self.address)  # of this tab it is known still
            self.await_text("#model-rows", "cnn")
            self.browser.click("#forget")
            self.await_text("#token-form", "asks for a token")
            self.assertEqual(0, self.see("sessionStorage.length"))
        refused = [error for error in self.browser.errors if "401" in error or "403" in error]
        self.assertEqual(4, len(refused), self.browser.errors)
        self.browser.errors.clear()


class Promotions(PageTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.registry("push", "model", CNN)
        for version, target in ((1, "cpu:avx2"), (2, "cpu:avx2,cpu:avx512"), (3, "cpu:avx2")):  # the second is larger
            path = cls.folder / f"{version}.tenon"
            compile_cnn(path, "--target", target, "--shape", f"image:[1..{63 + version}]x1x28x28")
            cls.registry("push", "cnn", path, "--note", "<b>note</b>", *(("--parent", "model:1") if version == 1 else ()))
        cls.registry("promote", "cnn:1", "live")
        cls.registry("gate", "cnn@live", "--rule", "size <= champion + 1%", "--rule", "interface any")
        for version in (2, 3):
            cls.registry("gate", f"cnn:{version}", "live", "--seconds", "0.2", may_fail=True)

    @classmethod
    def registry(cls, *arguments, may_fail=False):
        done = subprocess.run([TENON, "registry", *map(str, arguments), "--registry", cls.folder / "registry"], capture_output=True, text=True, timeout=120)
        assert may_fail or done.returncode == 0, done.stderr
        return done.stdout

    def serve(self, *arguments):
        return Server("registry:cnn@live", "--registry", self.folder / "registry", *arguments, waits=False)

    def version(self):
        return json.loads(self.registry("show", "cnn@live", "--json"))["version"]

    def test_by_keys(self):
        with self.serve() as server:
            self.open(server)
            self.await_text("#registry-info", "It is at version 1. The gate asks for size <= champion + 1%.")
            self.see("document.getElementById('lineage-details').open = true")
            self.await_text("#lineage", "cnn:1")
            self.assertEqual(["cnn:1", "model:1"], self.see("[...document.querySelectorAll('#lineage text:not(.state)')].map((text) => text.textContent)"))
            self.assertIn("cnn:1 has model:1 as parent", self.see("document.querySelector('#lineage svg').getAttribute('aria-label')"))
            self.see("document.getElementById('lineage-details').open = false")
            self.assertEqual([("3", ""), ("2", ""), ("1", "serves")], [(self.text(f'{row} th > span'), self.text(f"{row} th > .chip")) for row in (f"#version-rows > :nth-child({i})" for i in (1, 2, 3))])
            self.assertEqual("<b>note</b>", self.text("#version-rows th small"))
            self.assertIn("passed", self.text('#version-rows > [data-key="3"]'))
            self.assertIn("refused", self.text('#version-rows > [data-key="2"]'))
            self.browser.click('#version-rows > [data-key="2"] summary')
            self.assertIn("the limit is", self.text('#version-rows > [data-key="2"] .figures'))

            # A refusal tells rule and figures, and moves nothing.
            self.tab_to('#version-rows > [data-key="2"] button')
            self.browser.press("Enter")
            self.assertEqual("confirm-cancel", self.see(FOCUSED), "Enter twice promotes nothing")
            self.assertIn("Promote version 2 to cnn@live?", self.text("#confirm"))
            self.tab_to("#confirm-do")
            self.browser.press("Enter")
            self.await_text("#confirm-problem", "TN1007")
            self.assertEqual("confirm-do", self.see(FOCUSED))
            self.assertRegex(self.text("#confirm-problem"), r"'size <= champion \+ 1%': size is .*, the limit is ")
            self.browser.press("Escape")
            self.assertFalse(self.see("document.getElementById('confirm').open"))
            self.assertTrue(self.see("document.activeElement.matches('#version-rows > [data-key=\"2\"] button')"), "the focus is back where it was")
            self.assertEqual(1, self.version())

            # Cancelled, then done.
            self.tab_to('#version-rows > [data-key="3"] button', shift=True)
            self.browser.press("Enter")
            self.browser.press("Enter")
            self.assertFalse(self.see("document.getElementById('confirm').open"))
            self.browser.press("Enter")
            self.tab_to("#reason", shift=True)
            self.browser.type("as good & smaller <i>")
            self.tab_to("#confirm-do")
            self.browser.press("Enter")
            self.await_text("#registry-info", "It is at version 3.")
            self.assertEqual(3, self.version())
            self.assertIn("promoted from version 1 to 3 by serve, without token: as good & smaller <i>", self.text("#history"))
            self.await_text("#model-rows", "3")
            server.wait_until(lambda: server.infer()[1].get("model_version") == "3")

            # Back again.
            self.tab_to("#rollback", shift=True)
            self.browser.press("Enter")
            self.tab_to("#confirm-do")
            self.browser.press("Enter")
            self.await_text("#registry-info", "It is at version 1.")
            self.assertEqual(1, self.version())
            self.assertIn("rolled back from version 3 to 1 by serve, without token", self.text("#history"))
            self.assertEqual(0, self.see("document.querySelectorAll('main b > b, main i').length"), "text became markup")
        self.assertTrue(any("409" in error for error in self.browser.errors))
        self.browser.errors.clear()

    def test_who_may(self):
        file = self.folder / "tokens"
        file.write_text("".join(f"{token} {role}\n" for role, token in TOKENS.items()))
        file.chmod(0o600)
        with self.serve("--token-file", file) as server:
            server.wait_until(lambda: server.get("/v2/health/ready")[0] == 200)

            def post(action, value, role, **more):
                return server.post(f"/v2/tenon/models/cnn/{action}", value, headers={"Authorization": f"Bearer {TOKENS[role]}", **more})

            for action in ("promote", "rollback"):
                for role in ("infer", "read"):
                    self.refused(post(action, {"version": 3}, role), 403, "TN0816")
                self.refused(post(action, {"version": 3}, "admin", Origin="http://evil.example"), 403, "TN0822")
            for value in ({}, {"version": 0}, {"version": "3"}, {"version": -1}, {"version": 3.5}, {"version": 3, "more": 1}, {"version": 3, "reason": 1}, [], b"{", {"version": 1 << 63}):
                self.refused(post("promote", value, "admin"), 400, "TN0806")
            self.refused(post("promote", {"version": 9}, "admin"), 404, "TN1003")
            self.refused(post("promote", {"version": 3, "expected": 2}, "admin"), 409, "TN1006")
            self.refused(post("rollback", {"expected": 2}, "admin"), 409, "TN1006")
            self.refused(post("promote", {"version": 3, "reason": "two\nlines"}, "admin"), 400, "TN1004")
            self.refused(server.post("/v2/tenon/models/other/promote", {"version": 3}, headers={"Authorization": f"Bearer {TOKENS['admin']}"}), 404, "TN0810")
            self.assertEqual(1, self.version())
            status, moved = post("promote", {"version": 3, "expected": 1, "reason": "it is smaller"}, "admin")
            self.assertEqual((200, {"name": "cnn", "alias": "live", "from": 1, "to": 3}), (status, moved))
            # Who it was: a token is told by the beginning of its hash.
            event = json.loads(self.registry("history", "--json"))["events"][-1]
            digest = subprocess.run(["sha256sum"], input=TOKENS["admin"].encode(), capture_output=True).stdout[:8].decode()
            self.assertEqual((f"serve, token {digest}", "promote"), (event["by"], event["action"]))
            self.assertEqual((200, 1), (post("rollback", {"expected": 3}, "admin")[0], self.version()))

    def test_registry_that_is_busy(self):
        """Another process holds the registry: the server answers meanwhile."""
        import sqlite3
        with self.serve() as server:
            server.wait_until(lambda: server.get("/v2/health/ready")[0] == 200)
            holder = sqlite3.connect(self.folder / "registry/registry.db", isolation_level=None)
            holder.execute("BEGIN IMMEDIATE")
            answers = []
            thread = threading.Thread(target=lambda: answers.append(server.post("/v2/tenon/models/cnn/promote", {"version": 3})))
            thread.start()
            time.sleep(0.3)
            for _ in range(5):
                self.assertEqual(200, server.infer()[0])
                self.assertEqual(200, server.get("/v2/tenon/status")[0])
            self.assertEqual([], answers)
            holder.execute("ROLLBACK")
            thread.join(20)
            self.assertEqual(200, answers[0][0], answers)
            holder.close()
            self.assertEqual(200, server.post("/v2/tenon/models/cnn/rollback", {})[0])


if __name__ == "__main__":
    unittest.main()
