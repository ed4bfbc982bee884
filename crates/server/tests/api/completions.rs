//! Shell completions and manual pages, read as their programs read them.

use crate::reference::commands;
use hivemind_testkit::hivemind;
use std::process::Command;

/// The words that bash offers after these words.
fn bash_completions(script: &std::path::Path, words: &[String]) -> Vec<String> {
    let line = ["hivemind"].into_iter().chain(words.iter().map(String::as_str)).collect::<Vec<_>>();
    let text = format!(
        "source '{}'; COMP_WORDS=({} ''); COMP_CWORD={}; _hivemind hivemind '' '{}'; printf '%s\\n' \"${{COMPREPLY[@]}}\"",
        script.display(),
        line.join(" "),
        line.len(),
        line.last().expect("a word")
    );
    let output = Command::new("bash").args(["--noprofile", "--norc", "-c", &text]).output().unwrap();
    assert!(output.status.success(), "{text}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect()
}

#[test]
fn bash_offers_each_subcommand_after_its_parents() {
    let (code, text) = hivemind(&["completions", "bash"]);
    assert_eq!(code, Some(0), "{text}");
    let folder = tempfile::tempdir().unwrap();
    let script = folder.path().join("hivemind.bash");
    std::fs::write(&script, &text).unwrap();
    let parsed = Command::new("bash").arg("-n").arg(&script).output().unwrap();
    assert!(parsed.status.success(), "{}", String::from_utf8_lossy(&parsed.stderr));
    let commands = commands();
    assert!(commands.len() > 25, "{}", commands.len());
    for (words, _) in &commands {
        let Some((last, before)) = words.split_last() else { continue };
        assert!(bash_completions(&script, before).contains(last), "`{last}` behind {before:?}");
    }
    let get = ["ctl", "key", "get"].map(str::to_owned);
    assert!(commands.iter().any(|(words, _)| *words == get), "a nested command");
    assert!(
        bash_completions(&script, &get).contains(&"--token-file".to_owned()),
        "options of a nested command"
    );
}

/// Whether a zsh or fish script has an entry for this path of commands.
fn has_path(shell: &str, text: &str, words: &[String]) -> bool {
    let Some((last, before)) = words.split_last() else { return true };
    if shell == "zsh" {
        // A function for each command, named after its parents.
        return text.contains(&format!("_hivemind__subcmd__{}_commands()", words.join("__subcmd__")));
    }
    // A line that offers it after its parents.
    let place = match before {
        [] => "__fish_hivemind_needs_command\"".to_owned(),
        [first] => format!("__fish_hivemind_using_subcommand {first}; and not "),
        [first, .., second] => {
            format!("__fish_hivemind_using_subcommand {first}; and __fish_seen_subcommand_from {second}\"")
        }
    };
    let offers = format!("-a \"{last}\"");
    text.lines().any(|line| line.contains(&place) && line.contains(&offers))
}

#[test]
fn zsh_fish_and_manual_cover_each_command() {
    let commands = commands();
    for shell in ["zsh", "fish"] {
        let (code, text) = hivemind(&["completions", shell]);
        assert_eq!(code, Some(0));
        for (words, _) in &commands {
            assert!(has_path(shell, &text, words), "{shell}: {words:?}");
        }
    }
    assert_ne!(hivemind(&["completions", "tcl"]).0, Some(0));
    let folder = tempfile::tempdir().unwrap();
    assert_eq!(hivemind(&["man", "--out", folder.path().to_str().unwrap()]).0, Some(0));
    for (words, help) in &commands {
        let name = words.iter().fold("hivemind".to_owned(), |name, word| format!("{name}-{word}"));
        let page = std::fs::read_to_string(folder.path().join(format!("{name}.1")))
            .unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_manual_page(&name, &page);
        // The page's NAME section contains the first line of the command's help. A quote is escaped there.
        let about = help.lines().next().and_then(|line| line.split('\'').next()).expect("a line");
        let plain = page.replace('\\', "");
        assert!(plain.contains(about.trim_end_matches('.')), "{name}: {about}");
    }
    let (code, page) = hivemind(&["man"]);
    assert_eq!(code, Some(0));
    assert_manual_page("hivemind", &page);
    let (code, text) = hivemind(&["man", "--out", "/nowhere/out"]);
    assert!(code == Some(1) && text.contains("create the folder first"), "{text}");
}

/// Checks a page as a manual reader needs it: a title, then sections, and known troff requests.
fn assert_manual_page(name: &str, page: &str) {
    let requests: Vec<&str> = page
        .lines()
        .filter(|line| line.starts_with('.'))
        .map(|line| line.split(' ').next().unwrap())
        .collect();
    let known = [".ie", ".el", ".TH", ".SH", ".SS", ".TP", ".RS", ".RE", ".PP", ".br", ".IP", ".nf", ".fi"];
    for request in &requests {
        assert!(known.contains(request), "{name}: {request}");
    }
    assert_eq!(requests.iter().filter(|request| **request == ".TH").count(), 1, "{name}");
    let title = format!(".TH {name} 1");
    assert!(page.lines().any(|line| line.starts_with(&title)), "{name}: no `{title}`");
    let sections: Vec<&str> = page.lines().filter_map(|line| line.strip_prefix(".SH ")).collect();
    assert_eq!(sections.first(), Some(&"NAME"), "{name}: {sections:?}");
    for section in ["SYNOPSIS", "DESCRIPTION", "OPTIONS"] {
        assert!(sections.contains(&section), "{name}: no {section}");
    }
    // If groff is installed, it has no warnings.
    let file = std::env::temp_dir().join(format!("{name}-{}.1", std::process::id()));
    std::fs::write(&file, page).unwrap();
    if let Ok(read) = Command::new("groff").args(["-man", "-ww", "-Tutf8", "-z"]).arg(&file).output() {
        assert!(read.stderr.is_empty(), "{name}: {}", String::from_utf8_lossy(&read.stderr));
    }
    std::fs::remove_file(&file).unwrap();
}
