//! Committed inputs that the fuzzer found: few and small ones that reach edges which other committed inputs do not.
//!
//! libFuzzer merges the corpus into the committed inputs and writes, for each input, the edges that no earlier one
//! reached. The inputs with most new edges are copied until the folder is full.

use super::Fuzzer;
use crate::tree::Tree;
use anyhow::{Context, ensure};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Maximum bytes and files in the folder of a target, and bytes of one file.
const MOST_BYTES: u64 = 32 * 1024;
const MOST_FILES: usize = 40;
const LARGEST: u64 = 4 * 1024;

pub(super) fn folder(tree: &Tree, target: &str) -> PathBuf {
    tree.root().join("fuzz/seeds/found").join(target)
}

/// Copies inputs of the corpus into the folder, and returns how many.
pub(super) fn accept(fuzzer: &Fuzzer, folder: &Path) -> anyhow::Result<usize> {
    let (known, control) = (fuzzer.home.join("known"), fuzzer.home.join("merge"));
    let _ = std::fs::remove_file(&control);
    let _ = std::fs::remove_dir_all(&known);
    std::fs::create_dir_all(&known).context("creating target/fuzz/TARGET/known")?;
    for file in fuzzer.seeds.iter().map(|seeds| files(seeds)).collect::<anyhow::Result<Vec<_>>>()?.concat() {
        copy(&file, &known)?;
    }
    let mut merge = Command::new(&fuzzer.program);
    merge
        .args(["-merge=1", &format!("-merge_control_file={}", control.display())])
        .args([&known, &fuzzer.home.join("corpus")])
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    ensure!(merge.status().context("the merge does not run")?.success(), "{}: the merge failed", fuzzer.name);
    let text = std::fs::read_to_string(&control).context("reading the result of the merge")?;
    std::fs::create_dir_all(folder).context("creating fuzz/seeds/found")?;
    let sizes = files(folder)?.iter().map(|file| size(file)).collect::<anyhow::Result<Vec<_>>>()?;
    let mut candidates = Vec::new();
    for (path, edges) in new_edges(&text) {
        candidates.push(Candidate { path: path.into(), edges, size: size(Path::new(path))? });
    }
    let chosen = choose(candidates, &sizes);
    for candidate in &chosen {
        copy(&candidate.path, folder)?;
    }
    Ok(chosen.len())
}

/// An input outside the committed ones, and how many edges it adds.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Candidate {
    path: PathBuf,
    edges: usize,
    size: u64,
}

/// The inputs with most new edges that fit next to files of these sizes.
fn choose(mut candidates: Vec<Candidate>, sizes: &[u64]) -> Vec<Candidate> {
    candidates.retain(|candidate| candidate.size <= LARGEST);
    candidates.sort_by_key(|candidate| (std::cmp::Reverse(candidate.edges), candidate.size));
    let mut bytes: u64 = sizes.iter().sum();
    candidates.truncate(MOST_FILES.saturating_sub(sizes.len()));
    candidates.retain(|candidate| {
        let fits = bytes + candidate.size <= MOST_BYTES;
        bytes += if fits { candidate.size } else { 0 };
        fits
    });
    candidates
}

/// Inputs of a merge control file that are not in its first folder and reached edges that no earlier input did, with the
/// number of these edges.
fn new_edges(control: &str) -> Vec<(&str, usize)> {
    let mut lines = control.lines();
    let mut number = || lines.next().and_then(|line| line.parse::<usize>().ok()).unwrap_or_default();
    let (all, known) = (number(), number());
    let paths: Vec<&str> = lines.by_ref().take(all).collect();
    let mut found = Vec::new();
    for line in lines {
        let Some(rest) = line.strip_prefix("COV ") else { continue };
        let mut words = rest.split_whitespace();
        let Some(index) = words.next().and_then(|word| word.parse::<usize>().ok()) else { continue };
        let edges = words.count();
        if let Some(path) = paths.get(index).filter(|_| index >= known && edges > 0) {
            found.push((*path, edges));
        }
    }
    found
}

fn files(folder: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let read =
        || std::fs::read_dir(folder)?.map(|entry| Ok(entry?.path())).collect::<std::io::Result<Vec<_>>>();
    read().with_context(|| format!("reading {}", folder.display()))
}

fn size(file: &Path) -> anyhow::Result<u64> {
    Ok(file.metadata().with_context(|| format!("reading {}", file.display()))?.len())
}

fn copy(file: &Path, folder: &Path) -> anyhow::Result<()> {
    let name = file.file_name().context("a file without a name")?;
    std::fs::copy(file, folder.join(name)).with_context(|| format!("copying {}", file.display()))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn new_edges_are_those_of_inputs_outside_the_first_folder() {
        let control = "4\n1\nknown/a\ncorpus/b\ncorpus/c\ncorpus/d\nSTARTED 0 5\nFT 0 1 2\nCOV 0 7 8\n\
                       STARTED 1 6\nFT 1 3\nCOV 1 9 10 11\nSTARTED 2 6\nFT 2 4\nCOV 2\nSTARTED 3 9\n";
        assert_eq!(new_edges(control), [("corpus/b", 3)]);
        assert_eq!(new_edges(""), []);
    }

    fn candidate(name: &str, edges: usize, size: u64) -> Candidate {
        Candidate { path: name.into(), edges, size }
    }

    fn names(candidates: &[Candidate]) -> Vec<&str> {
        candidates.iter().filter_map(|candidate| candidate.path.to_str()).collect()
    }

    #[test]
    fn inputs_with_most_edges_are_chosen_first() {
        let candidates =
            vec![candidate("few", 1, 10), candidate("many", 9, 20), candidate("large", 50, LARGEST + 1)];
        assert_eq!(names(&choose(candidates, &[])), ["many", "few"]);
    }

    #[test]
    fn folder_has_a_maximum_of_bytes_and_files() {
        let candidates = vec![candidate("a", 9, 30), candidate("b", 8, 10)];
        assert_eq!(names(&choose(candidates.clone(), &[MOST_BYTES - 10])), ["b"]);
        assert_eq!(names(&choose(candidates.clone(), &[1; MOST_FILES - 1])), ["a"]);
        assert_eq!(names(&choose(candidates, &[1; MOST_FILES])), Vec::<&str>::new());
    }
}
