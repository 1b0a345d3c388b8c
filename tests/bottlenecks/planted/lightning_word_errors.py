"""Trains with Lightning and counts wrong letters in every training step.

Problem: python-work
Needs: torch, lightning
"""

import logging
import os
import warnings

import lightning
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

STEPS = int(os.environ.get("STEPS", "60"))
FIXED = os.environ.get("FIXED") == "1"
warnings.filterwarnings("ignore")
logging.getLogger("lightning").setLevel(logging.ERROR)
logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)


def edit_distance(read, meant):
    before = list(range(len(meant) + 1))
    for i, a in enumerate(read, 1):
        row = [i]
        for j, b in enumerate(meant, 1):  # guilty
            row.append(min(before[j] + 1, row[-1] + 1, before[j - 1] + (a != b)))  # guilty
        before = row
    return before[-1]


class Reader(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(300, 600), nn.ReLU(), nn.Linear(600, 300))

    def training_step(self, batch, _):
        (letters,) = batch
        out = self.net(letters)
        if not FIXED:
            read = out.detach()[0, :220].round().tolist()
            self.log("errors", float(edit_distance(read, letters[0, :220].tolist())))  # guilty
        return nn.functional.mse_loss(out, letters)

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters())


torch.manual_seed(0)
trainer = lightning.Trainer(
    accelerator="cpu",
    max_epochs=1,
    logger=False,
    enable_checkpointing=False,
    enable_progress_bar=False,
    enable_model_summary=False,
)
letters = torch.randint(0, 26, (STEPS * 64, 300)).float()
trainer.fit(Reader(), DataLoader(TensorDataset(letters), batch_size=64))
print(trainer.global_step)
