"""Language models: text in, text out, over libtenon_generate.so; the compiler makes an engine of what is not one yet."""

from __future__ import annotations

import ctypes
import dataclasses
import json
import math
import os
import tempfile
import threading
from typing import Any, Callable, Dict, Iterator, List, Mapping, NamedTuple, Optional, Sequence, Tuple, Union

from . import _abi, _compile, _errors
from ._engine import Engine, _destroy_with
from ._errors import check, door, usage

Prompt = Union[str, Sequence[Mapping[str, str]]]

_FINISHES = (None, "end", "stop", "length")
_MOST_ANSWERS = 1000


class Piece(NamedTuple):
    """What one more token gives. text: what has become certain with it, which may be empty. token: its number. logprob: the logarithm of
    its probability, before biases, penalties and temperature. top: the most probable tokens and their logprobs, as `top_logprobs`
    asks. answer: the index of the answer."""

    text: str
    token: int
    logprob: float
    top: Tuple[Tuple[int, float], ...]
    answer: int


@dataclasses.dataclass
class Answer:
    """An answer as far as it was read.

    text: without control tokens, and without the stop string that ended it.
    tokens, logprobs: of all pieces, also of the token that ended it.
    finish: "end" where the model ended its text, "stop" at a stop string, "length" at the last token or position, None before.
    """

    text: str = ""
    tokens: List[int] = dataclasses.field(default_factory=list)
    logprobs: List[float] = dataclasses.field(default_factory=list)
    finish: Optional[str] = None


class Generation(Iterator[Piece]):
    """The pieces of one or several answers, each computed when it is asked for. One thread at a time.

    It may be left early, by `break`, `close()` or Ctrl-C: the model is ready for the next prompt.
    prompt_tokens: the tokens that are answered.
    """

    def __init__(self, pieces: Iterator[Piece], prompt_tokens: List[int], answers: List[Answer]):
        self._pieces, self.prompt_tokens, self._answers = pieces, prompt_tokens, answers

    def __iter__(self) -> "Generation":
        return self

    def __next__(self) -> Piece:
        return next(self._pieces)

    def answers(self) -> List[Answer]:
        """All answers: computes what was not read yet."""
        for _ in self:
            pass
        return self._answers

    def close(self) -> None:
        """Ends the answer here."""
        self._pieces.close()  # type: ignore[attr-defined]


