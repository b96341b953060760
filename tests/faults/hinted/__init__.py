"""Workers whose hints never come, come tenfold, come late, or come among garbage: only latency may differ."""
