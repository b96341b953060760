"""Twenty minutes of steady load and random faults, and nothing lost, doubled, leaked or left (`make soak`)."""