class LanguageModel:
    """A language model: a GGUF file, a Hugging Face folder, or an engine compiled from one.

    model: the path, or a tenon.Engine; what is not an engine is compiled first, or taken from the compile cache.
    context: positions of a sequence, when compiling; 2048 by default, or what the model was trained for if that is less.
    target: as for `tenon.compile`, "cpu" by default. variant, gpu: as for `tenon.load`.
    threads: CPU threads that work on a run; 0 means all that are usable.
    cache: False neither reads nor writes the compile cache. progress: as for `tenon.compile`.
    facts: what the file states and the engine has room for: "family", "chat_template", "vocabulary", "layers", "positions",
        "trained_positions".

    Threads. Any number may use one model. Each generation that runs at the same time holds a sequence with its keys and values; those
    that are done leave theirs to the next, so a conversation that goes on computes only what is new.
    """

    @door
    def __init__(self, model: Union[str, os.PathLike, Engine], *, context: int = 0, target: Optional[_compile.Names] = None,
                 variant: Optional[str] = None, gpu: int = 0, threads: int = 0, cache: bool = True,
                 progress: Optional[_compile.Progress] = None):  # fmt: skip
        self._library = _abi.generate()
        self._threads = _whole("threads", threads, 0, 2**32 - 1)
        context = _whole("context", context, 0, 1_000_000)
        self.path = model._file() if isinstance(model, Engine) else os.fspath(model)
        if self.path.startswith("registry:"):
            from . import registry

            self.path = registry.file_of(self.path)
        options = _abi.EngineOptions(variant=variant.encode() if variant else None, gpu=gpu)
        if _is_engine(self.path):
            self._open(self.path, options)
        else:
            # The file is mapped, and its name may go.
            with tempfile.TemporaryDirectory(prefix="run-", dir=_cache_folder() if cache else None) as folder:
                engine = os.path.join(folder, "model.tenon")
                wanted = dict(targets=_compile._names(target) or ["cpu"], shapes=[f"context:[1..{context}]"] if context else [], no_cache=not cache)
                _compile.compile_file(self.path, engine, wanted, progress)
                options.no_verify_weights = 1  # written just now
                self._open(engine, options)
        facts = _abi.LanguageFacts()
        check(self._library.tenon_language_model_facts(self._handle, ctypes.addressof(facts)))
        self.facts: Dict[str, Any] = {
            name: value.decode() if isinstance(value, bytes) else value for name, value in ((name, getattr(facts, name)) for name, _ in facts._fields_[1:])
        }
        self._first = _Sequence(self)
        self._free = [self._first]

    def _open(self, path: str, options: _abi.EngineOptions) -> None:
        handle = ctypes.c_void_p()
        check(self._library.tenon_language_model_open(os.fsencode(path), ctypes.addressof(options), ctypes.addressof(handle)))
        self._handle = handle.value
        _destroy_with(self, self._library.tenon_language_model_destroy)

    @door
    def generate(
        self,
        prompt: Prompt,
        *,
        system: str = "",
        raw: bool = False,
        template: Optional[str] = None,
        max_tokens: int = 512,
        temperature: float = 0.0,
        top_k: int = 0,
        top_p: float = 1.0,
        min_p: float = 0.0,
        repetition_penalty: float = 1.0,
        frequency_penalty: float = 0.0,
        presence_penalty: float = 0.0,
        logit_bias: Optional[Mapping[int, float]] = None,
        stop: _compile.Names = (),
        seed: int = 0,
        answers: int = 1,
        top_logprobs: int = 0,
        response_format: Optional[Mapping[str, Any]] = None,
    ) -> Generation:
        """Answers a prompt, token by token as the result is iterated.

        prompt: the user's message; or a conversation, [{"role": "user", "content": "..."}, ...], with the roles "system", "user" and "assistant".
        system: a system message before it.
        raw: continue the prompt as it is, without a chat template, as it is for a model that has none.
        template: the text of a chat template to use instead of the model's.
        max_tokens: tokens of an answer at most.
        temperature: 0 takes the most probable token; larger values draw more freely.
        top_k: draw from the K most probable tokens; 0 for all.
        top_p: draw from the fewest tokens whose probabilities reach this sum.
        min_p: draw from tokens at least so probable, as a share of the most probable.
        repetition_penalty: makes tokens of the prompt and the answer less probable; 1 for no penalty.
        frequency_penalty: subtracted from a token's logit each time it is generated.
        presence_penalty: subtracted from a token's logit once it has been generated.
        logit_bias: {token: bias}, added to the tokens' logits.
        stop: one text or several that end the answer, which are not part of it.
        seed: equal seeds draw equal tokens.
        answers: how many, one behind the other, each with the next seed.
        top_logprobs: how many of the most probable tokens each piece lists.
        response_format: what answers are held to, as of OpenAI's interface: {"type": "json_object"}, or
            {"type": "json_schema", "json_schema": {"schema": schema}}.
        The order is that of `tenon generate`: logit_bias, penalties, temperature, min_p, top_k, top_p. Raises UsageError for what is out of
        range, for a prompt that does not fit and for a schema that cannot be held.
        """
        tokens = self._tokens_of(prompt, system, raw, template)
        _whole("answers", answers, 1, _MOST_ANSWERS)
        _whole("seed", seed, 0, 2**64 - answers)
        stops = [_plain("stop", text) for text in _compile._names(stop)]
        biases = [_abi.LogitBias(_whole("logit_bias", token, 0, 2**31 - 1), bias) for token, bias in (logit_bias or {}).items()]
        # Zero stands for the default in C.
        for name, value in (("top_p", top_p), ("repetition_penalty", repetition_penalty)):
            if value == 0:
                raise usage("TN0105", f"{name} 0: it is above 0", f"see help({LanguageModel.generate.__qualname__})")
        options = _abi.GenerateOptions(
            repetition_penalty=repetition_penalty, frequency_penalty=frequency_penalty, presence_penalty=presence_penalty,
            temperature=temperature, min_p=min_p, top_k=_whole("top_k", top_k, 0, 2**31 - 1), top_p=top_p, seed=seed,
            biases=(_abi.LogitBias * len(biases))(*biases), bias_count=len(biases), max_tokens=_whole("max_tokens", max_tokens, 1, 2**31 - 1),
            stops=_abi.texts(stops), top_tokens=_whole("top_logprobs", top_logprobs, 0, 2**31 - 1),
            response_format=_bytes(json.dumps(response_format)) if response_format is not None else None,
        )  # fmt: skip
        _AnswerHandle(self._first, tokens, options)  # raises what the options raise
        made: List[Answer] = []
        return Generation(_pieces(self, tokens, options, answers, made), list(tokens), made)

    @door
    def tokenize(self, text: str, *, special: bool = False) -> List[int]:
        """The tokens of a text. special: reads the names of control tokens, such as <|im_end|>, as these tokens."""
        return list(self._encode(text, special))

    @door
    def detokenize(self, tokens: Sequence[int]) -> str:
        """The text of tokens. Control tokens have none, and bytes that are not UTF-8 are U+FFFD."""
        given = (ctypes.c_int32 * len(tokens))(*(_whole("a token", token, 0, 2**31 - 1) for token in tokens))
        text = _abi.Blob()
        check(self._library.tenon_language_model_detokenize(self._handle, ctypes.addressof(given), len(tokens), ctypes.addressof(text)))
        try:
            return ctypes.string_at(text.data, text.bytes).decode()
        finally:
            self._library.tenon_text_destroy(ctypes.addressof(text))

    @door
    def score(self, text: str, *, against: Union["LanguageModel", str, os.PathLike, Engine, None] = None, window: int = 0,
              max_tokens: Optional[int] = None, progress: Optional[Callable[[float], Any]] = None) -> Dict[str, Any]:  # fmt: skip
        """How well the model foresees a text, as `tenon score --json` prints it: means with 95 % intervals.

        against: a second model of the same vocabulary, to measure how far this one is from it.
        window: tokens that are read together; 512 by default, or what the engine holds.
        max_tokens: reads at most this number of tokens of the text.
        progress: called with the fraction that is read; a true result ends the call with CancelledError, as Ctrl-C ends it.
        """
        other = against if against is None or isinstance(against, LanguageModel) else LanguageModel(against, threads=self._threads)
        cancelled, failure = threading.Event(), []

        def told(user, fraction) -> int:
            try:
                stop = progress is not None and progress(fraction)
            except BaseException as error:  # it cannot pass through C
                failure.append(error)
                stop = True
            return 1 if stop or cancelled.is_set() else 0

        limit = 0 if max_tokens is None else _whole("max_tokens", max_tokens, 2, 2**31 - 1)
        options = _abi.ScoreOptions(window=_whole("window", window, 0, 2**31 - 1), max_tokens=limit, threads=self._threads, progress=_abi.ScoreProgress(told))
        found, data = _abi.Score(), _bytes(text)
        status = _compile._interruptible(
            lambda: self._library.tenon_language_model_score(
                self._handle, other._handle if other else None, data, len(data), ctypes.addressof(options), ctypes.addressof(found)
            ),
            cancelled,
        )
        if failure:
            if status:
                _errors.take(status)
            raise failure[0]
        check(status)
        surprise = found.surprise
        result = {
            "tokens": found.tokens,
            "perplexity": {name: math.exp(getattr(surprise, name)) for name in ("value", "low", "high")},
            "surprise": _mean(surprise),
        }
        return {**result, "kl_divergence": _mean(found.divergence), "same_top_token": _mean(found.same_top)} if other else result

    def memory(self) -> int:
        """Bytes that a sequence holds beside the weights."""
        held = ctypes.c_uint64()
        check(self._library.tenon_sequence_memory(self._first._handle, ctypes.addressof(held)))
        return held.value

    def _encode(self, text: str, special: bool) -> ctypes.Array:
        data, tokens = _bytes(text), _abi.Tokens()
        check(self._library.tenon_language_model_tokenize(self._handle, data, len(data), special, ctypes.addressof(tokens)))
        return self._take(tokens)

    def _tokens_of(self, prompt: Prompt, system: str, raw: bool, template: Optional[str]) -> ctypes.Array:
        is_chat = not isinstance(prompt, str) or system or template is not None
        if isinstance(prompt, str) and (raw or not (is_chat or self.facts["chat_template"])):
            return self._encode(prompt, False)
        messages = [{"role": "user", "content": prompt}] if isinstance(prompt, str) else list(prompt)
        messages = [*([{"role": "system", "content": system}] if system else []), *messages]
        if raw or not all(isinstance(message, Mapping) and {"role", "content"} <= message.keys() for message in messages):
            raise usage("TN0105", "the prompt is not a text nor a list of messages", 'for example [{"role": "user", "content": "Hello"}], without raw')
        contents = [_bytes(message["content"]) for message in messages]
        given = (_abi.Message * len(messages))(
            *((_plain("role", message["role"]).encode(), content, len(content)) for message, content in zip(messages, contents))
        )
        tokens = _abi.Tokens()
        check(self._library.tenon_language_model_chat(
            self._handle, _plain("template", template).encode() if template is not None else None, ctypes.addressof(given), len(messages), ctypes.addressof(tokens)
        ))  # fmt: skip
        return self._take(tokens)

    def _take(self, tokens: _abi.Tokens) -> ctypes.Array:
        """A copy; those of the library are freed."""
        own = (ctypes.c_int32 * tokens.count)(*tokens.data[: tokens.count])
        self._library.tenon_tokens_destroy(ctypes.addressof(tokens))
        return own


