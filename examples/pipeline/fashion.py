"""What fashion.yaml takes from Python: a module of PyTorch, trained in some seconds, and the pictures to calibrate and to test with."""

import gzip
import pathlib

import numpy as np

from tenon import pipeline

FOLDER = pathlib.Path("/usr/share/datasets/fashion-mnist")
TRAINED, EPOCHS, BATCH = 12_000, 3, 64


def pictures(split):
    """All pictures and labels of "train" or "t10k"."""
    with gzip.open(FOLDER / f"{split}-images-idx3-ubyte.gz") as file:
        images = np.frombuffer(file.read(), np.uint8, offset=16).reshape(-1, 1, 28, 28).astype(np.float32) / 255
    with gzip.open(FOLDER / f"{split}-labels-idx1-ubyte.gz") as file:
        return images, np.frombuffer(file.read(), np.uint8, offset=8).astype(np.int64)


def module():
    """The module, an example of its inputs, and which sizes are free. The same numbers each time: one thread, one seed."""
    import torch

    torch.manual_seed(0)
    torch.set_num_threads(1)
    net = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(784, 96), torch.nn.ReLU(), torch.nn.Linear(96, 10))
    images, labels = (torch.from_numpy(each[:TRAINED]) for each in pictures("train"))
    optimizer = torch.optim.Adam(net.parameters(), 2e-3)
    for _ in range(EPOCHS):
        for rows in torch.randperm(TRAINED).split(BATCH):
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(net(images[rows]), labels[rows]).backward()
            optimizer.step()

    class Fashion(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.net = net

        def forward(self, image):
            return self.net(image)

    return Fashion().eval(), (images[:2],), {"image": {0: torch.export.Dim("batch", max=256)}}


@pipeline.step("data", outputs={"calibration": "calibration.npz", "test": "test.npz"})
def data(calibration, test):
    images, labels = pictures("t10k")
    np.savez(calibration, image=images[:200])
    np.savez(test, image=images[200:4200], labels=labels[200:4200])
    return {"calibration": 200, "test": 4000}
