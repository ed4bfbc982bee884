"""Chart checks of `scripts/deploy-checks`: rejected values, rendered manifests, and their consistency."""

import json, re, shutil
from pathlib import Path

import jsonschema, yaml
from gotpl.exts.helm import HelmTemplateEngine

GATEWAY = {"services": [{"id": "app", "upstream": "http://app:3000"}]}
ALONE = {"enabled": False}
RULE = {"key": "k", "rate_limit": {"unit": "second", "requests_per_unit": 1}}
# Values that the schema rejects: misspelled, out of range, or set by the chart itself.
BAD = (
    {"replica": 3}, {"replicas": 0}, {"preset": "tiny"}, {"image": {"repository": ""}},
    {"config": {"servers": {}}}, {"config": {"server": {"hots": "::"}}}, {"config": {"server": None}}, {"config": {"gateway": {"services": []}}}, {"config": {"storage": {"kind": "disk"}}},
    {"config": {"observability": {"log_level": False}}}, {"config": {"gateway": {**GATEWAY, "headers": False}}},
    {"config": {"server": {"grpc_port": 9000}}}, {"config": {"server": {"admin_port": False}}}, {"config": {"server": {"metrics_port": 9100}}},
    {"config": {"server": {"host": "127.0.0.1"}}}, {"config": {"server": {"admin_host": "127.0.0.1"}}}, {"config": {"rate_limiting": {"config_path": "/rules"}}},
    {"config": {"mesh": {"cluster_id": "other"}}}, {"config": {"mesh": {"dns": "peers"}}}, {"config": {"mesh": {"bind": "0.0.0.0:7947"}}}, {"config": {"mesh": {"tls": {"ca": "a"}}}},
    {"config": {"gateway": {**GATEWAY, "listen": "0.0.0.0:80"}}}, {"config": {"gateway": {**GATEWAY, "tls": {"cert": "a", "key": "b"}}}},
    {"config": {"security": {"grpc_tls": {"cert": "a", "key": "b"}}}}, {"config": {"security": {"admin": {"token_file": "a"}}}}, {"config": {"security": {"api_keys_file": "a"}}},
    {"config": {"security": {"key_seed_file": "a"}}}, {"config": {"security": {"metrics_tls": {"cert": "a", "key": "b"}}}},
    {"config": {"storage": {"redis": {"password_file": "a"}}}}, {"config": {"storage": {"redis": {"sentinel_password_file": "a"}}}}, {"config": {"storage": {"redis": {"tls": {"ca": "a"}}}}},
    {"config": {"storage": {"redis": {"url": "redis+unix:///run/redis.sock"}}}}, {"config": {"storage": {"redis": None}}},
    {"config": {"server": {"grpc_uds": "a"}}}, {"config": {"server": {"admin_uds": "a"}}}, {"config": {"server": {"handover_socket": "a"}}},
    {"config": {"gateway": {**GATEWAY, "access_log": "/var/log/a.log"}}}, {"config": {"gateway": {**GATEWAY, "refusal_log": "/var/log/a.log"}}},
    {"config": {"gateway": {"services": [{"id": "app", "upstream": "https://app:3000", "upstream_ca": "a"}]}}}, {"config": {"gateway": {**GATEWAY, "tls": None}}},
    {"config": {"server": {"shutdown_grace": "60s"}}}, {"shutdownGraceSeconds": "60s"}, {"shutdownGraceSeconds": -1}, {"env": [{"name": "HIVEMIND_SERVER__SHUTDOWN_GRACE", "value": "60s"}]},
    {"config": {"observability": {"prometheus": {"port": 9100}}}}, {"config": {"storage": {"kind": "mesh"}}, "mesh": ALONE},
    {"config": {"storage": {"kind": "redis", "redis": {"url": "redis://redis:6379"}}}}, {"config": {"storage": {"kind": "memory"}}},
    {"rules": {}}, {"rules": {"a.txt": {"domain": "a"}}}, {"rules": {"a.yaml": {}}},
    {"rules": {"a.yaml": {"domain": "a", "descriptors": [{**RULE, "rate_limit": {"unit": "fortnight", "requests_per_unit": 1}}]}}},
    {"rules": {"a.yaml": {"domain": "a", "descriptors": [{"key": "k", "descriptors": [{**RULE, "shadow": True}]}]}}},
    {"mesh": {"enabled": "yes"}}, {"mesh": {"enabled": True, "secret": ""}}, {"mesh": {"enabled": True}},
    {"secrets": {"grpcClientCa": "a"}}, {"secrets": {"grpcTls": "", "grpcClientCa": "a"}}, {"secrets": {"gatewayTls": "a"}},
    {"secrets": {"metricsClientCa": "a"}}, {"secrets": {"metricsTls": "", "metricsClientCa": "a"}}, {"secrets": {"keySeeds": "a"}},
    *({"secrets": {name: "a"}} for name in ("redisPassword", "redisSentinelPassword", "redisCa", "redisTls")),
    {"secrets": {"redisPassword": "a"}, "config": {"storage": {"kind": "memory"}}, "mesh": ALONE}, {"secrets": {"redisSentinelPassword": "a"}, "config": {"storage": {"kind": "redis"}}, "mesh": ALONE},
    {"secrets": {"redisSentinelPassword": "a"}, "config": {"storage": {"kind": "redis", "redis": {"topology": "cluster"}}}, "mesh": ALONE},
    {"gateway": {"port": 0}}, {"gateway": {"port": 80, "type": "ExternalName"}},
)

