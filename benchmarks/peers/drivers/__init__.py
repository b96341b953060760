"""One module a peer, run by the peer's own interpreter: nothing here imports this project, but the driver of ours."""
