"""The command line: the program of the package in place of this process."""

import os
import sys


def main() -> None:
    program = os.path.join(os.path.dirname(os.path.abspath(__file__)), "bin", "tenon")
    os.environ["TENON_PYTHON"] = sys.executable  # in which `tenon bench --against` finds this package and its peers
    os.execv(program, ["tenon", *sys.argv[1:]])


if __name__ == "__main__":
    main()
