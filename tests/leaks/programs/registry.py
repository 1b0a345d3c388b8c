"""Every object registers itself in a class attribute."""

import time


class Node:
    every = {}
    removed = []

    def __init__(self, name, size):
        self.name = name
        self.weights = [0.5 * i for i in range(size)]  # allocates
        Node.every[name] = self

    def remove(self):
        Node.removed.append(self)  # never runs


def run(number):
    node = Node(f"n{number}", 1500)
    return sum(node.weights)


def main():
    total = 0
    for number in range(1600):
        total += run(number)
        time.sleep(0.002)


main()