@door
def generate(model: Union[LanguageModel, str, os.PathLike, Engine], prompt: Prompt, *, context: int = 0, target: Optional[_compile.Names] = None,
             variant: Optional[str] = None, gpu: int = 0, threads: int = 0, cache: bool = True,
             progress: Optional[_compile.Progress] = None, **options: Any) -> Generation:  # fmt: skip
    """Answers a prompt with a language model, token by token as the result is iterated.

    model, context, target, variant, gpu, threads, cache, progress: as for `LanguageModel`, which a program with several prompts makes once.
    prompt, options: as for `LanguageModel.generate`.
    """
    if not isinstance(model, LanguageModel):
        model = LanguageModel(model, context=context, target=target, variant=variant, gpu=gpu, threads=threads, cache=cache, progress=progress)
    return model.generate(prompt, **options)


class _Sequence:
    def __init__(self, model: LanguageModel):
        handle, options = ctypes.c_void_p(), _abi.SequenceOptions(threads=model._threads)
        check(model._library.tenon_sequence_create(model._handle, ctypes.addressof(options), ctypes.addressof(handle)))
        self._library, self._handle = model._library, handle.value
        _destroy_with(self, self._library.tenon_sequence_destroy)


class _AnswerHandle:
    def __init__(self, sequence: _Sequence, tokens: ctypes.Array, options: _abi.GenerateOptions):
        handle, library = ctypes.c_void_p(), sequence._library
        check(library.tenon_answer_create(sequence._handle, ctypes.addressof(tokens), len(tokens), ctypes.addressof(options), ctypes.addressof(handle)))
        self._handle = handle.value
        _destroy_with(self, library.tenon_answer_destroy)


