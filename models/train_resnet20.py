#!/usr/bin/env python3
"""Trains ResNet-20 on Fashion-MNIST and writes it as ONNX with its weights inside: the net that quantization and
pruning are held to. As train_fashion_cnn.py, on which it relies; a minute on a GPU (--device cuda), two
hours on one core.

The net is that of He et al., "Deep Residual Learning for Image Recognition" (2016), section 4.2, for pictures of one
channel: three stages of three blocks, 16, 32 and 64 channels wide; a shortcut that changes the width is a 1 x 1
convolution.
"""

from torch import nn

import train_fashion_cnn as fashion

BLOCKS = 3
WIDTHS = (16, 32, 64)


class Block(nn.Module):
    def __init__(self, inputs, outputs, stride):
        super().__init__()
        self.first = nn.Conv2d(inputs, outputs, 3, stride, padding=1, bias=False)
        self.first_norm = nn.BatchNorm2d(outputs)
        self.second = nn.Conv2d(outputs, outputs, 3, padding=1, bias=False)
        self.second_norm = nn.BatchNorm2d(outputs)
        self.shortcut = nn.Identity() if inputs == outputs else nn.Sequential(
            nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs))
        self.relu = nn.ReLU()

    def forward(self, x):
        inner = self.relu(self.first_norm(self.first(x)))
        return self.relu(self.second_norm(self.second(inner)) + self.shortcut(x))


class ResNet20(nn.Module):
    def __init__(self, classes=len(fashion.CLASSES)):
        super().__init__()
        self.stem = fashion.ConvNormRelu(1, WIDTHS[0])
        blocks, inputs = [], WIDTHS[0]
        for width in WIDTHS:
            for block in range(BLOCKS):
                blocks.append(Block(inputs, width, 2 if block == 0 and inputs != width else 1))
                inputs = width
        self.blocks = nn.Sequential(*blocks)
        self.classifier = nn.Linear(inputs, classes)

    def forward(self, image):
        return self.classifier(self.blocks(self.stem(image)).mean(dim=(2, 3)))


if __name__ == "__main__":
    fashion.main(ResNet20, "resnet20_fashion.onnx", __doc__, epochs=20)
