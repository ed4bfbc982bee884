"""Sends requests to a service and validates each response against the OpenAPI description.

usage: validate.py DESCRIPTION URL TOKEN < lines of METHOD PATH TEMPLATE BODY [STATUS], separated by tabs
For an event stream, BODY has the names of the events to wait for, separated by commas.
Prints a line for each response that violates its schema, and fails if there are any.
"""
import json
import sys
import time
import urllib.error
import urllib.request

import jsonschema_rs

# The server sends each event at least every 15 seconds.
LONGEST = 40

description = json.load(open(sys.argv[1]))
wrong = 0


def report(text):
    global wrong
    print(text)
    wrong += 1


def validate(what, schema, value):
    schema = {**schema, "components": description["components"]}
    for error in jsonschema_rs.validator_for(schema).iter_errors(value):
        report(f"{what}: {list(error.instance_path)}: {error.message[:300]}")


def listen(what, answer, schemas, wanted):
    """Validates each event until all wanted events have arrived."""
    missing, name, ends = set(wanted), None, time.monotonic() + LONGEST
    for line in answer:
        line = line.decode().rstrip("\n")
        if line.startswith("event: "):
            name = line.removeprefix("event: ")
        elif line.startswith("data: ") and name not in schemas:
            report(f"{what}: the event {name} is not described")
        elif line.startswith("data: "):
            validate(f"{what}: {name}", schemas[name], json.loads(line.removeprefix("data: ")))
            missing.discard(name)
        if not missing or wrong or time.monotonic() > ends:
            break
    if missing:
        report(f"{what}: missing: {sorted(missing)}")


for line in sys.stdin:
    method, path, template, body, *expected = line.rstrip("\n").split("\t")
    is_stream = template.endswith("/events")
    request = urllib.request.Request(sys.argv[2] + path, method=method, data=(not is_stream and body.encode()) or None)
    request.add_header("Authorization", "Bearer " + sys.argv[3])
    try:
        answer = urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request, timeout=10)
    except urllib.error.HTTPError as error:
        answer = error
    if expected and expected != [str(answer.status)]:
        report(f"{method} {path}: status {answer.status}, expected {expected[0]}: {answer.read()[:300]}")
        continue
    response = description["paths"][template][method.lower()]["responses"].get(str(answer.status))
    if response is None:
        report(f"{method} {path}: {answer.status} is not described")
        continue
    if "$ref" in response:
        response = description["components"]["responses"][response["$ref"].rsplit("/", 1)[1]]
    content = response["content"].get(answer.headers["content-type"])
    if content is None:
        report(f"{method} {path}: {answer.headers['content-type']} is not described")
    elif "x-events" in content:
        listen(f"{method} {path}", answer, content["x-events"], body.split(","))
    else:
        validate(f"{method} {path}: {answer.status}", content["schema"], json.loads(answer.read()))
    answer.close()
sys.exit(wrong > 0)
