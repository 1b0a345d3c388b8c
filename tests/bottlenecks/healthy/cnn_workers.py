"""Trains a CNN in the manner of timm, from a DataLoader with a worker.

Problem: none
Needs: torch
"""

import os

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

STEPS = int(os.environ.get("STEPS", "24"))


class Images(Dataset):
    def __init__(self, count):
        self.images = torch.randint(0, 256, (128, 3, 72, 72), dtype=torch.uint8)
        self.count = count

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        top, rest = index % 8, index // 8 % 8
        image = self.images[index % 128][:, top : top + 64, rest : rest + 64]
        return image.float().div_(127.5).sub_(1.0), index % 10


class ConvNormAct(nn.Sequential):
    def __init__(self, inputs, outputs, kernel=3, stride=1, groups=1):
        super().__init__(
            nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, groups=groups, bias=False),
            nn.BatchNorm2d(outputs),
            nn.SiLU(inplace=True),
        )


class SqueezeExcite(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.reduce = nn.Conv2d(channels, channels // 8, 1)
        self.expand = nn.Conv2d(channels // 8, channels, 1)

    def forward(self, x):
        scale = x.mean((2, 3), keepdim=True)
        return x * torch.sigmoid(self.expand(torch.relu(self.reduce(scale))))


class Block(nn.Module):
    def __init__(self, inputs, outputs, stride):
        super().__init__()
        self.body = nn.Sequential(
            ConvNormAct(inputs, outputs, 3, stride),
            ConvNormAct(outputs, outputs, 3),
            SqueezeExcite(outputs),
        )
        self.shortcut = nn.Conv2d(inputs, outputs, 1, stride)

    def forward(self, x):
        return self.body(x) + self.shortcut(x)


def main():
    torch.manual_seed(0)
    widths = (24, 48, 96)
    model = nn.Sequential(
        ConvNormAct(3, 24, 3, 2),
        *(Block(a, b, 2) for a, b in zip((24, *widths), widths, strict=False)),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(96, 10),
    )
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, nesterov=True)
    loader = DataLoader(Images(STEPS * 32), batch_size=32, num_workers=1, shuffle=True)
    for images, labels in loader:
        loss = nn.functional.cross_entropy(model(images), labels, label_smoothing=0.1)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(f"{loss.item():.3f}")


if __name__ == "__main__":
    main()
