"""NumPy arrays in a list, float64 copies."""

import time

import numpy as np


def features(image):
    scaled = image.astype(np.float64)  # allocates
    scaled -= scaled.mean()
    return scaled


def main():
    seen, rejected = [], []
    image = (np.random.rand(200, 200) * 255).astype(np.uint8)
    for _ in range(500):
        feature = features(image)
        if feature.max() > 1e9:
            rejected.append(feature)  # never runs
        seen.append(feature)
        np.linalg.svd(image[:60, :60].astype(np.float32))
        time.sleep(0.002)


main()
