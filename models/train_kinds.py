#!/usr/bin/env python3
"""Trains small nets of other kinds than ResNet on Fashion-MNIST and writes them as ONNX: what quantization is held to beside nets that packages carry.

`vit` (attention), `mixer` (products alone), `convnext` (depthwise 7 x 7, LayerNorm, GELU), `squeeze` (inverted residuals with hardswish and gates),
`unet` (removes noise; its output is a picture), `dense` (concatenations). Relies on train_fashion_cnn.py; a minute each on a GPU (--device cuda).
"""

import argparse
import pathlib

import torch
from torch import nn
from torch.nn import functional

import train_fashion_cnn as fashion

WIDTH, PATCH = 64, 4
PLACES = (28 // PATCH) ** 2
CLASSES = len(fashion.CLASSES)


class Attention(nn.Module):
    def __init__(self, heads=4):
        super().__init__()
        self.heads, self.norm, self.mlp_norm = heads, nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.mlp = nn.Sequential(nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH))

    def forward(self, x):
        q, k, v = (part.reshape(-1, PLACES, self.heads, WIDTH // self.heads).transpose(1, 2) for part in self.qkv(self.norm(x)).split(WIDTH, 2))
        mixed = (q @ k.transpose(2, 3) * (WIDTH // self.heads) ** -0.5).softmax(3) @ v
        x = x + self.out(mixed.transpose(1, 2).reshape(-1, PLACES, WIDTH))
        return x + self.mlp(self.mlp_norm(x))


class Mixing(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.mlp_norm = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.places = nn.Sequential(nn.Linear(PLACES, 128), nn.GELU(), nn.Linear(128, PLACES))
        self.mlp = nn.Sequential(nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH))

    def forward(self, x):
        x = x + self.places(self.norm(x).transpose(1, 2)).transpose(1, 2)
        return x + self.mlp(self.mlp_norm(x))


class Patches(nn.Module):
    def __init__(self, block, depth=4):
        super().__init__()
        self.stem, self.place = nn.Conv2d(1, WIDTH, PATCH, PATCH), nn.Parameter(torch.randn(PLACES, WIDTH) * 0.02)
        self.blocks, self.norm, self.head = nn.Sequential(*(block() for _ in range(depth))), nn.LayerNorm(WIDTH), nn.Linear(WIDTH, CLASSES)

    def forward(self, image):
        return self.head(self.norm(self.blocks(self.stem(image).flatten(2).transpose(1, 2) + self.place)).mean(1))


class Next(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.depthwise, self.norm = nn.Conv2d(width, width, 7, padding=3, groups=width), nn.LayerNorm(width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x):
        return x + self.mlp(self.norm(self.depthwise(x).permute(0, 2, 3, 1))).permute(0, 3, 1, 2)


class ConvNext(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(1, 32, 2, 2), Next(32), Next(32), nn.Conv2d(32, 64, 2, 2), Next(64), Next(64))
        self.norm, self.head = nn.LayerNorm(64), nn.Linear(64, CLASSES)

    def forward(self, image):
        return self.head(self.norm(self.body(image).mean(dim=(2, 3))))


class Gated(nn.Module):
    def __init__(self, inputs, outputs, stride):
        super().__init__()
        hidden = 4 * inputs
        self.widen = nn.Sequential(nn.Conv2d(inputs, hidden, 1, bias=False), nn.BatchNorm2d(hidden), nn.Hardswish())
        self.depthwise = nn.Sequential(nn.Conv2d(hidden, hidden, 5, stride, 2, groups=hidden, bias=False), nn.BatchNorm2d(hidden), nn.Hardswish())
        self.gate = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Conv2d(hidden, hidden // 4, 1), nn.ReLU(), nn.Conv2d(hidden // 4, hidden, 1), nn.Hardsigmoid())
        self.narrow = nn.Sequential(nn.Conv2d(hidden, outputs, 1, bias=False), nn.BatchNorm2d(outputs))
        self.adds = stride == 1 and inputs == outputs

    def forward(self, x):
        y = self.depthwise(self.widen(x))
        y = self.narrow(y * self.gate(y))
        return x + y if self.adds else y


class Squeeze(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(fashion.ConvNormRelu(1, 16), Gated(16, 24, 2), Gated(24, 24, 1), Gated(24, 40, 2), Gated(40, 40, 1), Gated(40, 64, 1))
        self.head = nn.Linear(64, CLASSES)

    def forward(self, image):
        return self.head(self.body(image).mean(dim=(2, 3)))


class Dense(nn.Module):
    def __init__(self, growth=16):
        super().__init__()
        self.stem, self.pool, self.layers, width = fashion.ConvNormRelu(1, 16), nn.AvgPool2d(2), nn.ModuleList(), 16
        for _ in range(8):
            self.layers.append(nn.Sequential(nn.BatchNorm2d(width), nn.ReLU(), nn.Conv2d(width, growth, 3, padding=1)))
            width += growth
        self.head = nn.Linear(width, CLASSES)

    def forward(self, image):
        x = self.pool(self.stem(image))
        for i, layer in enumerate(self.layers):
            x = torch.cat([x, layer(x)], 1)
            x = self.pool(x) if i == 3 else x
        return self.head(x.mean(dim=(2, 3)))


class Unet(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second, self.third = fashion.ConvNormRelu(1, 32), fashion.ConvNormRelu(32, 64), fashion.ConvNormRelu(64, 64)
        self.pool, self.up, self.raised = nn.MaxPool2d(2), nn.ConvTranspose2d(64, 32, 2, 2), nn.Upsample(scale_factor=2, mode="nearest")
        self.fourth, self.fifth, self.last = fashion.ConvNormRelu(128, 64), fashion.ConvNormRelu(64, 32), nn.Conv2d(32, 1, 3, padding=1)

    def forward(self, image):
        fine = self.first(image)
        middle = self.second(self.pool(fine))
        coarse = self.raised(self.third(self.pool(middle)))
        return self.last(self.fifth(torch.cat([fine, self.up(self.fourth(torch.cat([middle, coarse], 1)))], 1)))


KINDS = {"vit": lambda: Patches(Attention), "mixer": lambda: Patches(Mixing), "convnext": ConvNext, "squeeze": Squeeze, "dense": Dense, "unet": Unet}
NOISE = 0.3


def train(model, images, labels, epochs, rate=2e-3, batch=128):
    steps = epochs * (len(images) // batch)
    optimizer = torch.optim.AdamW(model.parameters(), lr=rate, weight_decay=0.05)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, rate, total_steps=steps, pct_start=0.1)
    model.train()
    for _ in range(epochs):
        for chosen in torch.randperm(len(images), device=images.device)[: len(images) // batch * batch].split(batch):
            x = images[chosen].float() / 255
            if isinstance(model, Unet):
                loss = functional.mse_loss(model(x + NOISE * torch.randn_like(x)), x)
            else:
                loss = functional.cross_entropy(model(x), labels[chosen], label_smoothing=0.05)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
    model.eval()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=pathlib.Path, default=pathlib.Path("/usr/share/datasets/fashion-mnist"))
    parser.add_argument("--output", type=pathlib.Path, default=pathlib.Path("."))
    parser.add_argument("--epochs", type=int, default=6)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("nets", nargs="*", default=list(KINDS))
    options = parser.parse_args()
    images, labels = fashion.load_split(options.data, "train", options.device)
    for name in options.nets:
        torch.manual_seed(0)
        model = KINDS[name]().to(options.device)
        train(model, images, labels, options.epochs)
        if name != "unet":
            print(f"{name}: {fashion.accuracy(model, *fashion.load_split(options.data, 't10k', options.device)):.2%}", flush=True)
        torch.onnx.export(model.cpu(), (torch.zeros(2, 1, 28, 28),), options.output / f"{name}_fashion.onnx", input_names=["image"], output_names=["logits"], dynamo=True,
                          dynamic_shapes={"image": {0: torch.export.Dim("batch")}}, external_data=False, verbose=False)


if __name__ == "__main__":
    main()
