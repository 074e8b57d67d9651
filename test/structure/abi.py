"""The C ABI as it is frozen: sizes and offsets of structs, values of enumerators, and the symbols of the libraries.

A struct may grow at its end once it is released, and only if it begins with struct_size; what is here already stays.
"""

# Name: (size, {member: offset}).
STRUCTS = {
    "tenon_engine_options": (
        24,
        {"struct_size": 0, "variant": 8, "no_verify_weights": 16, "gpu": 20},
    ),
    "tenon_port_info": (
        48,
        {"struct_size": 0, "name": 8, "dtype": 16, "rank": 24, "min_dims": 32, "max_dims": 40},
    ),
    "tenon_session_options": (
        48,
        {"struct_size": 0, "threads": 8, "memory_limit": 16, "measure_calls": 24, "values": 32, "value_count": 40},
    ),
    "tenon_session_value": (
        16,
        {"name": 0, "value": 8},
    ),
    "tenon_input": (
        24,
        {"data": 0, "dims": 8, "rank": 16},
    ),
    "tenon_output": (
        16,
        {"data": 0, "bytes": 8},
    ),
    "tenon_tensor": (
        48,
        {"data": 0, "device_type": 8, "device_id": 12, "rank": 16, "type_code": 20,
         "type_bits": 21, "type_lanes": 22, "dims": 24, "strides": 32, "byte_offset": 40},
    ),
    "tenon_run_options": (
        16,
        {"struct_size": 0, "stream": 8},
    ),
    "tenon_memory_use": (
        64,
        {"struct_size": 0, "arena": 8, "state": 16, "scratch": 24, "weights": 32, "workspace": 40,
         "ports": 48, "staging": 56},
    ),
    "tenon_run_facts": (
        32,
        {"struct_size": 0, "kernels": 8, "calls": 12, "moves": 16, "used_graph": 20,
         "gpu_seconds": 24},
    ),
    "tenon_blob": (
        16,
        {"data": 0, "bytes": 8},
    ),
    "tenon_compile_options": (
        176,
        {"struct_size": 0, "targets": 8, "precision": 16, "allow": 24, "shapes": 32, "states": 40,
         "taps": 48, "threads": 56, "no_cache": 60, "verify": 64, "cubin": 68, "ptxas": 72,
         "progress": 80, "user": 88, "plugins": 96, "passes": 104, "pass_count": 112,
         "kernels": 120, "disabled_families": 128, "optimize_for": 136, "max_weights": 144, "strict": 152,
         "kernel_libraries": 160, "unchecked_kernels": 168},
    ),
    "tenon_check_options": (
        24,
        {"struct_size": 0, "targets": 8, "shapes": 16},
    ),
    "tenon_inspect_options": (
        40,
        {"struct_size": 0, "format": 8, "shapes": 16, "output": 24, "profile": 32},
    ),
    "tenon_graph_api": (
        256,
        {"struct_size": 0, "error": 8, "fail": 16, "symbols": 24, "nodes": 32, "inputs": 40,
         "outputs": 48, "input_name": 56, "output_name": 64, "op": 72, "name": 80, "source": 88,
         "attributes": 96, "attribute": 104, "operands": 112, "results": 120, "flops": 128,
         "bytes": 136, "producer": 144, "users": 152, "type": 160, "data": 168, "matches": 176,
         "match": 184, "captured": 192, "create": 200, "constant": 208, "replace": 216,
         "set_operand": 224, "set_attributes": 232, "add_output": 240, "erase": 248},
    ),
    "tenon_pass": (
        48,
        {"struct_size": 0, "name": 8, "phase": 16, "tolerance": 24, "run": 32, "user": 40},
    ),
    "tenon_plugin": (
        40,
        {"struct_size": 0, "abi": 8, "name": 16, "passes": 24, "pass_count": 32},
    ),
    "tenon_language_facts": (
        56,
        {"struct_size": 0, "family": 8, "chat_template": 16, "vocabulary": 24, "layers": 32,
         "positions": 40, "trained_positions": 48},
    ),
    "tenon_tokens": (
        16,
        {"data": 0, "count": 8},
    ),
    "tenon_text": (
        16,
        {"data": 0, "bytes": 8},
    ),
    "tenon_message": (
        24,
        {"role": 0, "content": 8, "bytes": 16},
    ),
    "tenon_sequence_options": (
        16,
        {"struct_size": 0, "threads": 8},
    ),
    "tenon_logit_bias": (
        16,
        {"token": 0, "bias": 8},
    ),
    "tenon_generate_options": (
        120,
        {"struct_size": 0, "repetition_penalty": 8, "frequency_penalty": 16, "presence_penalty": 24,
         "temperature": 32, "min_p": 40, "top_k": 48, "top_p": 56, "seed": 64, "biases": 72,
         "bias_count": 80, "max_tokens": 88, "stops": 96, "top_tokens": 104, "response_format": 112},
    ),
    "tenon_draw": (
        16,
        {"token": 0, "logprob": 8},
    ),
    "tenon_piece": (
        64,
        {"struct_size": 0, "text": 8, "bytes": 16, "draw": 24, "top": 40, "top_count": 48, "finish":
         56},
    ),
    "tenon_score_options": (
        48,
        {"struct_size": 0, "window": 8, "max_tokens": 16, "threads": 24, "progress": 32, "user": 40},
    ),
    "tenon_mean": (
        24,
        {"value": 0, "low": 8, "high": 16},
    ),
    "tenon_score": (
        88,
        {"struct_size": 0, "tokens": 8, "surprise": 16, "divergence": 40, "same_top": 64},
    ),
}

