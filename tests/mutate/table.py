"""All guards, and what looks like one and is none."""

from . import claiming, figures, hosting, moving, ordering, others, pausing, releasing, settling
from .guard import Guard

GUARDS: list[Guard] = [
    *claiming.GUARDS,
    *releasing.GUARDS,
    *settling.GUARDS,
    *moving.GUARDS,
    *others.GUARDS,
    *figures.GUARDS,
    *hosting.GUARDS,
    *pausing.GUARDS,
    *ordering.GUARDS,
]
BY_NAME = {guard.name: guard for guard in GUARDS}
