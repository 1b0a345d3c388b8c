"""Programs whose memory grows, and the lines that `stepscope run` names for them."""
