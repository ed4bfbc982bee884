"""Generates the parts of the chart's values.schema.json that come from the schemas of configuration and rules.

`config` in the values overrides the configuration that the chart writes, so it is partial: dependencies between keys are dropped (the chart
sets TLS of the mesh, and the URL of a Redis may come from `env`), and keys that the chart sets are omitted. Defaults are omitted, because the
chart has its own. A rule file is complete. `scripts/schema-checks` compares the result and writes it with `--write`.
"""

import copy, json

PATH = "deploy/helm/hivemind/values.schema.json"
WIDTH = 150
# Keys that the templates, services, probes and volumes of the chart set; a value in `config` would contradict them.
OWNED = """
server.grpc_host server.admin_host server.metrics_host server.grpc_port server.admin_port
server.grpc_uds server.admin_uds server.handover_socket server.shutdown_grace rate_limiting.config_path
mesh.cluster_id mesh.dns mesh.tls gateway.tls.cert gateway.tls.key gateway.tls.certificates gateway.tls.acme gateway.tls.redirect_from
gateway.services.upstream_ca security.admin security.api_keys_file security.grpc_tls security.metrics_tls security.key_seed_file
storage.redis.password_file storage.redis.sentinel_password_file storage.redis.tls observability.prometheus.port
""".split()
# Sections that the chart may set; an empty section would override its values.
NEVER_EMPTY = "gateway.tls storage.redis".split()
REDIS = {"type": "string", "pattern": "^rediss?://\\S+$"}
LOG = {"enum": ["stdout", "off", "no", False]}
# Allowed values of keys that depend on the chart: wildcard addresses, the ports of the chart, and no paths of files or sockets, because there is
# no volume for them.
NARROWED = {
    "server.host": {"enum": ["0.0.0.0", "::"]},
    "server.metrics_port": {"enum": ["off", "no", False], "description": "Off, or 9090: the chart's own"},
    "mesh.bind": {"type": "string", "pattern": "^(0\\.0\\.0\\.0|\\[::\\]):7946$"},
    "gateway.access_log": LOG,
    "gateway.refusal_log": LOG,
    "storage.redis.url": {"description": "`redis://host:6379/0`, `rediss://` for TLS; a list for a cluster or sentinels", "anyOf": [REDIS, {"type": "array", "items": REDIS}]},
    "gateway.listen": {"type": "string", "pattern": "^(0\\.0\\.0\\.0|\\[::\\]):10080$"},
}


def bare(schema):
    """The schema without defaults and examples; properties with these names are kept."""
    if isinstance(schema, list):
        return [bare(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    keys = {"properties", "definitions", "dependencies"}
    return {name: {key: bare(below) for key, below in value.items()} if name in keys else bare(value)
            for name, value in schema.items() if name not in ("default", "examples")}


def place(schema, path):
    """The schema that contains a key, and the last part of the key. For a list it is the schema of the items."""
    *sections, key = path.split(".")
    for section in sections:
        schema = schema["properties"][section]
        schema = schema.get("items", schema)
    return schema, key


def of_config(schema):
    schema = bare({name: value for name, value in schema.items() if name not in ("$schema", "title", "allOf")})
    # An empty section would override that of the chart.
    for section in schema["properties"].values():
        section["type"] = "object"
    for path in OWNED:
        section, key = place(schema, path)
        del section["properties"][key]
        # A missing key cannot require another one.
        section["dependencies"] = {one: others for one, others in section.get("dependencies", {}).items() if one in section["properties"]}
        if not section["dependencies"]:
            del section["dependencies"]
    for path in NEVER_EMPTY:
        section, key = place(schema, path)
        section["properties"][key]["type"] = "object"
    for path, narrower in NARROWED.items():
        section, key = place(schema, path)
        section["properties"][key] = {"description": section["properties"][key]["description"], **narrower}
    return schema


def generated(config, rules):
    """Definitions by name. Those of the rules are at the top level, because they refer to each other from there."""
    file = bare({name: value for name, value in rules.items() if name not in ("$schema", "title", "definitions")})
    return {"config": of_config(config), "rules": file, **bare({"definitions": rules["definitions"]})["definitions"]}


def written(node, indent=""):
    """Readable JSON; a value that fits into one line stays in one line."""
    line = json.dumps(node, ensure_ascii=False)
    if len(indent) + len(line) <= WIDTH or not isinstance(node, (dict, list)) or not node:
        return line
    deeper = indent + "  "
    if isinstance(node, dict):
        parts = [f"{deeper}{json.dumps(name)}: {written(value, deeper)}" for name, value in node.items()]
    else:
        parts = [deeper + written(value, deeper) for value in node]
    start, end = "{}" if isinstance(node, dict) else "[]"
    return start + "\n" + ",\n".join(parts) + f"\n{indent}{end}"


def completed(text, schemas):
    """The complete file: manual parts unchanged, generated definitions replaced."""
    values = copy.deepcopy(json.loads(text))
    by_hand = {name: value for name, value in values["definitions"].items() if name in ("name", "sources")}
    values["definitions"] = {**by_hand, **generated(schemas["config"], schemas["rules"])}
    return written(values) + "\n"
