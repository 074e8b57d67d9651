"""A kernel of one's own beside PyTorch's: checks it and times both. python vector_add.py [LIBRARY] [ELEMENTS].

LIBRARY is vector_add.ptx or vector_add_triton.ptx with a GPU, else vector_add.o, made by cc -O3 -fPIC -c vector_add.c. The time is that of a
call from Python, with its overhead, which many elements hide; `tenon bench` and `tenon profile` have the kernel's own.
"""

import pathlib
import sys
import time

import torch

import tenon

FOLDER = pathlib.Path(__file__).resolve().parent


@torch.library.custom_op("example::vector_add", mutates_args=())
def vector_add(a: torch.Tensor, b: torch.Tensor, alpha: float) -> torch.Tensor:
    return a + alpha * b


@vector_add.register_fake
def _(a, b, alpha):
    return torch.empty_like(a)


class Add(torch.nn.Module):
    def forward(self, a, b):
        return vector_add(a, b, 0.5)


def seconds(function, arguments, device, rounds=20, calls=50) -> float:
    """The least seconds of a call, over rounds of many."""
    best = float("inf")
    for _ in range(rounds):
        start = time.perf_counter()
        for _ in range(calls):
            function(*arguments)
        if device == "cuda":
            torch.cuda.synchronize()
        best = min(best, (time.perf_counter() - start) / calls)
    return best


def compiled(library: str):
    """The module with the kernel, by torch.compile."""
    return torch.compile(Add().eval(), backend="tenon", options={"kernel_libraries": [library]})


def main(library: str, elements: int) -> None:
    device = "cuda" if library.endswith(".ptx") else "cpu"
    a, b = (torch.rand(elements, device=device) for _ in range(2))
    with torch.inference_mode():
        ways = {
            "the kernel, by Tenon": compiled(library),
            "PyTorch": lambda a, b: torch.add(a, b, alpha=0.5),
        }
        for name, way in ways.items():
            torch.testing.assert_close(way(a, b), a + 0.5 * b)
            best = seconds(way, (a, b), device)
            print(f"{name}: {best * 1e6:.1f} us, {3 * 4 * elements / best / 1e9:.0f} GB/s")


if __name__ == "__main__":
    given = sys.argv[1] if len(sys.argv) > 1 else str(FOLDER / "vector_add.ptx")
    main(given, int(sys.argv[2]) if len(sys.argv) > 2 else 1 << 24)
