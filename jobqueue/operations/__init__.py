"""The only door through which a person changes the state of jobs and queues: retry, discard, cancel, release, pause.

Admin, commands and HTTP views call these functions. Each checks the actor's permission, takes ids or a QuerySet of any
size, and works through it in ascending ids, a batch of 1,000 a transaction: what is done stays done when the rest is
interrupted, and the audit row (models.Action) of a batch is committed with it or not at all. A QuerySet is bounded by
the newest id at the start and every id is met once: jobs that die again as fast as they are retried are not
met again. Within a caller's transaction all of it is that transaction's, and nothing is kept if it rolls back.
"""

from .acting import PERMISSIONS, REASON_CHARACTERS, Report, Targets, User, check_permission, name_of, refused
from .alerts import change_alert, check_alert, mute_alert
from .editing import edit_field, judge_payload
from .exporting import export_audit
from .field_edits import FieldEdit, NoEdit
from .field_paths import BadPath, parse_path, write_path
from .groups import NOTE_CHARACTERS, Group, NoteChanged, hand_over, mute_groups, note_group, of_group
from .jobs import cancel, default_spread, discard, release, retry
from .queues import pause_queue, resume_queue
from .refusals import Asked, asked_from
from .repairing import Seen, check_payload, clone, edit_and_retry, retry_at, unmask
from .workers import SILENT_AFTER, ask_stack, drain_worker, kill_job, mark_dead, stop_worker

__all__ = [
    "NOTE_CHARACTERS",
    "PERMISSIONS",
    "REASON_CHARACTERS",
    "SILENT_AFTER",
    "Asked",
    "BadPath",
    "FieldEdit",
    "Group",
    "NoEdit",
    "NoteChanged",
    "Report",
    "Seen",
    "Targets",
    "User",
    "ask_stack",
    "asked_from",
    "cancel",
    "change_alert",
    "check_alert",
    "check_payload",
    "check_permission",
    "clone",
    "default_spread",
    "discard",
    "drain_worker",
    "edit_and_retry",
    "edit_field",
    "export_audit",
    "hand_over",
    "judge_payload",
    "kill_job",
    "mark_dead",
    "mute_alert",
    "mute_groups",
    "name_of",
    "note_group",
    "of_group",
    "parse_path",
    "pause_queue",
    "refused",
    "release",
    "resume_queue",
    "retry",
    "retry_at",
    "stop_worker",
    "unmask",
    "write_path",
]
