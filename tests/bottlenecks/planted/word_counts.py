"""Counts words; a helper program on a pipe brings them into their base form. No framework.

Problem: waiting-io
Needs: nothing
"""

import os
import subprocess
import sys
from collections import Counter

STEPS = int(os.environ.get("STEPS", "60"))
FIXED = os.environ.get("FIXED") == "1"
HELPER = """
import sys, time
for line in sys.stdin:
    time.sleep(0.02)
    print(' '.join(word.rstrip('s') for word in line.split()), flush=True)
"""
WORDS = "models learns steps data weights cats trains layers batches losses gradients".split()


class Lemmatizer:
    def __init__(self):
        self.helper = subprocess.Popen(
            [sys.executable, "-S", "-c", HELPER],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.known = {}

    def __call__(self, words):
        if FIXED:
            for word in set(words) - self.known.keys():
                self.known[word] = self.ask([word])[0]
            return [self.known[word] for word in words]
        return self.ask(words)  # guilty

    def ask(self, words):
        self.helper.stdin.write(" ".join(words) + "\n")
        self.helper.stdin.flush()
        return self.helper.stdout.readline().split()  # guilty

    def close(self):
        self.helper.stdin.close()
        self.helper.wait()


lemmatize = Lemmatizer()
counts, pairs = Counter(), Counter()
for page in range(STEPS):
    text = [WORDS[(page * i * i + i) % len(WORDS)] for i in range(12_000)]
    words = lemmatize(text)  # guilty
    counts.update(words)
    pairs.update(zip(words, words[1:], strict=False))
lemmatize.close()
print(counts.most_common(1), len(pairs))
