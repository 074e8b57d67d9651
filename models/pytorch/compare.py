"""How far outputs are from the truth. Relies on numpy."""

import numpy as np

# Of the largest value; what the other models of this project are held to.
TOLERANCE = 1e-4


def error_of(got, want):
    """The largest difference relative to the largest value, over all outputs.

    Infinite where the number of outputs, a shape, an integer or what is not finite differs.
    """
    if len(got) != len(want):
        return np.inf
    worst = 0.0
    for one, truth in zip(got, want):
        if one.shape != truth.shape:
            return np.inf
        if truth.dtype.kind != "f":
            worst = max(worst, 0.0 if np.array_equal(one, truth) else np.inf)
            continue
        finite = np.isfinite(truth)
        if not np.array_equal(one[~finite].astype(np.float64), truth[~finite].astype(np.float64), equal_nan=True):
            return np.inf
        if not np.isfinite(one[finite]).all():
            return np.inf
        largest = np.abs(truth[finite]).max(initial=0.0)
        difference = np.abs(one[finite].astype(np.float64) - truth[finite]).max(initial=0.0)
        worst = max(worst, float(difference / largest) if largest else float(difference))
    return worst
