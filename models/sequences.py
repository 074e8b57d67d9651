"""T5, Whisper, an LSTM and a decoding loop for export.py: encoders and decoders apart, sequences of any length.

Relies on torch and transformers; the weights are seeded as architectures.py says.
"""

import torch
from torch import nn
from transformers import T5Config, T5ForConditionalGeneration, WhisperConfig, WhisperForConditionalGeneration

from architectures import Architecture, randomize, token_inputs, uniform

T5_LENGTH = 512
WHISPER_LENGTH = 448


class T5Encoded(nn.Module):
    def __init__(self, encoder):
        super().__init__()
        self.encoder = encoder

    def forward(self, input_ids, attention_mask):
        return self.encoder(input_ids=input_ids, attention_mask=attention_mask).last_hidden_state


class WhisperEncoded(nn.Module):
    def __init__(self, encoder):
        super().__init__()
        self.encoder = encoder

    def forward(self, input_features):
        return self.encoder(input_features).last_hidden_state


class T5Decoded(nn.Module):
    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, decoder_input_ids, encoder_hidden_states, encoder_mask):
        decoded = self.model.decoder(input_ids=decoder_input_ids, encoder_hidden_states=encoder_hidden_states,
                                     encoder_attention_mask=encoder_mask, use_cache=False).last_hidden_state
        return self.model.lm_head(decoded * self.model.config.d_model**-0.5)


class WhisperDecoded(nn.Module):
    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, decoder_input_ids, encoder_hidden_states):
        decoded = self.model.model.decoder(input_ids=decoder_input_ids, encoder_hidden_states=encoder_hidden_states,
                                           use_cache=False).last_hidden_state
        return self.model.proj_out(decoded)


def t5():
    """The shape of t5-small. Its scores have no scale, so that queries are to be small. Of the usual 128 distances the 16th lies
    on the border of two buckets, where the rounding of a logarithm would decide.
    """
    config = T5Config(d_model=512, d_kv=64, d_ff=2048, num_layers=6, num_heads=8, relative_attention_max_distance=100,
                      use_cache=False)
    model = randomize(T5ForConditionalGeneration(config))
    for name, weight in model.named_parameters():
        if name.endswith(".q.weight"):
            uniform(weight, (config.d_model * config.d_kv) ** -0.5)
    uniform(model.shared.weight, 1.0)
    return model


def t5_encoder():
    model = t5()
    inputs = token_inputs(model.config.vocab_size, ["input_ids", "attention_mask"])
    limits = {"input_ids": model.config.vocab_size - 1, "attention_mask": 1}
    return Architecture(T5Encoded(model.encoder).eval(), inputs, ["last_hidden_state"], limits, T5_LENGTH)


def t5_decoder():
    model = t5()
    tokens = token_inputs(model.config.vocab_size, ["input_ids", "attention_mask"])
    inputs = {"decoder_input_ids": tokens["input_ids"][:, :7], "encoder_hidden_states": torch.randn(2, 16, 512),
              "encoder_mask": tokens["attention_mask"]}
    encoder = {0: "batch", 1: "encoder_sequence"}
    return Architecture(T5Decoded(model).eval(), inputs, ["logits"],
                        {"decoder_input_ids": model.config.vocab_size - 1, "encoder_mask": 1}, T5_LENGTH,
                        axes={"encoder_hidden_states": encoder, "encoder_mask": encoder},
                        ranges={"encoder_sequence": (1, T5_LENGTH)})


def whisper():
    """The shape of whisper-tiny."""
    return randomize(WhisperForConditionalGeneration(WhisperConfig(
        d_model=384, encoder_layers=4, decoder_layers=4, encoder_attention_heads=6, decoder_attention_heads=6,
        encoder_ffn_dim=1536, decoder_ffn_dim=1536, num_mel_bins=80, vocab_size=51865)))


def whisper_encoder():
    model = whisper()
    return Architecture(WhisperEncoded(model.model.encoder).eval(), {"input_features": torch.randn(1, 80, 3000)},
                        ["last_hidden_state"])


def whisper_decoder():
    model = whisper()
    inputs = {"decoder_input_ids": token_inputs(model.config.vocab_size, ["input_ids"])["input_ids"][:, :7],
              "encoder_hidden_states": torch.randn(2, 1500, 384)}
    return Architecture(WhisperDecoded(model).eval(), inputs, ["logits"],
                        {"decoder_input_ids": model.config.vocab_size - 1}, WHISPER_LENGTH,
                        axes={"encoder_hidden_states": {0: "batch"}})


class GreedyLoop(nn.Module):
    """Decodes until a row gives the last token, or a number of steps: scripted, so that the loop stays one."""

    def __init__(self, vocabulary: int, width: int, steps: int):
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, width)
        self.inner = nn.Linear(width, width)
        self.outer = nn.Linear(width, width)
        self.head = nn.Linear(width, vocabulary)
        self.end, self.steps = vocabulary - 1, steps

    def forward(self, state):
        hidden = torch.tanh(self.outer(state))
        token = torch.zeros(state.size(0), dtype=torch.int64)
        tokens = token.unsqueeze(1)
        step = 0
        runs = True
        while runs and step < self.steps:
            hidden = torch.tanh(self.inner(self.embedding(token)) + self.outer(hidden))
            token = self.head(hidden).argmax(-1)
            tokens = torch.cat([tokens, token.unsqueeze(1)], 1)
            step += 1
            runs = bool((token != self.end).all())
        return tokens, hidden


def greedy_loop():
    model = randomize(GreedyLoop(24, 64, 12))
    uniform(model.embedding.weight, 1.0)
    return Architecture(torch.jit.script(model), {"state": torch.randn(2, 64)}, ["tokens", "hidden"],
                        output_axes={"tokens": {0: "batch", 1: "steps"}})


class Tagger(nn.Module):
    """A bidirectional LSTM of two layers over tokens."""

    def __init__(self, vocabulary, width, classes):
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, width)
        self.lstm = nn.LSTM(width, width, num_layers=2, bidirectional=True, batch_first=True)
        self.head = nn.Linear(2 * width, classes)

    def forward(self, input_ids):
        states, (hidden, _) = self.lstm(self.embedding(input_ids))
        return self.head(states), hidden


def lstm():
    model = randomize(Tagger(1000, 64, 12))
    uniform(model.embedding.weight, 1.0)
    for weight in model.lstm.parameters():
        uniform(weight, 1.5 * 64**-0.5)
    return Architecture(model, token_inputs(1000, ["input_ids"]), ["tags", "hidden"], {"input_ids": 999}, 64,
                        output_axes={"hidden": {1: "batch"}})
