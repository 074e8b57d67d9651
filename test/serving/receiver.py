"""A server of the test's own that takes what `tenon serve` sends: events of webhooks, spans of traces."""

import http.server
import json
import threading


class Receiver:
    """Keeps the JSON of each POST in `received`, and answers with the statuses of `answers` in turn, then with 200."""

    def __init__(self, answers=()):
        self.received, self.answers = [], list(answers)
        self.heads = []  # of what was received: the headers, and the body as it came
        receiver = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                raw = self.rfile.read(int(self.headers["Content-Length"]))
                body = json.loads(raw)
                status = receiver.answers.pop(0) if receiver.answers else 200
                if status == 200:
                    receiver.received.append((self.path, body))
                    receiver.heads.append((dict(self.headers), raw))
                self.send_response(status)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.05,), daemon=True)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.server.shutdown()
        self.server.server_close()

    def events(self):
        return [body for _, body in list(self.received)]

    def spans(self):
        """All spans that came, each with its times as numbers."""
        spans = []
        for path, body in list(self.received):
            assert path == "/v1/traces", path
            for resource in body["resourceSpans"]:
                spans += [span for scope in resource["scopeSpans"] for span in scope["spans"]]
        return [{**span, "start": int(span["startTimeUnixNano"]), "end": int(span["endTimeUnixNano"]),
                 "attributes": {each["key"]: next(iter(each["value"].values())) for each in span.get("attributes", [])}} for span in spans]

    def check_trace(self, case, root):
        """The stages of a request lie in it, one behind the other, and belong to it."""
        children = sorted((span for span in self.spans() if span.get("parentSpanId") == root["spanId"]), key=lambda span: span["start"])
        case.assertEqual(["queue", "copy_in", "compute", "copy_out"], [span["name"] for span in children])
        at = root["start"]
        for span in children:
            case.assertEqual(root["traceId"], span["traceId"])
            case.assertLessEqual(at, span["start"])
            case.assertLessEqual(span["start"], span["end"])
            at = span["end"]
        case.assertLessEqual(at, root["end"])
