"""ONNX Runtime behind FastAPI: a body is the inputs' int64 elements one after the other, [1, SEQUENCE] each; the reply is those of the output.

    fastapi_server.py MODEL.onnx SEQUENCE PORT        runs in .venv-triton
"""

import os
import sys

import numpy as np
import onnxruntime
import uvicorn
from fastapi import FastAPI, Request, Response
from starlette.concurrency import run_in_threadpool

MODEL, SEQUENCE, PORT = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
options = onnxruntime.SessionOptions()
options.intra_op_num_threads = len(os.sched_getaffinity(0))
session = onnxruntime.InferenceSession(MODEL, options, providers=["CPUExecutionProvider"])
names = [value.name for value in session.get_inputs()]
app = FastAPI()


def run(body):
    values = np.frombuffer(body, np.int64).reshape(len(names), 1, SEQUENCE)
    return session.run(None, dict(zip(names, values)))[0].tobytes()


@app.post("/infer")
async def infer(request: Request):
    return Response(await run_in_threadpool(run, await request.body()), media_type="application/octet-stream")


uvicorn.run(app, host="127.0.0.1", port=PORT, log_level="warning")
