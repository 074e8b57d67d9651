"""The flags of the verbs as options of steps. Written by scripts/flag_reference.py.

NAME is a text, NAME* several, NAME! a switch, NAME:KIND another kind of option.
"""

FLAGS = {
    "doctor": "help! json! quiet! progress calibrate! output",
    "inspect": "help! json! quiet! progress registry format output all! shape* isa variant users:integer tokens:integer max_memory:integer draft_model profile",
    "check": "help! json! quiet! progress registry target* shape* kernel_library* unchecked_kernels! ram flash rows! input_rows! layout users:integer tokens:integer max_memory:integer draft_model strict!",
    "compile": "help! json! quiet! progress registry output name ram flash rows! input_rows! layout rounding target* device_profile precision allow* state* shape* session* optimize_for* pages:integer cache invariant! tp:integer pp:integer pin* cubin! ptxas guard! tap* plugin* kernel_library* unchecked_kernels! kernel* disable_family* max_weights strict! verify! stop_after dump_phases reproducer threads:integer force! budget store no_cache!",
    "quantize": "help! json! quiet! progress registry data output ranges percentile:number samples:integer precision dynamic! per_tensor! weights_only weights text int4_form keep* narrow* reduce_range! no_smoothing! no_bias_correction! accuracy_drop latency report test metric budget error_samples:integer state threads:integer no_cache!",
    "prune": "help! json! quiet! progress registry ratio latency output recipe importance scores keep* multiple:integer shape* seconds no_timing! threads:integer target* device_profile precision allow* state* no_cache!",
    "run": "help! json! quiet! progress registry output inputs* mean std layout resize! shape* batch:integer fill* seed session* threads:integer variant isa no_verify_weights! budget target* device_profile precision allow* state* no_cache!",
    "bench": "help! json! quiet! progress registry ab against device format output shape* batch:integer fill* seed session* inputs* mean std layout resize! threads:integer variant isa no_verify_weights! seconds runs:integer cold! no_overlap! regions! intervals! probes! kernels per_family:integer budget target* device_profile precision allow* state* no_cache!",
    "profile": "help! json! quiet! progress registry top:integer ab html trace layers layer_times shape* batch:integer fill* seed session* inputs* mean std layout resize! threads:integer variant isa no_verify_weights! seconds target* device_profile precision allow* state* no_cache!",
    "tune": "help! json! quiet! progress registry output time store resume! again! allow_noise! shape* target* device_profile precision allow* state* no_cache!",
    "cache": "help! json! quiet! progress registry output store shape* target* device_profile precision allow* state*",
    "compare": "help! json! quiet! progress registry layers! rtol atol map* inputs* mean std layout resize! shape* batch:integer fill* seed target* device_profile precision allow* state* kernel_library* unchecked_kernels! threads:integer",
    "accuracy": "help! json! quiet! progress registry data metric* reference output batch:integer shape* seconds threads:integer variant isa no_verify_weights! target* device_profile precision allow* state* no_cache!",
    "explain": "help! json! quiet! progress registry all! shape* isa variant tp* pp micro_batches pin* target device_profile precision all_reduce context load pages check!",
    "generate": "help! json! quiet! progress registry system chat! raw! template schema max_tokens:integer context:integer max_memory:integer answers:integer logprobs! temperature:number top_k top_p:number min_p:number repetition_penalty:number frequency_penalty:number presence_penalty:number seed logit_bias* stop* threads:integer variant isa no_verify_weights! target* device_profile precision allow* state* no_cache!",
    "tokenize": "help! json! quiet! progress registry special!",
    "score": "help! json! quiet! progress registry text against window:integer max_tokens:integer threads:integer variant isa no_verify_weights! target* device_profile precision allow* state* no_cache!",
    "debug": "help! json! quiet! progress registry output inputs shape* seed seconds target* kernel_library* unchecked_kernels! threads:integer",
    "sign": "help! json! quiet! progress registry key certificate_chain* ignore* output",
    "verify": "help! json! quiet! progress registry trusted* signature ignore* ignore_unsigned!",
    "serve": "help! json! quiet! progress select registry require_signature* name lenient! address token_file tls_cert tls_key insecure! port:integer threads:integer queue:integer memory_budget:integer gpu_memory_budget:integer users:integer tokens:integer urgent draft_model draft_tokens:integer cache_size max_body:integer max_push:integer max_memory:integer max_bodies:integer max_connections:integer client_timeout drain drift_reference* drift_window:integer watch_share on_drift on_canary webhook label_age otlp trace_share routes!",
    "help": "help! json! quiet! progress completion",
}  # fmt: skip
