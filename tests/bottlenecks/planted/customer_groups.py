"""Groups customers with k-means, in plain Python.

Problem: python-work
Needs: numpy
"""

import os
import random

import numpy as np

STEPS = int(os.environ.get("STEPS", "25"))
FIXED = os.environ.get("FIXED") == "1"


def nearest_in_python(points, centres):
    found = []
    for point in points:
        distances = [
            sum((a - b) ** 2 for a, b in zip(point, centre, strict=True))  # guilty
            for centre in centres  # guilty
        ]
        found.append(distances.index(min(distances)))
    return found


def nearest_in_numpy(points, centres):
    points, centres = np.asarray(points), np.asarray(centres)
    return ((points[:, None] - centres) ** 2).sum(-1).argmin(1).tolist()


def moved(points, members, count):
    groups = [[] for _ in range(count)]
    for point, member in zip(points, members, strict=True):
        groups[member].append(point)
    return [
        [sum(axis) / len(group) for axis in zip(*group, strict=True)] if group else [0.0] * 6
        for group in groups
    ]


random.seed(1)
customers = [[random.gauss(i % 5, 1.0) for _ in range(6)] for i in range(4000)]
centres = customers[:8]
for _ in range(STEPS):
    if FIXED:
        members = nearest_in_numpy(customers, centres)
    else:
        members = nearest_in_python(customers, centres)  # guilty
    centres = moved(customers, members, len(centres))
print("largest group:", max(members.count(i) for i in range(8)))
