"""Child processes that run handlers, the zygote that forks them, and what travels between them and the supervisor."""
