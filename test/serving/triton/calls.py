"""What one kind of client gets from a server of KServe v2, as JSON on stdout: the name of each call with its answer, or its error's status.

    calls.py KIND HTTP_ADDRESS GRPC_ADDRESS IMAGE.npy        KIND: triton, kserve, curl, perf_analyzer, broken

The same calls for every server, which has the models `cnn` and `batched` (clients.py makes them). Texts of errors are each server's own and
stay out. tritonclient and KServe's client of gRPC cannot be in one process. Runs in .venv-serving.
"""

import asyncio
import gzip
import json
import os
import pathlib
import queue
import subprocess
import sys
import time

import numpy as np

KIND, HTTP, GRPC, IMAGE = sys.argv[1], sys.argv[2], sys.argv[3], np.load(sys.argv[4])
answers = {}


def status_of(error):
    """Of tritonclient's and KServe's exceptions, and those of what they are built on."""
    for name in ("status", "code"):
        value = getattr(error, name, None)
        if value is not None:
            return str(value() if callable(value) else value)
    response = getattr(error, "response", None)
    return str(response.status_code) if response is not None else type(error).__name__


def note(name, call):
    try:
        value = call()
    except Exception as error:
        value = "error " + status_of(error)
    answers[name] = value


def plain(value):
    """Arrays as lists, messages as their JSON."""
    if isinstance(value, np.ndarray):
        return value.ravel().tolist()
    if hasattr(value, "DESCRIPTOR"):
        from google.protobuf.json_format import MessageToDict
        return MessageToDict(value, preserving_proto_field_name=True)
    return value


def shape_of(value):
    """Names of members, at any depth, for answers whose values are times and counts."""
    if isinstance(value, dict):
        return {key: shape_of(each) for key, each in value.items()}
    if isinstance(value, list):
        return [shape_of(value[0])] if value else []
    return type(value).__name__


# ---- tritonclient, over HTTP and gRPC ----

BAD = {
    "another model": dict(model="other"), "another version": dict(version="7"), "no inputs": dict(inputs=0), "an input twice": dict(inputs=2),
    "another name": dict(name="picture"), "another type": dict(dtype="INT32"), "another rank": dict(shape=[3, 784]), "a wrong dim": dict(shape=[3, 1, 56, 14]),
    "an unknown output": dict(output="other"), "a batch too large": dict(model="batched", rows=9),
}


def tensors(module, bad):
    image = np.repeat(IMAGE[:1], bad["rows"], 0) if "rows" in bad else IMAGE
    if bad.get("dtype") == "INT32":
        image = image.astype(np.int32)
    made = module.InferInput(bad.get("name", "image"), bad.get("shape", list(image.shape)), bad.get("dtype", "FP32"))
    made.set_data_from_numpy(image.reshape(bad.get("shape", image.shape)))
    return [made] * bad.get("inputs", 1)


