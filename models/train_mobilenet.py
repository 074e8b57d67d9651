#!/usr/bin/env python3
"""Trains a net of inverted residuals, as MobileNetV2, on Fashion-MNIST and writes it as ONNX with its weights inside: the depthwise net that pruning is
held to. As train_fashion_cnn.py, on which it relies; a minute on a GPU (--device cuda). Its weights are not kept in models/.

The blocks are those of Sandler et al., "MobileNetV2: Inverted Residuals and Linear Bottlenecks" (2018), for pictures of one channel of 28 x 28.
"""

from torch import nn

import train_fashion_cnn as fashion

EXPANSION = 4
STAGES = ((16, 1, 1), (24, 2, 2), (32, 3, 2), (64, 3, 1), (96, 2, 1))  # width, blocks, stride of the first


def conv(inputs, outputs, side=1, stride=1, groups=1, act=True):
    layers = [nn.Conv2d(inputs, outputs, side, stride, padding=side // 2, groups=groups, bias=False), nn.BatchNorm2d(outputs)]
    return nn.Sequential(*layers, *([nn.ReLU6()] if act else []))


class InvertedResidual(nn.Module):
    def __init__(self, inputs, outputs, stride):
        super().__init__()
        hidden = inputs * EXPANSION
        self.layers = nn.Sequential(conv(inputs, hidden), conv(hidden, hidden, 3, stride, hidden), conv(hidden, outputs, act=False))
        self.adds = stride == 1 and inputs == outputs

    def forward(self, x):
        return x + self.layers(x) if self.adds else self.layers(x)


class MobileNet(nn.Module):
    def __init__(self, classes=len(fashion.CLASSES)):
        super().__init__()
        self.stem = conv(1, 16, 3)
        blocks, inputs = [], 16
        for width, count, stride in STAGES:
            for block in range(count):
                blocks.append(InvertedResidual(inputs, width, stride if block == 0 else 1))
                inputs = width
        self.blocks = nn.Sequential(*blocks)
        self.last = conv(inputs, 256)
        self.classifier = nn.Linear(256, classes)

    def forward(self, image):
        return self.classifier(self.last(self.blocks(self.stem(image))).mean(dim=(2, 3)))


if __name__ == "__main__":
    fashion.main(MobileNet, "mobilenet_fashion.onnx", __doc__, epochs=20)
