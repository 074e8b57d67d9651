#!/usr/bin/env python3
"""Trains a small language model on WordNet's glosses and writes it as ONNX: what quantization's perplexity is held to.

A decoder as GPT-2's (pre-norm, learned positions, the head shares the embedding), 4 blocks of width 128 over 2,048 pieces of words, 64 at once.
Relies on torch, tokenizers, onnx and Debian's package wordnet-base; about eight minutes on one core. Writes gloss_lm.onnx and
gloss_lm.npz with rows of ids: `train` and `test`.
"""

import argparse
import pathlib
import time

import numpy as np
import torch
from tokenizers import ByteLevelBPETokenizer
from torch import nn
from torch.nn import functional

import glosses

WIDTH, BLOCKS, HEADS, LENGTH, WORDS = 128, 4, 4, 64, 2048


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.attention_norm, self.mlp_norm = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x, mask):
        q, k, v = (part.view(x.shape[0], LENGTH, HEADS, -1).transpose(1, 2) for part in self.qkv(self.attention_norm(x)).split(WIDTH, 2))
        scores = q @ k.transpose(2, 3) * (WIDTH // HEADS) ** -0.5 + mask
        x = x + self.out((scores.softmax(3) @ v).transpose(1, 2).reshape(x.shape))
        return x + self.down(functional.gelu(self.up(self.mlp_norm(x))))


class GlossLm(nn.Module):
    def __init__(self):
        super().__init__()
        self.words, self.places = nn.Embedding(WORDS, WIDTH), nn.Embedding(LENGTH, WIDTH)
        self.blocks = nn.ModuleList(Block() for _ in range(BLOCKS))
        self.norm = nn.LayerNorm(WIDTH)
        self.register_buffer("mask", torch.full((LENGTH, LENGTH), -1e4).triu(1))
        for module in self.modules():
            if isinstance(module, (nn.Linear, nn.Embedding)):
                nn.init.normal_(module.weight, std=0.02 if isinstance(module, nn.Embedding) else module.weight.shape[1] ** -0.5)

    def forward(self, input_ids):
        x = self.words(input_ids) + self.places.weight
        for block in self.blocks:
            x = block(x, self.mask)
        return self.norm(x) @ self.words.weight.T


def rows_of(tokenizer, texts):
    """One stream of all texts, each behind a line break, cut into rows."""
    ids = np.array([i for encoded in tokenizer.encode_batch(["\n" + text for text in texts]) for i in encoded.ids])
    return ids[:len(ids) // LENGTH * LENGTH].reshape(-1, LENGTH)


def loss_of(model, rows):
    logits = model(rows)
    return functional.cross_entropy(logits[:, :-1].reshape(-1, WORDS), rows[:, 1:].reshape(-1))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=pathlib.Path, default=pathlib.Path("."))
    parser.add_argument("--epochs", type=int, default=1)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rate", type=float, default=3e-3)
    args = parser.parse_args()
    torch.manual_seed(0)
    torch.set_num_threads(args.threads)
    training, test = ([text for text, _ in rows] for rows in glosses.split(glosses.read()))
    tokenizer = ByteLevelBPETokenizer()
    tokenizer.train_from_iterator(training, vocab_size=WORDS, show_progress=False)
    training, test = (torch.from_numpy(rows_of(tokenizer, texts)) for texts in (training, test))
    np.savez(args.output / "gloss_lm.npz", train=training.numpy(), test=test.numpy())
    model = GlossLm()
    steps = args.epochs * (len(training) // args.batch)
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.rate, weight_decay=0.05, betas=(0.9, 0.98))
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, args.rate, total_steps=steps, pct_start=0.05)
    start, step = time.monotonic(), 0
    for epoch in range(args.epochs):
        for rows in training[torch.randperm(len(training))].split(args.batch)[:len(training) // args.batch]:
            optimizer.zero_grad()
            loss = loss_of(model, rows)
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            schedule.step()
            step += 1
            if step % 100 == 0:
                print(f"{step}/{steps}: loss {loss:.3f}, {time.monotonic() - start:.0f} s", flush=True)
        with torch.inference_mode():
            value = torch.stack([loss_of(model, rows) for rows in test[:512].split(64)]).mean().exp()
        print(f"epoch {epoch + 1}: perplexity {value:.2f}", flush=True)
    model.eval()
    torch.onnx.export(model, (test[:2],), args.output / "gloss_lm.onnx", input_names=["input_ids"], output_names=["logits"], dynamo=True,
                      dynamic_shapes={"input_ids": {0: torch.export.Dim("batch")}}, external_data=False, verbose=False)


if __name__ == "__main__":
    main()
