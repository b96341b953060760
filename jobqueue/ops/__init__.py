"""What people and monitors read: the figures of the moment, and the sums of costs. Nothing here changes a job."""