# As users write them and Helm parses them: `off` without quotes is a boolean.
QUIET = yaml.safe_load("""
config:
  server: {metrics_port: off}
  observability: {log_level: "off", log_decisions: off}
  gateway: {access_log: off, max_body: off, headers: "off", forwarded: "off", services: [{id: app, upstream: "http://app:3000", timeouts: {total: off}}]}
""")

SENTINELS = {"url": ["rediss://a:26379", "rediss://b:26379"], "topology": "sentinel", "master_name": "mymaster", "sentinel_username": "a"}
# The configuration keys that read a secret of the values, and the file in the secret.
FILES = {
    "mesh.tls.ca": "hivemind-mesh/ca.crt", "mesh.tls.cert": "hivemind-mesh/node.crt", "mesh.tls.key": "hivemind-mesh/node.key", "security.admin.token_file": "adminToken/token",
    "security.api_keys_file": "apiKeys/keys", "security.grpc_tls.cert": "grpcTls/tls.crt", "security.grpc_tls.key": "grpcTls/tls.key", "security.grpc_tls.client_ca": "grpcClientCa/ca.crt",
    "security.metrics_tls.cert": "metricsTls/tls.crt", "security.metrics_tls.key": "metricsTls/tls.key", "security.metrics_tls.client_ca": "metricsClientCa/ca.crt",
    "security.key_seed_file": "keySeed/seed", "gateway.tls.cert": "gatewayTls/tls.crt", "gateway.tls.key": "gatewayTls/tls.key", "storage.redis.password_file": "redisPassword/password",
    "storage.redis.sentinel_password_file": "redisSentinelPassword/password", "storage.redis.tls.ca": "redisCa/ca.crt", "storage.redis.tls.cert": "redisTls/tls.crt",
    "storage.redis.tls.key": "redisTls/tls.key",
}


def paths_of_files(schema, path=()):
    """Keys of the values that are paths of files or sockets."""
    if "path of a file" in schema.get("errorMessage", ""):
        yield ".".join(path)
    for key, below in schema.get("properties", {}).items():
        yield from paths_of_files(below, (*path, key))
    yield from paths_of_files(schema["items"], path) if isinstance(schema.get("items"), dict) else ()


def read_from(documents, settings):
    """For each configuration key with a path below /etc/hivemind, the secret and the key in it."""
    pod = next(d["spec"]["template"]["spec"] for d in documents if d["kind"] == "StatefulSet")
    secrets = {volume["name"]: volume["secret"] for volume in pod["volumes"] if "secret" in volume}
    mounts = {mount["mountPath"]: secrets[mount["name"]] for mount in pod["containers"][0]["volumeMounts"] if mount["name"] in secrets}

    def walk(node, path):
        if isinstance(node, dict):
            return {key: value for name, below in node.items() for key, value in walk(below, (*path, name)).items()}
        folder, _, file = node.rpartition("/") if isinstance(node, str) else ("", "", "")
        if folder not in mounts:
            return {}
        keys = [item["key"] for item in mounts[folder]["items"] if item["path"] == file]
        return {".".join(path): f"{mounts[folder]['secretName']}/{(keys or ['nothing'])[0]}"}

    return walk(settings, ())


