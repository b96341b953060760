"""Pages and figures over rows that no verb would have written."""

from typing import Any

import pytest
from django.db import transaction
from django.test import Client
from hypothesis import given
from hypothesis import strategies as st

from .rows import act_on_each, insert, look_at_every_page, look_at_jobs
from .values import ROWS

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("quiet")]

COSTLY = 8  # a hundred requests each


@given(rows=st.lists(ROWS, min_size=1, max_size=4))
def test_every_page_stands_whatever_the_rows_hold(rows: list[dict[str, Any]], admin_client: Client) -> None:
    with transaction.atomic():
        ids = [pk for row in rows if (pk := insert(row)) is not None]

        look_at_every_page(admin_client, ids)
        act_on_each(admin_client, ids)
        look_at_jobs(admin_client, ids)

        transaction.set_rollback(True)
