#!/usr/bin/env python3
"""One torch peer of measure_gpu.py as a process of its own: commands as JSON lines in, answers as JSON lines out.

Relies on torch and gpu_cases.py. A process for each peer, so that one that fails or hangs takes nothing else with it.
"""

import argparse
import json
import os
import sys
import time
import traceback

import numpy as np
import torch
from torch import nn

import gpu_cases
import gpu_torch

PEERS = ("reference", "eager", "graph", "compile", "autotune", "best")
TYPES = {"fp16": torch.float16, "bf16": torch.bfloat16, "keep": None}
WARM_UP, IN_A_ROW_BELOW_MS, IN_A_ROW = 10, 2.0, 10


def loaded(case, model, device, dtype):
    """The case's module with the weights of its graph, on the device, in the type of the run."""
    if not case.graph:
        module = case.module().to(device)
    else:
        with torch.device("meta"):
            module = case.module()
        module = module.to_empty(device=device)
        restore_buffers(module)
        module = gpu_torch.Weights(model, device).load(module)
    if any(isinstance(part, nn.Conv2d) for part in module.modules()):
        module = module.to(memory_format=torch.channels_last)
    return (module if dtype is None else module.to(dtype)).eval()


def restore_buffers(module):
    """What to_empty leaves undefined and no file holds: BERT's positions and token types."""
    for part in module.modules():
        for name, buffer in part._buffers.items():
            if name == "position_ids":
                buffer.copy_(torch.arange(buffer.shape[-1], device=buffer.device).expand(buffer.shape))
            elif name == "token_type_ids":
                buffer.zero_()


def captured(function, arguments):
    """The function as a CUDA graph over these tensors."""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(3):
            function(*arguments)
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        result = function(*arguments)

    def replay(*_):
        graph.replay()
        return result

    return replay


def made_fast(peer, module, arguments):
    if peer in ("compile", "autotune", "best"):
        for tensor in arguments:
            torch._dynamo.mark_static_address(tensor)
        mode = {"compile": None, "autotune": "max-autotune", "best": "max-autotune-no-cudagraphs"}[peer]
        function = torch.compile(module, mode=mode, dynamic=False)
        function(*arguments)
        return captured(function, arguments) if peer == "best" else function
    return captured(module, arguments) if peer == "graph" else module


