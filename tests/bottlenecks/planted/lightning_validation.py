"""Trains with Lightning, which validates after every batch.

Problem: evaluation-every-step
Needs: torch, lightning
"""

import logging
import os
import warnings

import lightning
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

STEPS = int(os.environ.get("STEPS", "90"))
FIXED = os.environ.get("FIXED") == "1"
warnings.filterwarnings("ignore")
logging.getLogger("lightning").setLevel(logging.ERROR)
logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)


class Classifier(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(400, 1000), nn.ReLU(), nn.Linear(1000, 5))

    def training_step(self, batch, _):
        inputs, labels = batch
        return nn.functional.cross_entropy(self.net(inputs), labels)

    def validation_step(self, batch, _):
        inputs, labels = batch
        self.log("val_loss", nn.functional.cross_entropy(self.net(inputs), labels))  # guilty

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.01)


def loader(count, size):
    return DataLoader(TensorDataset(torch.randn(count, 400), torch.arange(count) % 5), size)


torch.manual_seed(0)
trainer = lightning.Trainer(
    accelerator="cpu",
    max_epochs=1,
    val_check_interval=STEPS if FIXED else 1,  # guilty
    logger=False,
    enable_checkpointing=False,
    enable_progress_bar=False,
    enable_model_summary=False,
)
model = Classifier()
trainer.fit(model, loader(STEPS * 64, 64), loader(512, 128))  # guilty
print(trainer.global_step)
