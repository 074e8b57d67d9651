"""Tensors of ONNX Runtime's interface, and the binding of them to a session's inputs and outputs. All lie on the CPU."""

from __future__ import annotations

from typing import Any, Dict, List, Optional, Sequence

import numpy as np

from .._errors import usage

# ONNX Runtime's names of element types where they are not those of Tenon.
_ONNX_NAMES = {"float32": "float", "float64": "double", "float8_e4m3fn": "float8e4m3fn", "float8_e5m2": "float8e5m2"}


def type_name(dtype: str) -> str:
    """"tensor(float)" for "float32"."""
    return f"tensor({_ONNX_NAMES.get(dtype, dtype)})"


class OrtValue:
    """A tensor on the CPU."""

    def __init__(self, array: np.ndarray):
        self._array = array

    @staticmethod
    def ortvalue_from_numpy(array: np.ndarray, device_type: str = "cpu", device_id: int = 0) -> OrtValue:
        return OrtValue(np.ascontiguousarray(array))

    @staticmethod
    def ortvalue_from_shape_and_type(shape: Sequence[int], element_type: Any, device_type: str = "cpu", device_id: int = 0) -> OrtValue:
        return OrtValue(np.empty(shape, element_type))

    def numpy(self) -> np.ndarray:
        return self._array

    def shape(self) -> List[int]:
        return list(self._array.shape)

    def data_type(self) -> str:
        return type_name(self._array.dtype.name)

    def element_type(self) -> int:
        raise usage("TN0105", "element_type is a number of ONNX, which this package does not have", "use data_type()")

    def device_name(self) -> str:
        return "cpu"

    def data_ptr(self) -> int:
        return self._array.ctypes.data

    def is_tensor(self) -> bool:
        return True

    def is_sparse_tensor(self) -> bool:
        return False

    def is_tensor_sequence(self) -> bool:
        return False

    def has_value(self) -> bool:
        return True

    def tensor_size_in_bytes(self) -> int:
        return self._array.nbytes

    def update_inplace(self, array: np.ndarray) -> None:
        np.copyto(self._array, array)


class IOBinding:
    """Tensors for InferenceSession.run_with_iobinding; all of them lie on the CPU."""

    def __init__(self, session: Any):
        self._session = session
        self._inputs: Dict[str, np.ndarray] = {}
        self._outputs: Dict[str, Optional[np.ndarray]] = {}
        self._results: Dict[str, np.ndarray] = {}

    def bind_cpu_input(self, name: str, array: np.ndarray) -> None:
        self._inputs[name] = array

    def bind_ortvalue_input(self, name: str, value: OrtValue) -> None:
        self._inputs[name] = value.numpy()

    def bind_input(self, name: str, device_type: str, device_id: int, element_type: Any, shape: Sequence[int], buffer_ptr: int) -> None:
        self._inputs[name] = _array_at(name, device_type, element_type, shape, buffer_ptr)

    def bind_output(self, name: str, device_type: str = "cpu", device_id: int = 0, element_type: Any = None,
                    shape: Optional[Sequence[int]] = None, buffer_ptr: Optional[int] = None) -> None:  # fmt: skip
        self._outputs[name] = None if buffer_ptr is None else _array_at(name, device_type, element_type, shape, buffer_ptr)

    def bind_ortvalue_output(self, name: str, value: OrtValue) -> None:
        self._outputs[name] = value.numpy()

    def clear_binding_inputs(self) -> None:
        self._inputs.clear()

    def clear_binding_outputs(self) -> None:
        self._outputs.clear()

    def synchronize_inputs(self) -> None:
        pass

    def synchronize_outputs(self) -> None:
        pass

    def get_outputs(self) -> List[OrtValue]:
        return [OrtValue(self._results[name]) for name in self._outputs]

    def copy_outputs_to_cpu(self) -> List[np.ndarray]:
        return [self._results[name] for name in self._outputs]

    def _run(self) -> None:
        results = self._session.run(list(self._outputs), self._inputs)
        self._results = {}
        for (name, place), result in zip(self._outputs.items(), results):
            if place is not None:
                if place.shape != result.shape:
                    raise usage("TN0605", f"output '{name}' is {list(result.shape)}, its place {list(place.shape)}", "bind a place of that shape")
                np.copyto(place, result)
            self._results[name] = result if place is None else place


def _array_at(name: str, device_type: str, element_type: Any, shape: Optional[Sequence[int]], pointer: int) -> np.ndarray:
    import ctypes

    if device_type != "cpu" or shape is None:
        raise usage("TN0605", f"'{name}' is bound to memory of '{device_type}'", "bind memory of the CPU with a shape and a numpy type")
    dtype = np.dtype(element_type)
    memory = (ctypes.c_byte * (int(np.prod(shape)) * dtype.itemsize)).from_address(pointer)
    return np.frombuffer(memory, dtype).reshape(shape)