def triton_kind(kind, module, address):
    outputs = lambda name: [module.InferRequestedOutput(name)]
    with module.InferenceServerClient(address) as client:
        note(f"{kind} live", client.is_server_live)
        note(f"{kind} ready", client.is_server_ready)
        for model, version in (("cnn", ""), ("cnn", "1"), ("cnn", "7"), ("other", "")):
            note(f"{kind} model ready {model} {version}", lambda: client.is_model_ready(model, version))
        note(f"{kind} server metadata", lambda: sorted(plain(client.get_server_metadata())))
        for model in ("cnn", "batched"):
            note(f"{kind} metadata {model}", lambda: {**plain(client.get_model_metadata(model)), "platform": ""})
            note(f"{kind} config {model}", lambda: config_facts(plain(client.get_model_config(model)), kind))
            note(f"{kind} infer {model}", lambda: plain(client.infer(model, tensors(module, {})).as_numpy("logits")))
            note(f"{kind} infer {model} named", lambda: plain(client.infer(model, tensors(module, {}), outputs=outputs("logits"), request_id="7").as_numpy("logits")))
            note(f"{kind} answer {model}", lambda: answer_facts(client.infer(model, tensors(module, {}), request_id="7").get_response()))
            note(f"{kind} stats {model}", lambda: stats_facts(plain(client.get_inference_statistics(model))))
        note(f"{kind} metadata other", lambda: client.get_model_metadata("other"))
        note(f"{kind} config other", lambda: client.get_model_config("other"))
        note(f"{kind} stats other", lambda: client.get_inference_statistics("other"))
        for encoding in ("gzip", "deflate"):
            options = dict(compression_algorithm=encoding) if kind == "grpc" else dict(request_compression_algorithm=encoding, response_compression_algorithm=encoding)
            note(f"{kind} infer {encoding}", lambda: plain(client.infer("cnn", tensors(module, {}), **options).as_numpy("logits")))
        for name, bad in BAD.items():
            wanted = outputs(bad["output"]) if "output" in bad else None
            note(f"{kind} infer with {name}", lambda: client.infer(bad.get("model", "cnn"), tensors(module, bad), bad.get("version", ""), outputs=wanted) and "answered")
        note(f"{kind} parameters", lambda: plain(client.infer("cnn", tensors(module, {}), priority=1, timeout=10_000_000).as_numpy("logits")))
        note(f"{kind} classification", lambda: client.infer("cnn", tensors(module, {}), outputs=[module.InferRequestedOutput("logits", class_count=2)]) and "answered")
        note(f"{kind} sequence", lambda: client.infer("cnn", tensors(module, {}), sequence_id=3, sequence_start=True, sequence_end=True) and "answered")
        note(f"{kind} system shared memory", lambda: client.get_system_shared_memory_status() is not None)
        note(f"{kind} trace settings", lambda: sorted(trace_facts(plain(client.get_trace_settings()))))
        note(f"{kind} log settings", lambda: sorted(trace_facts(plain(client.get_log_settings()))))
        note(f"{kind} index", lambda: index_facts(plain(client.get_model_repository_index())))
        note(f"{kind} unload", lambda: client.unload_model("cnn") or "unloaded")
        wait_for(lambda: ["cnn", "1", "UNAVAILABLE"] in index_facts(plain(client.get_model_repository_index())))
        note(f"{kind} index without cnn", lambda: index_facts(plain(client.get_model_repository_index())))
        note(f"{kind} infer unloaded", lambda: client.infer("cnn", tensors(module, {})) and "answered")
        note(f"{kind} load other", lambda: client.load_model("other"))
        note(f"{kind} load", lambda: client.load_model("cnn") or "loaded")
        note(f"{kind} infer loaded", lambda: plain(client.infer("cnn", tensors(module, {})).as_numpy("logits")))


def wait_for(condition):
    for _ in range(500):
        if condition():
            return
        time.sleep(0.01)


def config_facts(config, kind):
    config = config.get("config", config) if kind == "grpc" else config
    ports = {key: [(port["name"], port["data_type"], [int(dim) for dim in port["dims"]]) for port in config[key]] for key in ("input", "output")}
    return {"name": config["name"], "max_batch_size": config.get("max_batch_size", 0), **ports}


def answer_facts(response):
    response = plain(response)
    return {"model_name": response["model_name"], "model_version": response["model_version"], "id": response.get("id"),
            "outputs": [[output["name"], output["datatype"], [int(dim) for dim in output["shape"]]] for output in response["outputs"]],
            "members": sorted(set(response) - {"raw_output_contents"})}


def stats_facts(stats):
    """Counts of requests, and the members that clients read."""
    stats = stats["model_stats"][0]
    stages = stats["inference_stats"]
    return {"members": sorted(set(stats)), "stages": sorted(stages), "count": int(stats["inference_count"]), "success": int(stages["success"]["count"]),
            "queue": int(stages["queue"]["count"]), "compute": int(stages["compute_infer"]["count"]), "batch_stats": sorted(stats["batch_stats"][0])}


def trace_facts(settings):
    return settings.get("settings", settings)


def index_facts(index):
    rows = index.get("models", []) if isinstance(index, dict) else index
    return sorted([row["name"], row.get("version", ""), row.get("state", "")] for row in rows)


def triton_stream(module):
    results = queue.Queue()
    with module.InferenceServerClient(GRPC) as client:
        client.start_stream(lambda result, error: results.put("error" if error else [result.get_response().id, plain(result.as_numpy("logits"))]))
        for i in range(4):
            client.async_stream_infer("cnn" if i != 2 else "other", tensors(module, {}), request_id=str(i))
        got = [results.get(timeout=30) for _ in range(4)]
        client.stop_stream()
    return sorted(got, key=str)


