"""Starts a function on all ranks: the programs beside it are about one rank that is late."""

import os
import socket

import torch
import torch.distributed as dist
import torch.multiprocessing as mp

RANKS = int(os.environ.get("RANKS", "4"))
LATE = int(os.environ.get("LATE", "2"))  # the rank that is late
STEPS = int(os.environ.get("STEPS", "40"))


def free_port():
    with socket.socket() as result:
        result.bind(("127.0.0.1", 0))
        return result.getsockname()[1]


def start(rank, port, work):
    torch.set_num_threads(1)
    torch.manual_seed(rank)
    dist.init_process_group(
        "gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=RANKS
    )
    work(rank)
    dist.barrier()
    dist.destroy_process_group()


def on_all_ranks(work):
    mp.spawn(start, args=(free_port(), work), nprocs=RANKS)
