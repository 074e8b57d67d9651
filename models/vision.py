"""Detectors, a U-Net and Swin for export.py: what they have beyond classifiers is boxes that data selects, skips between
maps of any size, and shifted windows. Relies on torch and torchvision; the weights are seeded as architectures.py says.
"""

import numpy as np
import torch
import torch.nn.functional as F
import torchvision
from torch import nn

from architectures import Architecture, calibrated, image_inputs, randomize
from inputs import pictures


def swin_t():
    model = randomize(torchvision.models.swin_t(weights=None))
    return Architecture(model, image_inputs(), ["logits"])


class Twice(nn.Sequential):
    """Two convolutions, each with its norm."""

    def __init__(self, inner, outer):
        super().__init__(nn.Conv2d(inner, outer, 3, padding=1, bias=False), nn.BatchNorm2d(outer), nn.ReLU(),
                         nn.Conv2d(outer, outer, 3, padding=1, bias=False), nn.BatchNorm2d(outer), nn.ReLU())


class UNet(nn.Module):
    """Four times down and up again; a map that was halved with a rest is padded to the size of its skip."""

    def __init__(self, width, classes):
        super().__init__()
        widths = [width << level for level in range(5)]
        self.first = Twice(3, width)
        self.down = nn.ModuleList(Twice(a, b) for a, b in zip(widths, widths[1:]))
        self.grow = nn.ModuleList(nn.ConvTranspose2d(b, a, 2, stride=2) for a, b in zip(widths, widths[1:]))
        self.up = nn.ModuleList(Twice(b, a) for a, b in zip(widths, widths[1:]))
        self.last = nn.Conv2d(width, classes, 1)

    def forward(self, image):
        maps = [self.first(image)]
        for block in self.down:
            maps.append(block(F.max_pool2d(maps[-1], 2)))
        x = maps.pop()
        for grow, block in zip(reversed(self.grow), reversed(self.up)):
            skip, x = maps.pop(), grow(x)
            rows, columns = skip.size(2) - x.size(2), skip.size(3) - x.size(3)
            x = F.pad(x, [columns // 2, columns - columns // 2, rows // 2, rows - rows // 2])
            x = block(torch.cat([skip, x], 1))
        return self.last(x)


def unet():
    axes = {0: "batch", 2: "height", 3: "width"}
    inputs = {"image": torch.from_numpy(pictures((2, 3, 75, 53), np.random.default_rng(0)))}
    model = calibrated(randomize(UNet(16, 3)), inputs)
    return Architecture(model, inputs, ["mask"], axes={"image": axes}, output_axes={"mask": axes},
                        ranges={"height": (32, 512), "width": (32, 512)})


class Detections(nn.Module):
    """A detector of torchvision for one image: boxes, scores and labels, as many as there are."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, image):
        found = self.model([image[0]])
        found = found[1] if isinstance(found, tuple) else found
        return found[0]["boxes"], found[0]["scores"], found[0]["labels"]


def detector(model, size):
    """No size is symbolic but those of the results, which data decides."""
    inputs = {"image": torch.from_numpy(pictures((1, 3, size, size), np.random.default_rng(0)))}
    model = calibrated(Detections(randomize(model)).eval(), inputs)
    names = ["boxes", "scores", "labels"]
    return Architecture(model, inputs, names, axes={"image": {}}, output_axes={name: {0: "found"} for name in names})


def ssdlite():
    """ssdlite320_mobilenet_v3_large for four classes, which keeps the graph small."""
    return detector(torchvision.models.detection.ssdlite320_mobilenet_v3_large(
        weights=None, weights_backbone=None, num_classes=5, score_thresh=0.15, topk_candidates=60,
        detections_per_img=200), 320)


def faster_rcnn():
    """fasterrcnn_mobilenet_v3_large_320_fpn for seven classes on a small image."""
    return detector(torchvision.models.detection.fasterrcnn_mobilenet_v3_large_320_fpn(
        weights=None, weights_backbone=None, num_classes=8, min_size=160, max_size=160, rpn_pre_nms_top_n_test=100,
        rpn_post_nms_top_n_test=40, box_score_thresh=0.1, box_detections_per_img=100), 160)
