"""A training loop that waits for its data: every item is decoded and augmented in the loop itself.

Profile it with `stepscope run examples/slow_dataloader.py`,
and again with `--workers 2` or `--prepared`.
"""

from __future__ import annotations

import argparse

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Pictures(Dataset):
    """Pictures that are costly to read: each is blurred many times, as decoding would take."""

    def __len__(self) -> int:
        return 128

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        if index >= len(self):
            raise IndexError(index)
        picture = torch.rand(3, 64, 64, generator=torch.Generator().manual_seed(index))
        for _ in range(12):
            picture = nn.functional.avg_pool2d(picture, 5, stride=1, padding=2)
        return picture, index % 10


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--workers", type=int, default=0, help="processes that load")
    parser.add_argument("--prepared", action="store_true", help="read every picture once, before")
    args = parser.parse_args()

    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(3, 8, 3, stride=2), nn.ReLU(), nn.Flatten(), nn.LazyLinear(10))
    model(torch.rand(1, 3, 64, 64))  # tells the lazy layer its size
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    pictures = list(Pictures()) if args.prepared else Pictures()
    loader = DataLoader(pictures, batch_size=16, num_workers=args.workers)
    for batch, labels in loader:
        loss = nn.functional.cross_entropy(model(batch), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(f"loss {loss.item():.3f}")


if __name__ == "__main__":
    main()
