"""Options of ONNX Runtime's interface. What has no meaning here is kept, so that programs read back what they set."""

from __future__ import annotations

import enum
from typing import Any, Dict

from .._errors import usage


class GraphOptimizationLevel(enum.IntEnum):
    ORT_DISABLE_ALL, ORT_ENABLE_BASIC, ORT_ENABLE_EXTENDED, ORT_ENABLE_LAYOUT, ORT_ENABLE_ALL = 0, 1, 2, 3, 99


class ExecutionMode(enum.IntEnum):
    ORT_SEQUENTIAL, ORT_PARALLEL = 0, 1


class ExecutionOrder(enum.IntEnum):
    DEFAULT, PRIORITY_BASED, MEMORY_EFFICIENT = 0, 1, 2


class SessionOptions:
    """`intra_op_num_threads` and the overrides of free dimensions count; other attributes may be set and change nothing."""

    def __init__(self):
        self.intra_op_num_threads = 0
        self.inter_op_num_threads = 0
        self.graph_optimization_level = GraphOptimizationLevel.ORT_ENABLE_ALL
        self.execution_mode = ExecutionMode.ORT_SEQUENTIAL
        self.execution_order = ExecutionOrder.DEFAULT
        self.enable_cpu_mem_arena = self.enable_mem_pattern = self.enable_mem_reuse = True
        self.enable_profiling = self.use_deterministic_compute = False
        self.use_per_session_threads = True
        self.log_severity_level, self.log_verbosity_level, self.logid = -1, 0, ""
        self.optimized_model_filepath, self.profile_file_prefix = "", "onnxruntime_profile_"
        self._entries: Dict[str, str] = {}
        self._dims: Dict[str, int] = {}

    def add_session_config_entry(self, key: str, value: str) -> None:
        self._entries[key] = value

    def get_session_config_entry(self, key: str) -> str:
        """RuntimeError for a key that is not set, as in ONNX Runtime."""
        if key not in self._entries:
            raise usage("TN0105", f"the session's options have no entry '{key}'", "set it with add_session_config_entry")
        return self._entries[key]

    def add_free_dimension_override_by_name(self, name: str, size: int) -> None:
        self._dims[name] = size

    def register_custom_ops_library(self, path: str) -> None:
        raise usage("TN0105", f"operators of '{path}' are machine code for ONNX Runtime", "express them by operators of ONNX")

    def add_initializer(self, name: str, value: Any) -> None:
        raise usage("TN0105", f"the weight '{name}' is not in the model", "save the model with its weights")


class RunOptions:
    """Taken and not looked at: a run has no options here."""

    def __init__(self):
        self.log_severity_level, self.log_verbosity_level, self.logid = 2, 0, ""
        self.terminate = self.only_execute_path_to_fetches = False
        self._entries: Dict[str, str] = {}

    def add_run_config_entry(self, key: str, value: str) -> None:
        self._entries[key] = value

    def get_run_config_entry(self, key: str) -> str:
        return self._entries.get(key, "")
