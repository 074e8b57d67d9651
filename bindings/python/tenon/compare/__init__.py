"""One model in Tenon and in other runtimes, on the same inputs, alternately. docs/guides/compare.md says what is measured and how.

    import tenon.compare

    result = tenon.compare.run("model.py:make_model", against=["eager", "inductor", "openvino"])
    print(result.table())
    result.save("comparison.svg")           # or .json, .txt
"""

from ._measure import run
from ._result import Comparison, break_even

__all__ = ["Comparison", "break_even", "run"]
