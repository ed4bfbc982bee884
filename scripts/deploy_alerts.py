"""What `scripts/deploy-checks` asks of the alerts: that what the pages call worth an alarm wakes somebody, when they say, and is on the dashboard.

That the alerts can be read, come when they should and name metrics that are there, the tests of the service see to by promtool (crates/server/tests/logs/deploy.rs).
"""

import json, re

import yaml

METRIC = r"\b(?:ratelimit|hivemind)_[a-z]+_[a-z_]+\b"
# What is worth a look on a page, and has no alert.
NOT_WOKEN = {
    "hivemind_access_refused_total": "how many are too many is for each to say",
    "hivemind_otlp_failures_total": "limits hold, and who scrapes still sees all",
    "hivemind_mesh_overlaps_total": "what it lets pass is HivemindOveradmission, whose runbook names it",
    "hivemind_mesh_peers": "limits hold; peers that are not reached are HivemindPeersLost",
    "hivemind_mesh_clock_offset_seconds": "a clock that is too far off ends as a lost peer, HivemindPeersLost",
}


def bounds(text):
    """Of each metric that is the moment at which something ends, the days before it at which a text tells, the first of them."""
    found = {}
    for metric, days in re.findall(r"(\w+) - time\(\) < (\d+) \* 86400", text):
        found[metric] = max(found.get(metric, 0), int(days))
    return found


class Alerts:
    """The part of the checks that is about deploy/prometheus and deploy/grafana."""

    def alerts(self):
        page = lambda path: (self.root / path).read_text()
        rules = [rule for group in yaml.safe_load(page("deploy/prometheus/alerts.yaml"))["groups"] for rule in group["rules"]]
        asked = " ".join(rule["expr"] for rule in rules)
        woken = set(re.findall(METRIC, asked))
        told = dict(re.findall(r"^\| `(Hivemind\w+)` \| (\w+) \|", page("docs/guide/telemetry.md"), re.M))
        for name, severity in {(rule["alert"], rule["labels"]["severity"]) for rule in rules} ^ set(told.items()):
            self.wrong("deploy/prometheus/alerts.yaml", f"{name} is {severity} there or in docs/guide/telemetry.md, and not in the other")
        watched = {
            "docs/guide/operations.md": "\n".join(re.findall(r"^\|([^|]*)\|", page("docs/guide/operations.md").split("## What to watch")[1].split("\n## ")[0], re.M)),
            "docs/reference/metrics.md": "\n".join(re.findall(r"^    (.*?)(?:   |$)", page("docs/reference/metrics.md").split("## Worth an alarm")[1].split("\n## ")[0], re.M)),
        }
        for place, text in watched.items():
            metrics = set(re.findall(METRIC, text))
            if len(metrics) < 8:
                self.wrong(place, f"it calls these alone worth an alarm: {metrics}")
            for metric in sorted(metrics - woken - NOT_WOKEN.keys()):
                self.wrong(place, f"it calls {metric} worth an alarm, and no alert asks for it")
            for metric, days in bounds(text).items():
                if bounds(asked).get(metric) != days:
                    self.wrong(place, f"{metric} wakes {days} days before, and the alert {bounds(asked).get(metric)}")
        for metric in sorted(NOT_WOKEN.keys() & woken):
            self.wrong("scripts/deploy_alerts.py", f"there is an alert for {metric}, and NOT_WOKEN says that there is none")
        shown = {target["expr"] for panel in json.loads(page("deploy/grafana/hivemind.json"))["panels"] for target in panel.get("targets", [])}
        for metric in sorted(woken - set(re.findall(METRIC, " ".join(shown)))):
            self.wrong("deploy/grafana/hivemind.json", f"no panel shows {metric}, which an alert asks for")
        self.counted("alerts", len(rules))
