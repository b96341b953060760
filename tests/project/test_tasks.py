"""The example project's task of django.tasks."""

import pytest
from django.utils import timezone

from jobqueue.testing import drain
from project.documents.models import Document
from project.documents.tasks import find_duplicates


@pytest.mark.smoke
@pytest.mark.django_db
def test_copies_are_counted_by_content() -> None:
    for path, digest, size in [
        ("a", "1", 10),
        ("b", "1", 10),
        ("c", "1", 10),
        ("d", "2", 5),
        ("e", "3", 1),
        ("f", "3", 1),
    ]:
        Document.objects.create(
            path=path, kind=Document.Kind.TEXT, sha256=digest, size_bytes=size, indexed_at=timezone.now(), job_id=1
        )
    result, again = find_duplicates.enqueue(), find_duplicates.enqueue()
    larger = find_duplicates.enqueue(smallest_bytes=2)
    drain()
    result.refresh()
    larger.refresh()

    assert again.id == result.id
    assert result.return_value == {"copies": 3, "bytes": 21}
    assert larger.return_value == {"copies": 2, "bytes": 20}
