"""What the Python package costs: its import, and a call above the C function. Run with a Python that has the wheel.

The model is one addition over 4 floats, from `test/python/make_models.py FOLDER`: pass FOLDER/tiny.onnx. Prints the best
of many batches, since a shared machine only ever adds.
"""

import subprocess
import sys
import time

import numpy as np
import tenon


def fastest(call, *arguments):
    def batch():
        start = time.perf_counter()
        for _ in range(1000):
            call(*arguments)
        return (time.perf_counter() - start) / 1000

    return min(batch() for _ in range(60))


def main():
    code = "import time; t = time.perf_counter(); import tenon; print(time.perf_counter() - t)"
    imports = [float(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout) for _ in range(10)]
    session = tenon.compile(sys.argv[1], threads=1).session(threads=1)
    x = np.ones(4, np.float32)
    session(x)
    arguments = (session._handle, session._in_at, 1, session._out_at, 1)
    whole, bare = fastest(session, x), fastest(tenon._abi.runtime.tenon_session_run, *arguments)
    print(f"Python {sys.version.split()[0]}, numpy {np.__version__}, tenon {tenon.__version__}")
    print(f"import {min(imports) * 1e3:.0f} ms; a call {whole * 1e6:.1f} us, of which the C function by ctypes {bare * 1e6:.1f} us")


if __name__ == "__main__":
    main()
