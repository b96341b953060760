import pytest
from .test_matrix import PERMISSIONS
from .hostile import hostile_world
pytestmark = pytest.mark.django_db
LONG = "1" * 5000
CASES = {
 "job/": ["q","p","id__lt","id__gte","run_after__gte","finished_at__lte","status__exact","queue","job_type","fingerprint__exact","fingerprint__isnull"],
 "deadletter/": ["q","finished_at__gte","id__lt","job_type__exact","fingerprint__isnull"],
 "action/": ["q","who","what","since","refused","at__lte"],
 "incident/": ["rule","state__exact","broken_since__lte"],
 "attempt/": ["outcome__exact", "id__lt"],
 "stuckjob/part/": ["seen"],
 "deadletter/group/": ["job_type","fingerprint"],
 "cost/": ["month","period","owner","by","days","from","group"],
 "queue/pause/": ["queue"],
 "alertrule/mute/": ["rule"],
}
@pytest.mark.parametrize("value", ["\x00", LONG], ids=["nul","long"])
def test_fuzz(client_of, value):
    boss = client_of(*PERMISSIONS, username="boss"); boss.raise_request_exception = False
    world = hostile_world()
    bad = []
    def look(what, r):
        if r.status_code >= 500:
            e = getattr(r, "exc_info", None)
            bad.append(f"{what} {str(e[1])[:90] if e else ''}")
    for base, names in CASES.items():
        for n in names:
            look(f"{base}?{n}", boss.get(f"/admin/jobqueue/{base}", {n: value}))
    from urllib.parse import quote
    v = quote(value)
    for path in ("job/%s/change/","deadletter/%s/change/","stuckjob/%s/change/","attempt/%s/change/","worker/%s/change/","worker/%s/part/","worker/%s/drain/","incident/%s/change/","action/%s/change/","alertrule/%s/change/","alertrule/%s/history/","job/%s/history/","job/%s/edit/","job/%s/delete/", "overview/%s/"):
        look(path, boss.get("/admin/jobqueue/" + path.replace("%s", v)))
    look("POST drain", boss.post(f"/admin/jobqueue/worker/{v}/drain/", {"reason": ""}))
    look("POST ticked", boss.post("/admin/jobqueue/deadletter/", {"action": "retry", "index": 0, "_selected_action": value}))
    look("POST export", boss.post(f"/admin/jobqueue/action/export/?q={v}", {"format": "csv"}))
    look("POST kill", boss.post(f"/admin/jobqueue/job/{world.stuck.pk}/kill/", {"reason": value}))
    look("POST note", boss.post("/admin/jobqueue/deadletter/group/note/", {"fingerprint": value, "job_type": value, "note": "x"}))
    look("POST retry-at", boss.post(f"/admin/jobqueue/job/{world.dead.pk}/retry-at/", {"when": value, "reason": value}))
    look("POST act", boss.post(f"/admin/jobqueue/job/{world.dead.pk}/act/retry/", {"reason": value}))
    look("POST edit", boss.post(f"/admin/jobqueue/job/{world.dead.pk}/edit/", {"payload": value, "seen": f"{value}-2026-01-01T00:00:00Z"}))
    for f in ("path","value","name","find","newest","jobs","moment","most"):
        d = {"action":"edit_field","index":0,"_selected_action":world.dead.pk,"select_across":"1","preview":"1","path":"a","kind":"set","value":"1","name":"b","find":"x","newest":"99","jobs":"1","moment":"2026-01-01T00:00:00Z","then":"save"}
        look(f"POST edit_field {f}", boss.post("/admin/jobqueue/deadletter/", d | {f: value}))
    for p in ('["\\ud800"]', 'a["\\ud800"].b', 'a\u200bb', 'x'*900):
        look(f"path {p[:12]}", boss.post("/admin/jobqueue/deadletter/", d | {"path": p}))
    look("value surrogate", boss.post("/admin/jobqueue/deadletter/", d | {"most":"", "newest": "9999999", "moment":"2030-01-01T00:00:00Z", "value": '"\\ud800"'}))
    look("value surrogate", boss.post("/admin/jobqueue/deadletter/", d | {"most":"", "newest": "9999999", "moment":"2030-01-01T00:00:00Z", "value": LONG[:4900]}))
    print("\nBAD", value[:3], "\n" + "\n".join(bad))
    assert not bad
