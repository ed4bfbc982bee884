#!/usr/bin/env python3
"""What the image is built from: the files that deploy/docker/Dockerfile.dockerignore lets through, as Docker reads it.

    scripts/image_context.py FOLDER     lays them out in FOLDER, which must not be there, and says what is missing in it
"""

import os, re, shutil, sys
from pathlib import Path

BUILT = re.compile(r"^(\.git|target(-\w+)?)$")
INCLUDED = re.compile(r'include_(?:str|bytes)!\(\s*(?:concat!\(\s*)?"([^"]+)"')


def pattern(line):
    """A line of the file as an expression, and whether it lets in. A folder that matches stands for all that is in it."""
    lets_in = line.startswith("!")
    parts = re.split(r"(\*\*/|\*\*|\*|\?)", line.lstrip("!").strip("/"))
    text = "".join({"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*", "?": "[^/]"}.get(part, re.escape(part)) for part in parts)
    return re.compile(f"{text}(?:/.*)?"), lets_in


def lay_out(root, ignore, to):
    """Copies what is let through, links as links, and tells how many files those are. The last line that matches decides."""
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
    """What the build would look for and not find: the workspace's files, where links lead, what the code includes."""
    for name in ("Cargo.toml", "Cargo.lock", "crates/server/Cargo.toml", "crates/envoy/build.rs"):
        if not (context / name).exists():
            yield f"leaves out {name}"
    for path in sorted(context.rglob("*")):
        if path.is_symlink() and not path.exists():
            yield f"{path.relative_to(context)} leads to {os.readlink(path)}, which it leaves out"
    for file in sorted(context.glob("crates/*/src/**/*.rs")):
        for named in INCLUDED.findall(file.read_text()):
            if not (file.parent / named).exists():
                yield f"{file.relative_to(context)} includes {named}, which it leaves out"


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
