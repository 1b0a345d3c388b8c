"""Answers requests with a model in four threads; one lock guards the model and the reply.

Problem: waiting-lock
Needs: torch
"""

import os
import queue
import threading
import time

import torch
from torch import nn

STEPS = int(os.environ.get("STEPS", "160"))
FIXED = os.environ.get("FIXED") == "1"
model_lock = threading.Lock()


class Service:
    def __init__(self):
        torch.manual_seed(0)
        self.model = nn.Sequential(nn.Linear(256, 512), nn.ReLU(), nn.Linear(512, 8)).eval()
        self.requests = queue.Queue()
        self.answers = []

    @torch.inference_mode()
    def predict(self, inputs):
        return self.model(inputs).argmax(1).sum().item()

    def reply(self, answer):
        time.sleep(0.02)  # the client's network
        self.answers.append(answer)

    def work(self):
        while (inputs := self.requests.get()) is not None:
            if FIXED:
                with model_lock:
                    answer = self.predict(inputs)
                self.reply(answer)
            else:
                with model_lock:  # guilty
                    self.reply(self.predict(inputs))  # guilty


service = Service()
threads = [threading.Thread(target=service.work) for _ in range(4)]
for thread in threads:
    thread.start()
for i in range(STEPS):
    service.requests.put(torch.full((256, 256), i / STEPS))
for _ in threads:
    service.requests.put(None)
for thread in threads:
    thread.join()
print(len(service.answers))
