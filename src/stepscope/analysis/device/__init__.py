"""What devices did: busy and idle time, kernels, copies, communication, launch queues."""
