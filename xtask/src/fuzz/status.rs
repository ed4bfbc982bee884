//! Output of libFuzzer: status lines, causes and the file with a crashing input.

/// What a status line reports, such as `#2097 NEW cov: 22 ft: 23 corp: 2/5b lim: 4 exec/s: 0 rss: 30Mb`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Status {
    /// Executions since the process started.
    pub(super) executions: u64,
    /// Edges of the program that were reached, seeds included.
    pub(super) edges: u64,
    /// Inputs in the corpus, as `files/bytes`.
    pub(super) corpus: String,
}

impl Status {
    /// `None` for other lines.
    pub(super) fn parse(line: &str) -> Option<Self> {
        let executions = line.strip_prefix('#')?.split_whitespace().next()?.parse().ok()?;
        let field = |name: &str| line.split_whitespace().skip_while(|word| *word != name).nth(1);
        Some(Self { executions, edges: field("cov:")?.parse().ok()?, corpus: field("corp:")?.to_owned() })
    }
}

/// Whether a line names the cause of a crash: the message of a panic, or the summary of a sanitizer.
pub(super) fn is_cause(line: &str) -> bool {
    ["panicked at", "SUMMARY:", "ERROR:"].iter().any(|mark| line.contains(mark))
}

/// The file that a crashing input was written to.
pub(super) fn crashing_input(log: &str) -> Option<&str> {
    log.lines().rev().find_map(|line| line.split_once("Test unit written to ")).map(|(_, file)| file.trim())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn status_is_read_from_new_pulse_and_done_lines() {
        for event in ["NEW   ", "pulse ", "DONE  "] {
            let line =
                format!("#2097152\t{event} cov: 22 ft: 23 corp: 12/345Kb lim: 4096 exec/s: 0 rss: 30Mb");
            let expected = Status { executions: 2_097_152, edges: 22, corpus: "12/345Kb".to_owned() };
            assert_eq!(Status::parse(&line), Some(expected));
        }
    }

    #[test]
    fn other_lines_have_no_status() {
        for line in
            ["", "INFO: seed corpus: files: 3", "#2 text", "#x NEW cov: 1 corp: 1/1b", "#2 NEW cov: 1"]
        {
            assert_eq!(Status::parse(line), None, "{line}");
        }
    }

    #[test]
    fn crashing_input_is_the_last_written_file() {
        let log = "artifact_prefix='a/'; Test unit written to a/slow-1\n==1== ERROR: libFuzzer\n\
                   artifact_prefix='a/'; Test unit written to a/crash-2\nBase64: AA==\n";
        assert_eq!(crashing_input(log), Some("a/crash-2"));
        assert_eq!(crashing_input("nothing"), None);
    }

    #[test]
    fn cause_is_a_panic_or_a_summary() {
        assert!(is_cause("thread '<unnamed>' panicked at src/a.rs:1:2:"));
        assert!(is_cause("SUMMARY: AddressSanitizer: heap-use-after-free"));
        assert!(!is_cause("#2 NEW cov: 1"));
    }
}
