#!/usr/bin/env python3
"""Trains a pruned module on: distillation from the dense one, a cosine schedule, a fifth of the rate that the dense one was trained with.

    from finetune_pruned import finetune
    dense = copy.deepcopy(module)
    tenon.prune.apply(module, "r.json")
    finetune(module, dense, batches, epochs=4, rate=4e-3 / 5)

`batches` is called for each epoch and gives pairs of inputs and labels. Relies on torch alone; docs/prune.md has the whole way.
"""

import torch
from torch.nn import functional

TEMPERATURE = 4.0  # Of the two distributions that are compared (Hinton et al., 2015): small probabilities say what classes are alike.
FROM_TEACHER = 0.7  # The share of the loss that is the distance to the dense module.


def distillation(student, teacher, labels):
    """The divergence from the teacher's softened classes, with cross-entropy of the labels."""
    soft = functional.kl_div(functional.log_softmax(student / TEMPERATURE, 1), functional.log_softmax(teacher / TEMPERATURE, 1),
                             reduction="batchmean", log_target=True) * TEMPERATURE**2
    return FROM_TEACHER * soft + (1 - FROM_TEACHER) * functional.cross_entropy(student, labels)


def finetune(module, dense, batches, epochs, rate, decay=0.05):
    """Trains `module` in place. The rate falls from `rate` to zero as half a cosine."""
    dense.eval()
    steps = epochs * sum(1 for _ in batches())
    optimizer = torch.optim.AdamW(module.parameters(), lr=rate, weight_decay=decay)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
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
