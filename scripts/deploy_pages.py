"""Parsers of `scripts/deploy-checks`: container commands in pages, reloadable keys, settings of pods and how containers stop."""

import re, shlex

import yaml


def unasked_gateways(text):
    """Commands that run the one-line gateway in a container without an admin port, which the health check of the image needs."""
    commands = re.findall(r"^ *docker run (?:.*\\\n)*.*$", text, re.M)
    words = [shlex.split(command.replace("\\\n", " "), comments=True) for command in commands]
    return [shlex.join(each) for each in words if "gateway" in each and not has_admin(each, {})]


def has_admin(command, settings):
    """Whether a `gateway` command opens an admin port: on by default with a configuration, off by default on the command line."""
    return "--admin" in command or "--config" in command and settings.get("server", {}).get("admin_port") not in (False, "off", "no", "false")


# The source files and constants that list the reloadable keys.
FOLLOWED = {"gateway/src/settings.rs": "KEYS", "telemetry/src/settings/log.rs": "RELOADABLE"}


def followed_keys(crates):
    """The configuration keys that the code reloads, and the files without such a list."""
    text = {file: (crates / file).read_text() for file in FOLLOWED}
    found = {file: re.search(rf"const {name}: \[[^]]*\]\s*=\s*\[([^]]*)\]", text[file]) for file, name in FOLLOWED.items()}
    keys = {key for each in found.values() if each for key in re.findall(r'"([\w.]+)"', each[1])}
    return keys, [file for file, each in found.items() if not each]


def said_to_follow(text):
    """The keys in the left column of the table whose right column is `needs a restart`."""
    table = re.search(r"^\| [^|]* \| needs a restart \|\n\|.*\n((?:\|.*\n)+)", text, re.M)
    return set(re.findall(r"`((?:gateway|observability)\.[\w.]+)`", "".join(re.findall(r"^\|([^|]*)\|", table[1], re.M))))


def is_deaf(command):
    """Whether a command ignores SIGTERM: process 1 receives only signals with a handler, and Python handles only SIGINT."""
    return command[:1] in (["python"], ["python3"])


def pause(container):
    """The delay of a preStop hook in seconds, and whether it then sends SIGINT to process 1."""
    hook = container.get("lifecycle", {}).get("preStop", {})
    words = " ".join(hook.get("exec", {}).get("command", []))
    waits = re.search(r"\bsleep (\d+)\b", words)
    return hook.get("sleep", {}).get("seconds", int(waits[1]) if waits else 0), words.endswith("kill -INT 1")


def settings_of(pod):
    """The configuration in the environment variables of a Hivemind container."""
    settings = {}
    containers = pod["containers"] + pod.get("initContainers", [])
    for variable in next(each for each in containers if each["name"] == "hivemind").get("env", []):
        if variable["name"].startswith("HIVEMIND_") and "value" in variable:
            *sections, key = variable["name"].removeprefix("HIVEMIND_").lower().split("__")
            place = settings
            for section in sections:
                place = place.setdefault(section, {})
            # Variables are strings that Hivemind parses by their form.
            place[key] = yaml.safe_load(variable["value"])
    return settings