async def triton_aio(module, address):
    async with module.InferenceServerClient(address) as client:
        import tritonclient.grpc as plain_grpc
        import tritonclient.http as plain_http
        inputs = tensors(plain_http if "http" in module.__name__ else plain_grpc, {})
        found = await asyncio.gather(*[client.infer("batched", inputs) for _ in range(8)])
        return [await client.is_server_ready(), [plain(each.as_numpy("logits")) for each in found]]


def triton():
    import tritonclient.grpc as grpc
    import tritonclient.grpc.aio as grpc_aio
    import tritonclient.http as http
    import tritonclient.http.aio as http_aio
    triton_kind("http", http, HTTP)
    triton_kind("grpc", grpc, GRPC)
    note("grpc stream", lambda: triton_stream(grpc))
    note("http aio", lambda: asyncio.run(triton_aio(http_aio, HTTP)))
    note("grpc aio", lambda: asyncio.run(triton_aio(grpc_aio, GRPC)))


def broken():
    """A model that cannot be loaded, which was put into the folder while the server ran."""
    import tritonclient.http as http
    with http.InferenceServerClient(HTTP) as client:
        note("broken index", lambda: index_facts(client.get_model_repository_index()))
        note("broken load", lambda: client.load_model("broken"))
        note("broken index after it", lambda: index_facts(client.get_model_repository_index()))
        note("broken ready", client.is_server_ready)
        note("broken unload", lambda: client.unload_model("broken") or "unloaded")
        note("broken ready after it", client.is_server_ready)
        note("broken infer of others", lambda: plain(client.infer("cnn", tensors(http, {})).as_numpy("logits")))


# ---- KServe ----

def kserve():
    from kserve import InferenceGRPCClient, InferenceRESTClient, InferInput, InferRequest, RESTConfig

    def image(binary):
        tensor = InferInput("image", list(IMAGE.shape), "FP32")
        tensor.set_data_from_numpy(IMAGE, binary_data=binary)
        return [tensor]

    def rest(call):
        return lambda: asyncio.run(call(InferenceRESTClient(RESTConfig(protocol="v2", retries=0)), f"http://{HTTP}"))

    def by_grpc(call):
        async def ask():
            async with InferenceGRPCClient(GRPC, retries=0) as client:
                return await call(client)
        return lambda: asyncio.run(ask())

    async def rest_infer(client, base, binary, model):
        answer = await client.infer(base, InferRequest(model, image(binary), request_id="7"), model_name=model)
        return [answer.id, plain(answer.outputs[0].as_numpy())]

    async def grpc_infer(client, binary, model):
        answer = await client.infer(InferRequest(model, image(binary), request_id="7"))
        return [answer.id, plain(answer.outputs[0].as_numpy())]

    note("kserve rest live", rest(lambda client, base: client.is_server_live(base)))
    note("kserve rest ready", rest(lambda client, base: client.is_server_ready(base)))
    note("kserve rest model ready", rest(lambda client, base: client.is_model_ready(base, "cnn")))
    note("kserve rest model ready other", rest(lambda client, base: client.is_model_ready(base, "other")))
    note("kserve grpc live", by_grpc(lambda client: client.is_server_live()))
    note("kserve grpc ready", by_grpc(lambda client: client.is_server_ready()))
    note("kserve grpc model ready", by_grpc(lambda client: client.is_model_ready("cnn")))
    note("kserve grpc model ready other", by_grpc(lambda client: client.is_model_ready("other")))
    for binary in (False, True):
        for model in ("cnn", "other"):
            note(f"kserve rest infer {model} binary={binary}", rest(lambda client, base: rest_infer(client, base, binary, model)))
            note(f"kserve grpc infer {model} binary={binary}", by_grpc(lambda client: grpc_infer(client, binary, model)))


# ---- curl ----