def _pieces(model: LanguageModel, tokens: ctypes.Array, options: _abi.GenerateOptions, count: int, made: List[Answer]) -> Iterator[Piece]:
    try:
        sequence = model._free.pop()
    except IndexError:
        sequence = _Sequence(model)
    step, piece = sequence._library.tenon_answer_next, _abi.Piece()
    try:
        for index in range(count):
            handle, answer = _AnswerHandle(sequence, tokens, options), Answer()
            made.append(answer)
            options.seed += 1
            while answer.finish is None:
                check(step(handle._handle, ctypes.addressof(piece)))
                text = ctypes.string_at(piece.text, piece.bytes).decode()
                answer.text += text
                answer.tokens.append(piece.draw.token)
                answer.logprobs.append(piece.draw.logprob)
                answer.finish = _FINISHES[piece.finish]
                top = tuple((draw.token, draw.logprob) for draw in piece.top[: piece.top_count])
                yield Piece(text, piece.draw.token, piece.draw.logprob, top, index)
    finally:
        model._free.append(sequence)


def _mean(mean: _abi.Mean) -> Dict[str, float]:
    return {"mean": mean.value, "low": mean.low, "high": mean.high}


def _bytes(text: str) -> bytes:
    """Half of a surrogate pair passes, which is not UTF-8: the library says where."""
    return text.encode("utf-8", "surrogatepass")


def _plain(name: str, text: str) -> str:
    if "\0" in text:
        raise usage("TN0105", f"{name} has a zero character", "leave it out")
    return text


def _whole(name: str, value: int, low: int, high: int) -> int:
    """The value, which C would cut to its bits."""
    if not low <= value <= high or value != int(value):
        raise usage("TN0105", f"{name} {value}: it is a whole number from {low} to {high}", "see help(tenon.LanguageModel)")
    return int(value)


def _is_engine(path: str) -> bool:
    try:
        with open(path, "rb") as file:
            return file.read(8) == b"\x89TENON\r\n"
    except IsADirectoryError:
        return False
    except OSError:  # which opening the engine says
        return True


def _cache_folder() -> Optional[str]:
    """Within the compile cache an engine for one process is another name of the cache's file, not a copy of it; None before there is one."""
    base = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    path = os.path.join(base, "tenon")
    return path if os.path.isdir(path) and os.access(path, os.W_OK) else None
