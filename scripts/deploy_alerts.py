"""Alert checks of `scripts/deploy-checks`: every metric that the pages call worth an alarm has an alert with the same threshold, and a panel.

The tests of the service check with promtool that the alerts are valid, fire on time and name existing metrics (crates/server/tests/logs/deploy.rs).
"""

import json, re

import yaml

METRIC = r"\b(?:ratelimit|hivemind)_[a-z]+_[a-z_]+\b"
# Metrics that a page names and that have no alert, with the reason.
WITHOUT_ALERT = {
    "hivemind_access_refused_total": "the threshold depends on the installation",
    "hivemind_otlp_failures_total": "limits hold, and Prometheus still has all metrics",
    "hivemind_mesh_overlaps_total": "its effect is HivemindOveradmission, whose runbook names it",
    "hivemind_mesh_peers": "limits hold; unreachable peers are HivemindPeersLost",
    "hivemind_mesh_clock_offset_seconds": "a clock that is too far off leads to a lost peer, HivemindPeersLost",
}


def bounds(text):
    """For each expiry metric, the largest number of days before expiry that a text names."""
    found = {}
    for metric, days in re.findall(r"(\w+) - time\(\) < (\d+) \* 86400", text):
        found[metric] = max(found.get(metric, 0), int(days))
    return found


class Alerts:
    """Checks of deploy/prometheus and deploy/grafana."""

    def alerts(self):
        page = lambda path: (self.root / path).read_text()
        rules = [rule for group in yaml.safe_load(page("deploy/prometheus/alerts.yaml"))["groups"] for rule in group["rules"]]
        asked = " ".join(rule["expr"] for rule in rules)
        alerted = set(re.findall(METRIC, asked))
        documented = dict(re.findall(r"^\| `(Hivemind\w+)` \| (\w+) \|", page("docs/guide/telemetry.md"), re.M))
        for name, severity in {(rule["alert"], rule["labels"]["severity"]) for rule in rules} ^ set(documented.items()):
            self.wrong("deploy/prometheus/alerts.yaml", f"{name}: severity {severity} is only there or only in docs/guide/telemetry.md")
        watched = {
            "docs/guide/operations.md": "\n".join(re.findall(r"^\|([^|]*)\|", page("docs/guide/operations.md").split("## What to watch")[1].split("\n## ")[0], re.M)),
            "docs/reference/metrics.md": "\n".join(re.findall(r"^    (.*?)(?:   |$)", page("docs/reference/metrics.md").split("## Worth an alarm")[1].split("\n## ")[0], re.M)),
        }
        for place, text in watched.items():
            metrics = set(re.findall(METRIC, text))
            if len(metrics) < 8:
                self.wrong(place, f"too few metrics worth an alarm: {metrics}")
            for metric in sorted(metrics - alerted - WITHOUT_ALERT.keys()):
                self.wrong(place, f"{metric} is worth an alarm, and no alert uses it")
            for metric, days in bounds(text).items():
                if bounds(asked).get(metric) != days:
                    self.wrong(place, f"{metric}: {days} days before expiry, and {bounds(asked).get(metric)} in the alert")
        for metric in sorted(WITHOUT_ALERT.keys() & alerted):
            self.wrong("scripts/deploy_alerts.py", f"{metric} has an alert and is in WITHOUT_ALERT")
        shown = {target["expr"] for panel in json.loads(page("deploy/grafana/hivemind.json"))["panels"] for target in panel.get("targets", [])}
        for metric in sorted(alerted - set(re.findall(METRIC, " ".join(shown)))):
            self.wrong("deploy/grafana/hivemind.json", f"no panel shows {metric}, which an alert uses")
        self.counted("alerts", len(rules))
