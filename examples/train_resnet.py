"""Trains a ResNet-18 on random images. It knows nothing of Stepscope.

Profile it with `stepscope run examples/train_resnet.py --steps 8`.
"""

from __future__ import annotations

import argparse

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.data import DataLoader, TensorDataset


class Block(nn.Module):
    """Two 3x3 convolutions and the way around them."""

    def __init__(self, channels_in: int, channels: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(channels_in, channels, 3, stride, padding=1, bias=False)
        self.norm1 = nn.BatchNorm2d(channels)
        self.conv2 = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.norm2 = nn.BatchNorm2d(channels)
        self.shortcut = nn.Sequential()
        if stride != 1 or channels_in != channels:
            self.shortcut = nn.Sequential(
                nn.Conv2d(channels_in, channels, 1, stride, bias=False), nn.BatchNorm2d(channels)
            )

    def forward(self, x: Tensor) -> Tensor:
        y = functional.relu(self.norm1(self.conv1(x)))
        return functional.relu(self.norm2(self.conv2(y)) + self.shortcut(x))


class ResNet18(nn.Module):
    """Four stages of two blocks each."""

    def __init__(self, classes: int) -> None:
        super().__init__()
        self.stem = nn.Sequential(
            nn.Conv2d(3, 64, 7, stride=2, padding=3, bias=False),
            nn.BatchNorm2d(64),
            nn.ReLU(),
            nn.MaxPool2d(3, stride=2, padding=1),
        )
        widths = (64, 128, 256, 512)
        blocks: list[nn.Module] = []
        for before, width in zip((64, *widths), widths, strict=False):
            blocks += [Block(before, width, 1 if before == width else 2), Block(width, width, 1)]
        self.stages = nn.Sequential(*blocks)
        self.head = nn.Linear(512, classes)

    def forward(self, images: Tensor) -> Tensor:
        features = self.stages(self.stem(images))
        return self.head(features.mean((2, 3)))


def main() -> None:
    parser = argparse.ArgumentParser(description="Train a ResNet-18 on random images.")
    parser.add_argument("--steps", type=int, default=8)
    parser.add_argument("--batch", type=int, default=4)
    parser.add_argument("--size", type=int, default=64, help="pixels along an image's side")
    args = parser.parse_args()

    torch.manual_seed(0)
    count = args.steps * args.batch
    data = TensorDataset(
        torch.randn(count, 3, args.size, args.size), torch.randint(0, 10, (count,))
    )
    model = ResNet18(classes=10)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.001, momentum=0.9)
    for step, (images, labels) in enumerate(DataLoader(data, args.batch, shuffle=True)):
        loss = functional.cross_entropy(model(images), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(f"step {step}: loss {loss.item():.3f}")


if __name__ == "__main__":
    main()
