"""Writes text with a transformer, token by token, with a cache of keys and values.

Problem: none
Needs: torch
"""

import os

import torch
from torch import nn

STEPS = int(os.environ.get("STEPS", "100"))
WORDS, WIDTH, HEADS = 4000, 512, 8


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.mlp = nn.Sequential(
            nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH)
        )

    def forward(self, x, past):
        batch, length, _ = x.shape
        qkv = self.qkv(self.norm1(x)).view(batch, length, 3, HEADS, -1).permute(2, 0, 3, 1, 4)
        q, k, v = qkv
        if past is not None:
            k, v = torch.cat([past[0], k], 2), torch.cat([past[1], v], 2)
        y = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=past is None)
        x = x + self.out(y.transpose(1, 2).reshape(batch, length, WIDTH))
        return x + self.mlp(self.norm2(x)), (k, v)


class Decoder(nn.Module):
    def __init__(self, depth=6):
        super().__init__()
        self.embed = nn.Embedding(WORDS, WIDTH)
        self.layers = nn.ModuleList(Layer() for _ in range(depth))
        self.norm = nn.LayerNorm(WIDTH)

    def forward(self, tokens, cache):
        x = self.embed(tokens)
        remaining = []
        for layer, past in zip(self.layers, cache, strict=True):
            x, now = layer(x, past)
            remaining.append(now)
        return self.norm(x[:, -1]) @ self.embed.weight.T, remaining


@torch.inference_mode()
def generate(model, prompt, count):
    cache = [None] * len(model.layers)
    tokens, made = prompt, []
    for _ in range(count):
        scores, cache = model(tokens, cache)
        best, indices = scores.topk(50)
        drawn = torch.multinomial(best.softmax(-1), 1)
        tokens = indices.gather(1, drawn)
        made.append(tokens)
    return torch.cat(made, 1)


torch.manual_seed(0)
decoder = Decoder().eval()
text = generate(decoder, torch.randint(0, WORDS, (8, 64)), STEPS)
print(text.shape)
