"""People with and without the permissions of the actions."""

from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.auth.models import Permission, User


@pytest.fixture
def make_user(db: None) -> Callable[..., User]:
    """Return the function that makes a staff user with permissions by codename: make_user("retry_job")."""

    def make(*codenames: str, username: str = "operator", **fields: Any) -> User:
        user = User.objects.create_user(username, is_staff=True, **fields)
        permissions = Permission.objects.filter(content_type__app_label="jobqueue", codename__in=codenames)
        assert permissions.count() == len(codenames)
        user.user_permissions.set(permissions)
        return User.objects.get(pk=user.pk)

    return make