def repeated(block, dims, device):
    """What np.resize makes of the block, on the device."""
    count = int(np.prod(dims))
    return torch.from_numpy(block).to(device).repeat(-(-count // block.size))[:count].reshape(dims)


def error_of(result, want):
    """Largest difference over the largest magnitude; nan anywhere is an infinite one."""
    return ((result.float() - want).abs().nan_to_num(nan=float("inf")).max() / want.abs().max()).item()


class Peer:
    def __init__(self, peer, device):
        self.peer, self.device, self.is_gpu = peer, device, device == "cuda"
        self.function, self.arguments, self.result = None, [], None
        torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
        torch.backends.cudnn.benchmark = peer != "reference"

    def sync(self):
        if self.is_gpu:
            torch.cuda.synchronize()

    def drop(self, command):
        self.function, self.arguments, self.result = None, [], None
        torch._dynamo.reset()
        if self.is_gpu:
            torch.cuda.empty_cache()
            torch.cuda.reset_peak_memory_stats()
        return {}

    def wide(self, tensor, case):
        """Inputs in the type of the run; the reference works in float32, on kernels in float64."""
        if not tensor.dtype.is_floating_point:
            return tensor
        if self.peer == "reference":
            return tensor.to(torch.float32 if case.graph else torch.float64)
        return tensor if TYPES[case.precision] is None else tensor.to(TYPES[case.precision])

    def prepare(self, command):
        case = gpu_cases.all_cases()[command["case"]]
        model = case.model()
        if case.graph:
            arrays = dict(np.load(command["inputs"]))
            given = [torch.from_numpy(arrays[value.name]).to(self.device) for value in model.graph.input]
        else:
            given = [repeated(block, dims, self.device) for block, dims in case.blocks(model).values()]
        self.arguments = [self.wide(tensor, case) for tensor in given]
        if case.name.startswith("resnet") and self.peer != "reference":
            self.arguments = [tensor.to(memory_format=torch.channels_last) for tensor in self.arguments]
        dtype = TYPES[case.precision]
        if self.peer == "reference":
            dtype = torch.float32 if case.graph else torch.float64
        module = loaded(case, model, self.device, dtype)
        start = time.perf_counter()
        self.function = made_fast(self.peer, module, self.arguments)
        result = self.function(*self.arguments)
        self.sync()
        answer = {"prepare_s": time.perf_counter() - start}
        for _ in range(WARM_UP if self.peer != "reference" else 0):
            self.function(*self.arguments)
        self.sync()
        if self.is_gpu:
            answer["peak_mib"] = torch.cuda.max_memory_allocated() / 2**20
        answer["error"] = self.compared(case, model, given, result, command)
        return answer

    def compared(self, case, model, given, result, command):
        """The error of the result. The reference of a model is a file, which the reference writes; of a kernel, which is
        sooner computed than read, everyone has an own one."""
        if self.peer == "reference":
            self.result = result.to(torch.float32)
            if case.graph:
                np.save(command["reference"], self.result.cpu().numpy())
            return 0.0
        if not case.graph:
            module = loaded(case, model, self.device, torch.float64)
            return error_of(result, module(*(tensor.double() if tensor.dtype.is_floating_point else tensor for tensor in given)).float())
        if not os.path.exists(command["reference"]):
            return float("nan")
        return error_of(result, torch.from_numpy(np.load(command["reference"])).to(self.device))

    def compare(self, command):
        """The error of a kernel's outputs in a file against the reference that was last prepared here."""
        with np.load(command["outputs"]) as archive:
            result = torch.from_numpy(archive[archive.files[0]]).to(self.device)
        return {"error": error_of(result, self.result)}

    def sample(self, count):
        """Milliseconds of one run, over a few in a row."""
        if not self.is_gpu:
            start = time.perf_counter()
            for _ in range(count):
                self.function(*self.arguments)
            return (time.perf_counter() - start) * 1e3 / count
        first, last = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        first.record()
        for _ in range(count):
            self.function(*self.arguments)
        last.record()
        last.synchronize()
        return first.elapsed_time(last) / count

    def round(self, command):
        self.sample(WARM_UP)
        count = IN_A_ROW if self.sample(2) < IN_A_ROW_BELOW_MS else 1
        return {"times": [self.sample(count) for _ in range(max(1, command["runs"] // count))], "in_a_row": count}

    def probe(self, command):
        """What copying and a large product reach on this device now."""
        if not self.is_gpu:
            return {}
        size = 1 << 29
        a, b = torch.empty(size, dtype=torch.uint8, device="cuda"), torch.empty(size, dtype=torch.uint8, device="cuda")
        self.function, self.arguments = torch.Tensor.copy_, [b, a]
        copy = min(self.sample(10) for _ in range(10))
        x, y = (torch.randn(8192, 8192, dtype=torch.bfloat16, device="cuda") for _ in range(2))
        self.function, self.arguments = torch.matmul, [x, y]
        product = min(self.sample(5) for _ in range(5))
        return {"copy_tb_s": 2 * size / copy / 1e9, "gemm_tf_s": 2 * 8192**3 / product / 1e9,
                "gpu": torch.cuda.get_device_name(), "torch": torch.__version__, "cuda": torch.version.cuda,
                "cudnn": torch.backends.cudnn.version()}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("peer", choices=PEERS)
    parser.add_argument("--device", default="cuda")
    options = parser.parse_args()
    # Libraries print to stdout: answers go to a copy of it, and what others print to stderr.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    peer = Peer(options.peer, options.device)
    for line in sys.stdin:
        command = json.loads(line)
        try:
            with torch.no_grad():
                answer = getattr(peer, command["do"])(command)
        except Exception as error:  # whatever a peer fails with is a result
            traceback.print_exc()
            answer = {"failed": f"{type(error).__name__}: {error}".splitlines()[0][:300]}
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


if __name__ == "__main__":
    main()