ENUMERATORS = {
    "TENON_OK": 0, "TENON_CHECK_FAILED": 1, "TENON_USAGE": 2, "TENON_UNSUPPORTED": 3, "TENON_DEVICE": 4,
    "TENON_BAD_INPUT": 5, "TENON_EXHAUSTED": 6, "TENON_INTERNAL": 70, "TENON_F32": 1, "TENON_F64": 2,
    "TENON_F16": 3, "TENON_BF16": 4, "TENON_I8": 5, "TENON_I16": 6, "TENON_I32": 7, "TENON_I64": 8,
    "TENON_U8": 9, "TENON_U16": 10, "TENON_U32": 11, "TENON_U64": 12, "TENON_BOOL": 13, "TENON_F8E4M3FN": 14,
    "TENON_F8E4M3FNUZ": 15, "TENON_F8E5M2": 16, "TENON_F8E5M2FNUZ": 17, "TENON_I4": 18, "TENON_U4": 19,
    "TENON_COMPLEX64": 20, "TENON_COMPLEX128": 21, "TENON_F8E8M0": 22, "TENON_F4E2M1": 23, "TENON_I2": 24,
    "TENON_U2": 25, "TENON_FINISH_NONE": 0, "TENON_FINISH_END": 1, "TENON_FINISH_STOP": 2, "TENON_FINISH_LENGTH": 3,
}

RUNTIME = """
tenon_engine_destroy
tenon_engine_gpu
tenon_engine_input
tenon_engine_input_count
tenon_engine_open
tenon_engine_open_memory
tenon_engine_output
tenon_engine_output_count
tenon_engine_record
tenon_engine_variant
tenon_session_create
tenon_session_destroy
tenon_session_facts
tenon_session_memory
tenon_session_output_data
tenon_session_output_shape
tenon_session_prepare
tenon_session_reset_state
tenon_session_run
tenon_session_run_tensors
tenon_session_set_timing
tenon_status_code
tenon_status_destroy
tenon_status_hint
tenon_status_id
tenon_status_text
"""

COMPILER = """
tenon_blob_destroy
tenon_check
tenon_compile
tenon_compile_memory
tenon_compiler_version
tenon_explain
tenon_inspect
tenon_main
tenon_verb
"""

GENERATE = """
tenon_answer_create
tenon_answer_destroy
tenon_answer_next
tenon_language_model_chat
tenon_language_model_destroy
tenon_language_model_detokenize
tenon_language_model_facts
tenon_language_model_open
tenon_language_model_score
tenon_language_model_tokenize
tenon_sequence_create
tenon_sequence_destroy
tenon_sequence_memory
tenon_text_destroy
tenon_tokens_destroy
"""
