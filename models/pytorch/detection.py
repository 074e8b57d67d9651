"""torchvision's detectors as modules that torch.export takes: one picture in, tensors out.

Relies on torchvision. Where its own code asks how many boxes there are, which only data says, an equal form that does not
ask takes its place. Two last steps are loops over the boxes, which torch.export cannot follow, and are left to the caller:
masks come as the net gives them instead of pasted into the picture, keypoints as maps of their scores.
"""

import torch
import torchvision
from torch import nn
from torchvision.models.detection import roi_heads, transform
from torchvision.models.detection._utils import BoxCoder
from torchvision.ops import poolers


def batched_nms(boxes, scores, labels, threshold):
    """Boxes of other labels are moved away; torchvision's own chooses between this and a loop over the labels."""
    offsets = labels.to(boxes) * (boxes.max() + 1)
    return torchvision.ops.nms(boxes + offsets[:, None], scores, threshold)


def multiscale_roi_align(maps, boxes, output_size, sampling_ratio, scales, mapper):
    """torchvision's own takes the number of boxes by len(), which cannot be a symbol."""
    rois = poolers._convert_to_roi_format(boxes)
    levels = mapper(boxes)
    result = maps[0].new_zeros((rois.shape[0], maps[0].shape[1], *output_size))
    for level, (values, scale) in enumerate(zip(maps, scales)):
        chosen = torch.where(levels == level)[0]
        result[chosen] = torchvision.ops.roi_align(values, rois[chosen], output_size, scale, sampling_ratio)
    return result


def decode(coder, codes, boxes):
    """torchvision's own asks whether there are boxes before it reshapes."""
    return coder.decode_single(codes, torch.cat(boxes)).reshape(codes.shape[0], codes.shape[1] // 4, 4)


def maps_of_keypoints(maps, boxes):
    """In the place of keypoints and their scores: the maps and the largest of each."""
    return [maps], [maps.amax((2, 3))]


class Detections(nn.Module):
    """A detector for one picture: a dict of boxes, scores, labels and, where it has them, masks or keypoints."""

    def __init__(self, model):
        super().__init__()
        self.model = model
        torchvision.ops.boxes.batched_nms = batched_nms
        BoxCoder.decode = decode
        transform.paste_masks_in_image = lambda masks, boxes, size: masks
        roi_heads.keypointrcnn_inference = maps_of_keypoints
        transform.resize_keypoints = lambda maps, old, new: maps
        poolers._multiscale_roi_align = multiscale_roi_align

    def forward(self, image):
        found = self.model([image[0]])
        return (found[1] if isinstance(found, tuple) else found)[0]