def curl():
    def ask(*arguments, data=None, parse=lambda body: body.decode()):
        def call():
            done = subprocess.run(["curl", "-sS", "-w", "\n%{http_code} %{content_type}", *arguments], input=data, capture_output=True, check=True)
            body, _, end = done.stdout.rpartition(b"\n")
            status, _, kind = end.decode().partition(" ")
            return [status, kind, parse(body) if status == "200" else sorted(json.loads(body or "{}"))]
        return call

    def logits(body):
        return np.asarray(json.loads(body)["outputs"][0]["data"], np.float32).ravel().tolist()

    base = f"http://{HTTP}/v2"
    tensor = {"name": "image", "datatype": "FP32", "shape": IMAGE.shape, "data": IMAGE.ravel().tolist()}
    body = json.dumps({"inputs": [tensor]}).encode()
    for path in ("", "/health/live", "/health/ready", "/models/cnn/ready", "/models/cnn"):
        note(f"curl GET /v2{path}", ask(base + path, parse=lambda body: len(body) > 0))
    for path in ("/nothing", "/models/other", "/models/other/ready", "/models/cnn/versions/x"):
        note(f"curl GET /v2{path}", ask(base + path, parse=lambda _: None))
    infer = f"{base}/models/cnn/infer"
    for name, more in {"": [], "compressed": ["--compressed"], "chunked": ["-H", "Transfer-Encoding: chunked"], "HTTP/1.0": ["-0"], "expect": ["-H", "Expect: 100-continue"]}.items():
        note(f"curl infer {name}", ask("--data-binary", "@-", *more, infer, data=body, parse=logits))
    note("curl infer nested data", ask("--data-binary", "@-", infer, data=json.dumps({"inputs": [{**tensor, "data": IMAGE.tolist()}]}).encode(), parse=logits))
    note("curl infer gzip", ask("--data-binary", "@-", "-H", "Content-Encoding: gzip", infer, data=gzip.compress(body), parse=logits))
    note("curl infer of version 1", ask("--data-binary", "@-", f"{base}/models/cnn/versions/1/infer", data=body, parse=logits))
    bodies = {"nothing": b"", "no JSON": b"{", "a list": b"[]", "no inputs": b"{}", "too few numbers": json.dumps({"inputs": [{**tensor, "data": [1.0]}]}).encode(),
              "a text in the data": body.replace(b"0.", b'"a"', 1), "a negative dim": json.dumps({"inputs": [{**tensor, "shape": [-1, 1, 28, 28]}]}).encode()}
    for name, bad in bodies.items():
        note(f"curl infer with {name}", ask("--data-binary", "@-", infer, data=bad, parse=lambda _: None))
    note("curl GET of infer", ask(infer, parse=lambda _: None))
    note("curl a header of JSON longer than the body", ask("--data-binary", "@-", "-H", f"Inference-Header-Content-Length: {len(body) + 1}", infer, data=body, parse=logits))


# ---- perf_analyzer ----

def perf_analyzer():
    folder = pathlib.Path(os.environ["TENON_SOURCE_DIR"]) / ".venv-triton/perf_analyzer"

    def run(protocol, address, model):
        done = subprocess.run([folder / "perf_analyzer", "-m", model, "-u", address, "-i", protocol, "-b", "1", "--concurrency-range", "4", "--measurement-mode",
                               "count_windows", "--measurement-request-count", "50", "--stability-percentage", "999", "--max-trials", "3", "--shape", "image:1,28,28" if model == "batched" else "image:1,1,28,28"],
                              env={**os.environ, "LD_PRELOAD": str(folder / "libpreload.so")}, capture_output=True, text=True, timeout=120)
        lines = [line.split(":")[0].strip() for line in done.stdout.splitlines() if ":" in line and line.startswith("  ")]
        return [done.returncode, sorted(set(lines) & {"Request count", "Inference count", "Execution count", "Successful request count", "Throughput", "Avg request latency"})]

    for model in ("cnn", "batched"):
        note(f"perf_analyzer http {model}", lambda: run("http", HTTP, model))
        note(f"perf_analyzer grpc {model}", lambda: run("grpc", GRPC, model))


if __name__ == "__main__":
    {"triton": triton, "broken": broken, "kserve": kserve, "curl": curl, "perf_analyzer": perf_analyzer}[KIND]()
    print(json.dumps(answers))
