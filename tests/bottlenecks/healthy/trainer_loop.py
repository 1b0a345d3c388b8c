"""A trainer in the manner of Hugging Face's, with callbacks, a schedule and clipped gradients.

Problem: none
Needs: torch
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

STEPS = int(os.environ.get("STEPS", "30"))


@dataclass
class TrainingArguments:
    max_steps: int = STEPS
    batch_size: int = 16
    learning_rate: float = 1e-3
    warmup_steps: int = 5
    logging_steps: int = 10
    max_grad_norm: float = 1.0


@dataclass
class TrainerState:
    global_step: int = 0
    log_history: list[dict[str, float]] = field(default_factory=list)


class TrainerCallback:
    def on_step_end(self, args: TrainingArguments, state: TrainerState) -> None:
        pass


class PrinterCallback(TrainerCallback):
    def on_step_end(self, args: TrainingArguments, state: TrainerState) -> None:
        if state.global_step % args.logging_steps == 0:
            print(state.log_history[-1])


class Tokens(Dataset):
    def __init__(self, count: int, length: int, words: int) -> None:
        self.tokens = torch.randint(0, words, (count, length))

    def __len__(self) -> int:
        return len(self.tokens)

    def __getitem__(self, index: int) -> dict[str, torch.Tensor]:
        return {"input_ids": self.tokens[index], "labels": self.tokens[index]}


class CausalLM(nn.Module):
    def __init__(self, words: int = 512, width: int = 128) -> None:
        super().__init__()
        self.embed = nn.Embedding(words, width)
        layer = nn.TransformerEncoderLayer(width, 4, 256, batch_first=True, dropout=0.0)
        self.layers = nn.TransformerEncoder(layer, 2)
        self.head = nn.Linear(width, words, bias=False)

    def forward(self, input_ids: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        mask = nn.Transformer.generate_square_subsequent_mask(input_ids.shape[1])
        scores = self.head(self.layers(self.embed(input_ids), mask=mask, is_causal=True))
        return nn.functional.cross_entropy(scores[:, :-1].flatten(0, 1), labels[:, 1:].flatten())


class Trainer:
    def __init__(
        self,
        model: nn.Module,
        args: TrainingArguments,
        train_dataset: Dataset,
        callbacks: list[TrainerCallback],
    ) -> None:
        self.model, self.args, self.callbacks = model, args, callbacks
        self.loader = DataLoader(train_dataset, batch_size=args.batch_size, shuffle=True)
        self.optimizer = torch.optim.AdamW(model.parameters(), lr=args.learning_rate, fused=True)
        self.scheduler = torch.optim.lr_scheduler.LambdaLR(
            self.optimizer, lambda step: min(1.0, (step + 1) / args.warmup_steps)
        )
        self.state = TrainerState()

    def training_step(self, inputs: dict[str, torch.Tensor]) -> torch.Tensor:
        self.model.train()
        loss = self.model(**inputs)
        loss.backward()
        return loss.detach()

    def train(self) -> TrainerState:
        running = torch.zeros(())
        for inputs in self.loader:
            running += self.training_step(inputs)
            nn.utils.clip_grad_norm_(self.model.parameters(), self.args.max_grad_norm)
            self.optimizer.step()
            self.scheduler.step()
            self.optimizer.zero_grad()
            self.state.global_step += 1
            if self.state.global_step % self.args.logging_steps == 0:
                mean = running.item() / self.args.logging_steps
                self.state.log_history.append({"loss": round(mean, 3)})
                running.zero_()
            for callback in self.callbacks:
                callback.on_step_end(self.args, self.state)
        return self.state


if __name__ == "__main__":
    torch.manual_seed(0)
    arguments = TrainingArguments()
    data = Tokens(arguments.max_steps * arguments.batch_size, 64, 512)
    Trainer(CausalLM(), arguments, data, [PrinterCallback()]).train()
