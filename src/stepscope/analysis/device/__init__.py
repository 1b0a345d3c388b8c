"""What devices did: busy time, kernels, copies, communication, launch queues, counters."""