def of_preset(documents):
    """The settings of a preset in a set of manifests."""
    settings = next(yaml.safe_load(d["data"]["hivemind.yaml"]) for d in documents if "hivemind.yaml" in d.get("data", {}))
    pod = next(d["spec"]["template"]["spec"] for d in documents if d["kind"] in ("StatefulSet", "Deployment"))
    resources = next(each["resources"] for each in pod["containers"] + pod.get("initContainers", []) if each["name"] == "hivemind")
    return {"cpu": resources["requests"]["cpu"], "memory": [resources["requests"]["memory"], resources["limits"]["memory"]],
            "workers": settings["server"]["workers"], "max_keys": settings["rate_limiting"]["max_keys"]}


class Chart:
    """Checks of deploy/helm."""

    def chart(self):
        chart = self.root / "deploy/helm/hivemind"
        about = yaml.safe_load((chart / "Chart.yaml").read_text())
        values = yaml.safe_load((chart / "values.yaml").read_text())
        schema = json.loads((chart / "values.schema.json").read_text())
        jsonschema.Draft7Validator.check_schema(schema)
        refuses = jsonschema.Draft7Validator(schema)
        for error in refuses.iter_errors(values):
            self.wrong("values.yaml", f"{'.'.join(map(str, error.path))}: {error.message}")
        page = (self.root / "deploy/kubernetes/README.md").read_text()
        for block in re.findall(r"^```yaml fragment\n((?:(?!```).*\n)*)", page, re.M):
            for error in refuses.iter_errors({**values, **yaml.safe_load(block)}):
                self.wrong("deploy/kubernetes/README.md", f"values that the chart rejects: {error.message}")
        for path in paths_of_files(schema["definitions"]["config"]):
            self.wrong("values.schema.json", f"config.{path} is a file path without a volume in the chart; see OWNED in scripts/chart_schema.py")
        self.every_secret(chart, about, values, refuses)
        presets = {}
        for bad in BAD:
            if refuses.is_valid({**values, **bad}):
                self.wrong("values.schema.json", f"accepts: {bad}")
            self.counted("rejected values")
        for name, change in {
            "by default": {}, "small": {"preset": "small"}, "high": {"preset": "high"},
            "alone": {"mesh": {**values["mesh"], "enabled": False}, "secrets": {"adminToken": "", "apiKeys": "", "grpcTls": ""}},
            "with Redis": {"mesh": {**values["mesh"], "enabled": False}, "config": {"storage": {"kind": "redis", "redis": {"url": "redis://redis:6379"}}}},
            "with a Redis that asks": {"mesh": {**values["mesh"], "enabled": False}, "config": {"storage": {"kind": "redis", "redis": {"url": "rediss://redis:6379"}}},
                                       "secrets": {**values["secrets"], "redisPassword": "hivemind-redis", "redisCa": "hivemind-redis", "redisTls": "hivemind-redis"}},
            "slow to end": {"shutdownGraceSeconds": 60},
            "changed": {"config": {"server": {"workers": 3}, "observability": {"log_level": "warn"}}, "replicas": 5,
                        "resources": {"limits": {"memory": "1Gi"}}, "podAnnotations": {"a": "b"}, "nodeSelector": {"c": "d"}},
            "of another name": {"secrets": {"adminToken": "", "grpcTls": "hivemind-mesh"}},
            "closed": {"secrets": {**values["secrets"], "apiKeys": "hivemind-admin", "grpcTls": "hivemind-mesh", "grpcClientCa": "hivemind-mesh",
                                    "keySeed": "hivemind-seed", "metricsTls": "hivemind-mesh", "metricsClientCa": "hivemind-mesh"}},
            "with a gateway": {"config": {"gateway": GATEWAY}},
            "with a public gateway": {"config": {"gateway": {**GATEWAY, "listen": "[::]:10080"}, "server": {"host": "::"}, "mesh": {"bind": "[::]:7946"}},
                                             "gateway": {"type": "LoadBalancer", "port": 443}, "secrets": {**values["secrets"], "gatewayTls": "hivemind-admin"}},
            "quiet": QUIET,
        }.items():
            for error in refuses.iter_errors({**values, **change}):
                self.wrong("values.schema.json", f"rejects the values {name}: {error.message}")
            rendered = self.render(chart, about, {**values, **change}, "shop" if "name" in name else "hivemind")
            if rendered is None:
                return
            self.manifests(f"chart, {name}", rendered)
            settings = next(yaml.safe_load(d["data"]["hivemind.yaml"]) for d in rendered if "hivemind.yaml" in d.get("data", {}))
            if name == "changed" and settings["server"] != {"host": "0.0.0.0", "workers": 3, "shutdown_grace": "10s"}:
                self.wrong("chart", f"`config` does not override the settings of the chart: {settings}")
            if ("client_ca" in settings.get("security", {}).get("grpc_tls", {})) != (name == "closed"):
                self.wrong("chart", f"client certificates must be checked exactly if secrets.grpcClientCa is set: {name}")
            if name == "slow to end" and settings["server"]["shutdown_grace"] != "60s":
                self.wrong("chart", f"shutdownGraceSeconds differs from server.shutdown_grace: {settings['server']}")
            if name in ("by default", "small", "high"):
                presets["recommended" if name == "by default" else name] = of_preset(rendered)
            self.opened(f"chart, {name}", rendered, settings)
            self.asked_by_test(name, rendered)
            self.reached(f"chart, {name}", self.notes, rendered)
            self.counted("renderings of the chart")
        self.presets(presets)
        folder = self.root / "deploy/kubernetes/service"
        self.reached("deploy/kubernetes/README.md", page, [d for file in sorted(folder.glob("*.yaml")) for d in yaml.safe_load_all(file.read_text())])
        if shutil.which("helm"):
            self.run("chart", "helm", "lint", "--strict", chart)
            self.run("chart", "helm", "template", "hivemind", chart)
        else:
            self.left_out.append("helm lint and helm template: helm not found, the chart was rendered with gotpl, another "
                                 "implementation of Go templates. It was not installed in a cluster, and no hook ran")

    def every_secret(self, chart, about, values, refuses):
        """Every secret of the values is mounted with the files that the configuration reads, and nothing else is read."""
        secrets, found = {name: name.lower() for name in values["secrets"]}, {}
        of_mesh = {name: "" if name.startswith("redis") else secret for name, secret in secrets.items()}
        for change in ({"secrets": secrets, "mesh": {**values["mesh"], "enabled": False}, "config": {"gateway": GATEWAY, "storage": {"kind": "redis", "redis": SENTINELS}}},
                       {"secrets": of_mesh, "config": {"gateway": GATEWAY}}):
            for error in refuses.iter_errors({**values, **change}):
                self.wrong("values.schema.json", f"rejects values with all secrets: {error.message}")
            rendered = self.render(chart, about, {**values, **change}, "hivemind") or []
            settings = next((yaml.safe_load(d["data"]["hivemind.yaml"]) for d in rendered if "hivemind.yaml" in d.get("data", {})), {})
            self.configuration("chart, with all secrets", yaml.safe_dump(settings))
            found.update(read_from(rendered, settings))
        wanted = {key: "/".join([secrets.get(secret, secret), file]) for key, (secret, file) in ((key, place.split("/")) for key, place in FILES.items())}
        for key in sorted(wanted.keys() | found.keys()):
            if wanted.get(key) != found.get(key):
                self.wrong("chart, with all secrets", f"{key} is read from {found.get(key)}, expected {wanted.get(key)}")
        for name in sorted(set(secrets) - {place.split("/")[0] for place in FILES.values()}):
            self.wrong("values.yaml", f"secrets.{name} is not in FILES of scripts/deploy_chart.py")
        self.counted("files of secrets", len(found))

    def presets(self, presets):
        """The presets of the chart, the manifests and the README agree."""
        for folder, name in (("service", "recommended"), ("sidecar", "small")):
            files = sorted((self.root / "deploy/kubernetes" / folder).glob("*.yaml"))
            found = of_preset([document for file in files for document in yaml.safe_load_all(file.read_text())])
            if found != presets[name]:
                self.wrong(f"deploy/kubernetes/{folder}", f"{found} differs from the chart preset {name}: {presets[name]}")
        rows = re.findall(r"^\| `(\w+)`[^|]*\| ([\d.]+) cores?, (\d+) cores? \| (\d+ .iB), (\d+ .iB) \| (\d+) \| ([\d,]+) \|", (self.root / "deploy/kubernetes/README.md").read_text(), re.M)
        documented = {name: {"cpu": f"{round(float(cpu) * 1000)}m", "memory": [asked.replace(" ", "")[:-1], most.replace(" ", "")[:-1]], "workers": int(workers), "max_keys": int(keys.replace(",", ""))}
                      for name, cpu, cores, asked, most, workers, keys in rows if cores == workers}
        if documented != presets:
            self.wrong("deploy/kubernetes/README.md", f"{documented} differs from the chart presets {presets}, or a preset has more cores than `workers`")
        self.counted("presets", len(presets))

    def opened(self, place, rendered, settings):
        """The configured ports are exactly those of the pod, the services and the network policy."""
        pod = next(d for d in rendered if d["kind"] == "StatefulSet")["spec"]["template"]["spec"]["containers"][0]
        numbers = {port["name"]: port["containerPort"] for port in pod["ports"]}
        wanted = {"grpc": 8081, "metrics": settings["server"].get("metrics_port", 9090), "gateway": settings.get("gateway", {}).get("listen", ":0").rpartition(":")[2]}
        wanted = {name: int(number) for name, number in wanted.items() if int(number)}
        services = [d for d in rendered if d["kind"] == "Service" and not d["spec"].get("publishNotReadyAddresses")]
        led_to = {(port["name"], numbers.get(port["targetPort"])) for d in services for port in d["spec"]["ports"]}
        let_in = {port["port"] for d in rendered if d["kind"] == "NetworkPolicy" for rule in d["spec"]["ingress"] for port in rule["ports"]} - {7946, 8080}
        if {name: number for name, number in numbers.items() if "mesh" not in name} != {**wanted, "admin": 8080}:
            self.wrong(place, f"configured ports are {wanted}, and the pod's ports are {numbers}")
        if led_to != set(wanted.items()):
            self.wrong(place, f"configured ports are {wanted}, and services target {led_to}")
        if let_in != set(wanted.values()):
            self.wrong(place, f"configured ports are {wanted}, and the policy allows {let_in}")
        for service in services:
            if service["spec"].get("type", "ClusterIP") != "ClusterIP" and service["spec"].get("externalTrafficPolicy") != "Local":
                self.wrong(place, f"{service['metadata']['name']} hides client addresses")

    def asked_by_test(self, name, rendered):
        """The pod of `helm test` calls an existing service and port, and the network policy allows it."""
        pod = next(d for d in rendered if d["kind"] == "Pod")
        host, port = re.search(r"http://([^:]+):(\d+)/", " ".join(pod["spec"]["containers"][0]["command"])).groups()
        services = {d["metadata"]["name"]: d["spec"] for d in rendered if d["kind"] == "Service"}
        labels = next(d for d in rendered if d["kind"] == "StatefulSet")["spec"]["template"]["metadata"]["labels"]
        if host not in services or services[host].get("publishNotReadyAddresses") or not services[host]["selector"].items() <= labels.items():
            self.wrong(f"chart, {name}", f"the test calls {host}, and the services are {sorted(services)}")
        if any(service["selector"].items() <= pod["metadata"]["labels"].items() for service in services.values()):
            self.wrong(f"chart, {name}", "a service selects the pod of the test")
        rules = [rule for d in rendered if d["kind"] == "NetworkPolicy" for rule in d["spec"]["ingress"]]
        let_in = [rule for rule in rules if any(source.get("podSelector", {}).get("matchLabels", {"": 1}).items() <= pod["metadata"]["labels"].items() for source in rule["from"])]
        if [p["port"] for rule in let_in for p in rule["ports"]] != [int(port)]:
            self.wrong(f"chart, {name}", f"the test calls port {port}, and the policy allows {let_in}")

    def reached(self, place, text, documents):
        """The text explains access to the admin port, which no service exposes."""
        sets = next(d for d in documents if d["kind"] == "StatefulSet")
        ports = {str(port["containerPort"]) for port in sets["spec"]["template"]["spec"]["containers"][0]["ports"] if port["name"] == "admin"}
        found = re.findall(r"port-forward pod/(\S+) (\d+)", text)
        if not found or any(pod != f"{sets['metadata']['name']}-0" or port not in ports for pod, port in found):
            self.wrong(place, f"the text forwards {found}, and the admin port of the first pod is {sets['metadata']['name']}-0 {ports}")

    def render(self, chart, about, values, release):
        sources = {str(file.relative_to(chart)): file.read_text() for file in (chart / "templates").rglob("*.*")}
        context = {
            "Values": values,
            "Chart": {"Name": about["name"], "Version": about["version"], "AppVersion": about["appVersion"]},
            "Release": {"Name": release, "Namespace": "shop", "Service": "Helm"},
            "Capabilities": {"KubeVersion": {"Version": "v1.30.0"}},
        }
        try:
            engine = HelmTemplateEngine.from_sources(sources)
            pages = engine.render({name: context for name in sources if not Path(name).name.startswith("_")})
            self.notes = pages["templates/NOTES.txt"]
            texts = [text for name, text in sorted(pages.items()) if name.endswith(".yaml")]
            return [document for text in texts for document in yaml.safe_load_all(text) if document]
        except Exception as error:  # A template can fail in any way.
            self.wrong("chart", f"cannot be rendered: {error}")
            return None
