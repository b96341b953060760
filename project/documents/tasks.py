"""A task of django.tasks beside the handlers: the same queue and worker run both."""

from django.db.models import Count, Max

from jobqueue import Limits
from jobqueue.backends import policy, task
from project.documents.models import Document


@task(queue_name="documents")
@policy(max_attempts=3, limits=Limits(duration=30), dedupe=True)
def find_duplicates(smallest_bytes: int = 1) -> dict[str, int]:
    """Tell how many files are copies of another one, and how many bytes these take."""
    groups = (
        Document.objects.filter(size_bytes__gte=smallest_bytes)
        .values("sha256")
        .annotate(files=Count("pk"), bytes=Max("size_bytes"))
        .filter(files__gt=1)
    )
    copies = [(group["files"] - 1, group["bytes"]) for group in groups]
    return {"copies": sum(count for count, _ in copies), "bytes": sum(count * size for count, size in copies)}
