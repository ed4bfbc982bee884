"""Asks a service, and holds each answer to its description.

usage: validate.py DESCRIPTION URL TOKEN < lines of METHOD PATH TEMPLATE BODY, apart by tabs
Prints a line for each answer that its schema refuses, and fails if there is any.
"""
import json
import sys
import urllib.error
import urllib.request

import jsonschema_rs

description = json.load(open(sys.argv[1]))
wrong = 0
for line in sys.stdin:
    method, path, template, body = line.rstrip("\n").split("\t")
    request = urllib.request.Request(sys.argv[2] + path, method=method, data=body.encode() or None)
    request.add_header("Authorization", "Bearer " + sys.argv[3])
    try:
        answer = urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request, timeout=10)
    except urllib.error.HTTPError as error:
        answer = error
    text = answer.read()
    response = description["paths"][template][method.lower()]["responses"].get(str(answer.status))
    if response is None:
        print(f"{method} {path}: {answer.status} is not described")
        wrong += 1
        continue
    if "$ref" in response:
        response = description["components"]["responses"][response["$ref"].rsplit("/", 1)[1]]
    content = response["content"].get(answer.headers["content-type"])
    if content is None:
        print(f"{method} {path}: {answer.headers['content-type']} is not described")
        wrong += 1
        continue
    schema = {**content["schema"], "components": description["components"]}
    for error in jsonschema_rs.validator_for(schema).iter_errors(json.loads(text)):
        print(f"{method} {path}: {answer.status}: {list(error.instance_path)}: {error.message[:300]}")
        wrong += 1
sys.exit(wrong > 0)
