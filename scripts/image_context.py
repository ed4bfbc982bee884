#!/usr/bin/env python3
"""Build context of the image: the files that deploy/docker/Dockerfile.dockerignore includes, by Docker's rules.

    scripts/image_context.py FOLDER     copies them to FOLDER, which must not exist, and prints missing files
"""

import os, re, shutil, sys
from pathlib import Path

BUILT = re.compile(r"^(\.git|target(-\w+)?)$")
INCLUDED = re.compile(r'include_(?:str|bytes)!\(\s*(?:concat!\(\s*)?"([^"]+)"')


def pattern(line):
    """The regular expression of a line, and whether it includes files. A matching directory matches everything in it."""
    lets_in = line.startswith("!")
    parts = re.split(r"(\*\*/|\*\*|\*|\?)", line.lstrip("!").strip("/"))
    text = "".join({"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*", "?": "[^/]"}.get(part, re.escape(part)) for part in parts)
    return re.compile(f"{text}(?:/.*)?"), lets_in


def lay_out(root, ignore, to):
    """Copies the included files, keeps links, and returns the number of files. The last matching line decides."""
    lines = [line.strip() for line in ignore.read_text().splitlines()]
    patterns = [pattern(line) for line in lines if line and not line.startswith("#")]
    count = 0
    for folder, folders, files in os.walk(root):
        below = Path(folder).relative_to(root)
        folders[:] = [name for name in folders if not (Path(folder) / name).is_symlink() and not BUILT.match(name)]
        for name in files:
            path = (below / name).as_posix()
            deciding = [lets_in for expression, lets_in in patterns if expression.fullmatch(path)]
            if deciding and not deciding[-1]:
                continue
            (to / below).mkdir(parents=True, exist_ok=True)
            shutil.copy(Path(folder) / name, to / path, follow_symlinks=False)
            count += 1
    return count


def missing(context):
    """Files that the build needs and the context lacks: workspace files, link targets, files that the code includes."""
    for name in ("Cargo.toml", "Cargo.lock", "crates/server/Cargo.toml", "crates/envoy/build.rs"):
        if not (context / name).exists():
            yield f"{name} is missing"
    for path in sorted(context.rglob("*")):
        if path.is_symlink() and not path.exists():
            yield f"{path.relative_to(context)} links to {os.readlink(path)}, which is missing"
    for file in sorted(context.glob("crates/*/src/**/*.rs")):
        for named in INCLUDED.findall(file.read_text()):
            if not (file.parent / named).exists():
                yield f"{file.relative_to(context)} includes {named}, which is missing"


def main():
    root = Path(__file__).resolve().parent.parent
    if len(sys.argv) != 2 or Path(sys.argv[1]).exists():
        print(__doc__)
        return 2
    to = Path(sys.argv[1])
    print(f"{lay_out(root, root / 'deploy/docker/Dockerfile.dockerignore', to)} files")
    found = list(missing(to))
    print("\n".join(found) or "Nothing is missing.")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
