"""Draws classified pictures as one sheet: each with the class it got, in green when right and in red when not.

Relies on pillow and numpy.
"""

import numpy as np
from PIL import Image, ImageDraw, ImageFont

SCALE = 3
MARGIN = 6
LABEL = 26
BACKGROUND = (250, 250, 250)
RIGHT = (20, 120, 50)
WRONG = (190, 30, 30)


def tile(picture, text, truth):
    """One picture of uint8 grays, enlarged, with its class below and the true one where that differs."""
    side = picture.shape[0] * SCALE
    image = Image.new("RGB", (side + 2 * MARGIN, side + 2 * MARGIN + LABEL), BACKGROUND)
    large = Image.fromarray(picture).resize((side, side), Image.Resampling.NEAREST)
    color = RIGHT if truth is None else WRONG
    draw = ImageDraw.Draw(image)
    draw.rectangle((MARGIN - 3, MARGIN - 3, MARGIN + side + 2, MARGIN + side + 2), fill=color)
    image.paste(large, (MARGIN, MARGIN))
    font = ImageFont.load_default(size=10)
    draw.text((MARGIN, MARGIN + side + 4), text, fill=color, font=font)
    if truth is not None:
        draw.text((MARGIN, MARGIN + side + 15), f"is: {truth}", fill=color, font=font)
    return image


def sheet(pictures, logits, labels, classes, columns):
    """An image of all pictures (n x 28 x 28, uint8) with their softmax winners."""
    shifted = np.exp(logits - logits.max(axis=1, keepdims=True))
    shares = shifted / shifted.sum(axis=1, keepdims=True)
    tiles = []
    for picture, share, label in zip(pictures, shares, labels):
        winner = int(share.argmax())
        truth = None if winner == label else classes[label]
        tiles.append(tile(picture, f"{classes[winner]} {share[winner]:.0%}", truth))
    width, height = tiles[0].size
    rows = -(-len(tiles) // columns)
    image = Image.new("RGB", (columns * width, rows * height), BACKGROUND)
    for index, one in enumerate(tiles):
        image.paste(one, (index % columns * width, index // columns * height))
    return image
