"""All guards, and what looks like one and is none."""

from . import claiming, moving, others, releasing, settling
from .guard import Guard

GUARDS: list[Guard] = [
    *claiming.GUARDS,
    *releasing.GUARDS,
    *settling.GUARDS,
    *moving.GUARDS,
    *others.GUARDS,
]
BY_NAME = {guard.name: guard for guard in GUARDS}
