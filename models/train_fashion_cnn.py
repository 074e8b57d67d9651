#!/usr/bin/env python3
"""Trains the demo's small CNN on Fashion-MNIST and writes it as ONNX with its weights inside.

Relies on torch, onnx and Debian's package dataset-fashion-mnist; about four minutes on two cores.
"""

import argparse
import gzip
import json
import pathlib
import time

import numpy as np
import onnx
import torch
from torch import nn

CLASSES = ["T-shirt/top", "Trouser", "Pullover", "Dress", "Coat",
           "Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot"]
# As `tenon run --inputs picture.png` reads it; pixels are divided by 255 before mean and std.
PREPROCESSING = json.dumps({"mean": [0.0], "std": [1.0], "layout": "nchw", "resize": False,
                            "note": "grayscale, light clothes on black"})


class ConvNormRelu(nn.Sequential):
    def __init__(self, inputs, outputs):
        super().__init__(nn.Conv2d(inputs, outputs, 3, padding=1, bias=False),
                         nn.BatchNorm2d(outputs), nn.ReLU())


class FashionCnn(nn.Module):
    """Small, yet it has what bigger nets have: BatchNorm, a residual sum, max and mean pooling."""

    def __init__(self):
        super().__init__()
        self.stem = ConvNormRelu(1, 32)
        self.widen = ConvNormRelu(32, 64)
        self.inner = ConvNormRelu(64, 64)
        self.deep = ConvNormRelu(64, 128)
        self.pool = nn.MaxPool2d(2)
        self.classifier = nn.Linear(128, len(CLASSES))

    def forward(self, image):
        x = self.widen(self.pool(self.stem(image)))
        x = self.pool(x + self.inner(x))
        x = self.deep(x).mean(dim=(2, 3))
        return self.classifier(x)


def load_split(folder, prefix, device):
    with gzip.open(folder / f"{prefix}-images-idx3-ubyte.gz") as stream:
        images = np.frombuffer(stream.read(), np.uint8, offset=16).reshape(-1, 1, 28, 28)
    with gzip.open(folder / f"{prefix}-labels-idx1-ubyte.gz") as stream:
        labels = np.frombuffer(stream.read(), np.uint8, offset=8)
    return torch.from_numpy(images.copy()).to(device), torch.from_numpy(labels.astype(np.int64)).to(device)


def accuracy(model, images, labels):
    model.eval()
    with torch.inference_mode():
        right = sum((model(part.float() / 255).argmax(1) == truth).sum().item()
                    for part, truth in zip(images.split(1000), labels.split(1000)))
    return right / len(labels)


def train(model, images, labels, epochs, batch):
    steps = epochs * (len(images) // batch)
    optimizer = torch.optim.AdamW(model.parameters(), lr=4e-3, weight_decay=0.05)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 4e-3, total_steps=steps)
    loss_of = nn.CrossEntropyLoss(label_smoothing=0.05)
    for epoch in range(epochs):
        model.train()
        start, total = time.time(), 0.0
        order = torch.randperm(len(images))[: len(images) // batch * batch]
        for chosen in order.view(-1, batch):
            x = images[chosen].float() / 255
            if torch.rand(()) < 0.5:
                x = x.flip(3)
            loss = loss_of(model(x), labels[chosen])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
            total += loss.item()
        print(f"epoch {epoch + 1}/{epochs}: loss {total * batch / len(order):.4f}, "
              f"{time.time() - start:.0f} s", flush=True)


def export(model, path, test_accuracy):
    """The older exporter with training mode kept for BatchNorm, so that the nodes stay unfolded."""
    model.eval()
    torch.onnx.export(model, (torch.zeros(2, 1, 28, 28),), path, dynamo=False, opset_version=17,
                      input_names=["image"], output_names=["logits"], do_constant_folding=False,
                      dynamic_axes={"image": {0: "batch"}, "logits": {0: "batch"}},
                      training=torch.onnx.TrainingMode.PRESERVE)
    proto = onnx.load(path)
    for node in proto.graph.node:
        node.doc_string = ""
    properties = {"preprocessing": PREPROCESSING, "classes": json.dumps(CLASSES),
                  "test_accuracy": f"{test_accuracy:.4f}"}
    onnx.helper.set_model_props(proto, properties)
    onnx.checker.check_model(proto, full_check=True)
    onnx.save(proto, path)


def main(make_model, name, description, epochs):
    here = pathlib.Path(__file__).resolve().parent
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--data", type=pathlib.Path,
                        default=pathlib.Path("/usr/share/datasets/fashion-mnist"))
    parser.add_argument("-o", "--output", type=pathlib.Path, default=here / name)
    parser.add_argument("--epochs", type=int, default=epochs)
    parser.add_argument("--batch", type=int, default=128)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--device", default="cpu", help="cpu or cuda")
    options = parser.parse_args()

    torch.manual_seed(options.seed)
    torch.set_num_threads(options.threads)
    model = make_model().to(options.device, memory_format=torch.channels_last)
    train(model, *load_split(options.data, "train", options.device), options.epochs, options.batch)
    test_accuracy = accuracy(model, *load_split(options.data, "t10k", options.device))
    print(f"test accuracy {test_accuracy:.4f}")
    export(model.to("cpu", memory_format=torch.contiguous_format), str(options.output), test_accuracy)


if __name__ == "__main__":
    main(FashionCnn, "fashion_cnn.onnx", __doc__, epochs=6)
