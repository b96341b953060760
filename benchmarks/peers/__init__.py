"""The peers: other job queues, each driven in its own virtual environment by one protocol, and measured alike."""
