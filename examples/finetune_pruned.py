#!/usr/bin/env python3
"""Trains a pruned module on: statistics of its norms anew, distillation from the dense one, a short rise and a cosine to half the rate that the dense one
was trained with.

    from finetune_pruned import finetune
    dense = copy.deepcopy(module)
    tenon.prune.apply(module, "r.json")
    finetune(module, dense, batches, epochs=8, rate=4e-3 / 2)

`batches` is called for each epoch and gives pairs of inputs and labels. Relies on torch alone; docs/guides/prune.md has the whole way.
"""

import itertools

import torch
from torch.nn import functional
from torch.optim.swa_utils import update_bn

TEMPERATURE = 4.0  # Of the two distributions that are compared (Hinton et al., 2015): small probabilities say what classes are alike.
NORM_BATCHES = 100  # Of which BatchNorm takes its statistics before training: those of the dense net are of sums of channels that are gone.
FROM_TEACHER = 0.7  # The share of the loss that is the distance to the dense module.


def distillation(student, teacher, labels):
    """The divergence from the teacher's softened classes, with cross-entropy of the labels."""
    soft = functional.kl_div(functional.log_softmax(student / TEMPERATURE, 1), functional.log_softmax(teacher / TEMPERATURE, 1),
                             reduction="batchmean", log_target=True) * TEMPERATURE**2
    return FROM_TEACHER * soft + (1 - FROM_TEACHER) * functional.cross_entropy(student, labels)


def finetune(module, dense, batches, epochs, rate, decay=0.05):
    """Trains `module` in place. The rate rises to `rate` in a tenth of the steps, and falls to zero as half a cosine."""
    dense.eval()
    update_bn(itertools.islice(batches(), NORM_BATCHES), module)
    steps = epochs * sum(1 for _ in batches())
    optimizer = torch.optim.AdamW(module.parameters(), lr=rate, weight_decay=decay)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, rate, total_steps=steps, pct_start=0.1)
    for epoch in range(epochs):
        module.train()
        total, count = 0.0, 0
        for inputs, labels in batches():
            with torch.no_grad():
                teacher = dense(inputs)
            loss = distillation(module(inputs), teacher, labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
            total, count = total + loss.item(), count + 1
        print(f"epoch {epoch + 1}/{epochs}: loss {total / count:.4f}", flush=True)
    module.eval()
