"""What `scripts/deploy-checks` reads of containers: commands that run the image, pods whose settings are variables, how what runs in one is ended."""

import re, shlex

import yaml


def unasked_gateways(text):
    """Commands that run the one-line gateway in a container without an admin port, which the image's health check asks."""
    commands = re.findall(r"^ *docker run (?:.*\\\n)*.*$", text, re.M)
    words = [shlex.split(command.replace("\\\n", " "), comments=True) for command in commands]
    return [shlex.join(each) for each in words if "gateway" in each and not has_admin(each, {})]


def has_admin(command, settings):
    """Whether `gateway` of this command opens its admin port: a configuration has one unless it is off, the command line none unless it is named."""
    return "--admin" in command or "--config" in command and settings.get("server", {}).get("admin_port") not in (False, "off", "no", "false")


# Where the code has the keys that follow their file while it runs.
FOLLOWED = {"settings/gateway.rs": "KEYS", "settings/log.rs": "RELOADABLE"}


def followed_keys(crates):
    """The configuration keys that the code reloads, and the files without such a list."""
    text = {file: "".join(path.read_text() for path in crates.glob(f"*/src/**/{file}")) for file in FOLLOWED}
    found = {file: re.search(rf"const {name}: \[[^]]*\]\s*=\s*\[([^]]*)\]", text[file]) for file, name in FOLLOWED.items()}
    keys = {key for each in found.values() if each for key in re.findall(r'"([\w.]+)"', each[1])}
    return keys, [file for file, each in found.items() if not each]


def said_to_follow(text):
    """The keys in the left column of a page's table beside which is what needs a restart."""
    table = re.search(r"^\| [^|]* \| needs a restart \|\n\|.*\n((?:\|.*\n)+)", text, re.M)
    return set(re.findall(r"`((?:gateway|observability)\.[\w.]+)`", "".join(re.findall(r"^\|([^|]*)\|", table[1], re.M))))


def is_deaf(command):
    """Whether SIGTERM does not end it: a first process is told only of signals that it has a handler for, and Python has one for SIGINT alone."""
    return command[:1] in (["python"], ["python3"])


def pause(container):
    """For how many seconds its preStop waits, and whether it ends the first process by SIGINT then."""
    hook = container.get("lifecycle", {}).get("preStop", {})
    words = " ".join(hook.get("exec", {}).get("command", []))
    waits = re.search(r"\bsleep (\d+)\b", words)
    return hook.get("sleep", {}).get("seconds", int(waits[1]) if waits else 0), words.endswith("kill -INT 1")


def settings_of(pod):
    """The configuration that the variables of a pod's Hivemind make."""
    settings = {}
    containers = pod["containers"] + pod.get("initContainers", [])
    for variable in next(each for each in containers if each["name"] == "hivemind").get("env", []):
        if variable["name"].startswith("HIVEMIND_") and "value" in variable:
            *sections, key = variable["name"].removeprefix("HIVEMIND_").lower().split("__")
            place = settings
            for section in sections:
                place = place.setdefault(section, {})
            # A variable is a text, and is read as what it looks like.
            place[key] = yaml.safe_load(variable["value"])
    return settings
