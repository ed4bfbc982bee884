//! `hivemind replay`: decides recorded requests at their own times.

use crate::demo::demo_rules;
use anyhow::{Context, bail};
use clap::{Args, ValueEnum};
use hivemind_core::Rules;
use hivemind_core::store::OnRefusal;
use hivemind_engine::replay::{
    AccessLogReader, Both, Comparison, Engine, InputLines, RecordedRequest, ReplayDecision, Summary,
};
use hivemind_engine::rule_files::load_rules;
use std::fs::File;
use std::io::{self, BufRead, BufReader, BufWriter, Read, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

const DEMO_REQUESTS: &str = include_str!("../../demo/requests.jsonl");

const LONG_ABOUT: &str = r#"Decide recorded requests at their own times, with the engine of the service.

Reads one request per line and writes one decision per line, in order. Memory use does not depend on
the size of the file:

  {"t_ms": 0, "domain": "demo", "entries": [["remote_address", "203.0.113.9"]], "hits": 1}
  {"t_ms":0,"allow":true,"remaining":19,"retry_after_ms":null}

`t_ms` is milliseconds since the Unix epoch. `hits` defaults to 1; 0 reads without spending.
`remaining` is null if no rule matches, `retry_after_ms` if the request passed or waiting does not
help.

With --against and --summary the same requests are decided under two rule sets, each with empty
counters: `now` is --against, `then` is --rules. POST /api/v1/simulate of a running service returns
the same."#;

/// Decide recorded requests at their own times
#[derive(Args)]
#[command(long_about = LONG_ABOUT, after_long_help = "Examples:
  hivemind replay --demo --summary
  hivemind replay --rules rules.yaml requests.jsonl
  hivemind replay --rules rules/ --format combined --summary /var/log/nginx/access.log
  hivemind replay --rules new.yaml --against rules.yaml --summary requests.jsonl
  tail -f requests.jsonl | hivemind replay --rules rules.yaml

Exits with 0 even if requests were refused; with 1 if the rules are invalid, a file cannot be read,
or a line is malformed and --malformed is stop.")]
pub(super) struct ReplayArgs {
    /// Rules: a file, or a folder of .yaml and .yml files [default: the demo rules]
    #[arg(long, value_name = "PATH")]
    rules: Option<PathBuf>,

    /// With --summary: other rules to compare with, such as the current ones; limited keys of both are shown side by
    /// side
    #[arg(long, value_name = "PATH", requires = "summary")]
    against: Option<PathBuf>,

    /// Allow several files to have rules for one domain, like `rate_limiting.merge_domains`
    #[arg(long)]
    merge_domains: bool,

    /// The recorded requests; `-` or no file means standard input
    #[arg(value_name = "FILE", conflicts_with = "demo")]
    file: Option<PathBuf>,

    /// Replay built-in requests: a client that floods, one that behaves, and one that is not limited
    #[arg(long)]
    demo: bool,

    /// The format of a line
    #[arg(long, value_enum, default_value_t = LineFormat::Json)]
    format: LineFormat,

    /// With --format combined: the domain. Required if the rules have several
    #[arg(long, value_name = "NAME")]
    domain: Option<String>,

    /// With --format combined: the entries of a request, in order, from `remote_address`, `remote_user`, `method`,
    /// `path`, `status`, `referer`, `user_agent`
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "remote_address")]
    entries: Vec<String>,

    /// Print which keys would have been limited, as a table and a chart, instead of the decisions
    #[arg(long)]
    summary: bool,

    /// What to do with a line that cannot be read: stop, or report it and continue
    #[arg(long, value_enum, default_value_t = OnMalformed::Stop)]
    malformed: OnMalformed,

    /// Which limits record a refused request, like `rate_limiting.on_refusal` of the service
    #[arg(long, value_enum, default_value_t = OnRefusalArg::Refusing)]
    on_refusal: OnRefusalArg,

    /// The maximum number of keys to keep; above it, new keys share buckets
    #[arg(long, value_name = "COUNT", default_value_t = 1_000_000, value_parser = clap::value_parser!(u32).range(1..=1_000_000_000))]
    max_keys: u32,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum LineFormat {
    /// JSON lines as described above
    Json,
    /// An access log of nginx or Apache, in the combined format
    Combined,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum OnMalformed {
    Stop,
    Skip,
}

/// The values of `rate_limiting.on_refusal`.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum OnRefusalArg {
    /// The limits that refused record it, the others do not
    #[value(name = "count_refusing")]
    Refusing,
    /// Every limit records it
    #[value(name = "count_all")]
    All,
    /// No limit records it
    #[value(name = "count_none")]
    None,
}

impl From<OnRefusalArg> for OnRefusal {
    fn from(refusal: OnRefusalArg) -> Self {
        match refusal {
            OnRefusalArg::Refusing => Self::CountRefusing,
            OnRefusalArg::All => Self::CountAll,
            OnRefusalArg::None => Self::CountNone,
        }
    }
}

impl ReplayArgs {
    pub(super) fn run(&self) -> anyhow::Result<ExitCode> {
        let rules = self.load(self.rules.as_deref())?;
        let reader = self.reader(&rules)?;
        let mut course = self.course(rules)?;
        let mut lines = InputLines::new(self.input()?);
        let mut output = BufWriter::new(io::stdout().lock());
        let mut skipped = 0_u64;
        while let Some(line) = lines.next_line().with_context(|| format!("reading {}", self.input_name()))? {
            let recorded = line.text.and_then(|text| reader.read(text));
            let recorded = match recorded {
                Ok(recorded) => recorded,
                Err(malformed) => {
                    let place = format!("{}:{}: {malformed}", self.input_name(), line.number);
                    if self.malformed == OnMalformed::Stop {
                        output.flush()?;
                        bail!("{place}; use `--malformed skip` to continue after such lines");
                    }
                    writeln!(io::stderr(), "hivemind: {place}; skipped")?;
                    skipped += 1;
                    continue;
                }
            };
            course.take(&recorded, &mut output)?;
            // Someone who types, or follows a log, expects each decision immediately.
            if !lines.has_more_at_hand() {
                output.flush()?;
            }
        }
        match &course {
            Course::Decisions(_) => {}
            Course::Summed(_, summary) => write!(output, "{summary}")?,
            Course::Compared(comparison) => write!(output, "{comparison}")?,
        }
        output.flush()?;
        self.say_what_was_lost(skipped, course.overflowed())?;
        Ok(ExitCode::SUCCESS)
    }

    /// The mode that the flags select.
    fn course(&self, rules: Rules) -> anyhow::Result<Course> {
        let (max_keys, on_refusal) = (usize::try_from(self.max_keys)?, self.on_refusal.into());
        if let Some(against) = &self.against {
            let rules = Both { now: self.load(Some(against))?, then: rules };
            return Ok(Course::Compared(Box::new(Comparison::new(rules, max_keys, on_refusal))));
        }
        let engine = Engine::new(rules, max_keys, on_refusal);
        Ok(if self.summary { Course::Summed(engine, Summary::default()) } else { Course::Decisions(engine) })
    }

    /// Loads the rules at a path; the demo rules without one.
    fn load(&self, path: Option<&Path>) -> anyhow::Result<Rules> {
        let loaded = match path {
            Some(path) => load_rules(path, self.merge_domains)?,
            None => demo_rules()?,
        };
        for warning in &loaded.warnings {
            writeln!(io::stderr(), "{warning}\n")?;
        }
        Ok(loaded.ruleset.rules)
    }

    fn reader(&self, rules: &Rules) -> anyhow::Result<LineReader> {
        if self.format == LineFormat::Json {
            return Ok(LineReader::Json);
        }
        let domains: Vec<&str> = rules.domains().collect();
        let domain = match (&self.domain, domains.as_slice()) {
            (Some(domain), _) => domain.clone(),
            (None, [only]) => (*only).to_owned(),
            (None, several) => {
                bail!("the rules have {} domains; choose one with --domain", several.len())
            }
        };
        Ok(LineReader::Combined(AccessLogReader::new(domain, &self.entries)?))
    }

    fn input(&self) -> anyhow::Result<Box<dyn BufRead>> {
        let read: Box<dyn Read> = match &self.file {
            None if self.demo => Box::new(DEMO_REQUESTS.as_bytes()),
            None => Box::new(io::stdin()),
            Some(path) if path == Path::new("-") => Box::new(io::stdin()),
            Some(path) => Box::new(File::open(path).with_context(|| format!("opening {}", path.display()))?),
        };
        Ok(Box::new(BufReader::with_capacity(64 << 10, read)))
    }

    fn input_name(&self) -> String {
        match &self.file {
            None if self.demo => "built-in demo requests".into(),
            Some(path) if path != Path::new("-") => path.display().to_string(),
            _ => "standard input".into(),
        }
    }

    fn say_what_was_lost(&self, skipped: u64, overflowed: u64) -> io::Result<()> {
        if skipped > 0 {
            writeln!(io::stderr(), "hivemind: {skipped} malformed lines were skipped")?;
        }
        if overflowed > 0 {
            let text = "decisions found no room for a key of their own and shared a bucket; raise --max-keys";
            writeln!(io::stderr(), "hivemind: {overflowed} {text} (now {})", self.max_keys)?;
        }
        Ok(())
    }
}

/// What happens to each decision: written, summarized, or compared under two rule sets.
enum Course {
    Decisions(Engine),
    Summed(Engine, Summary),
    Compared(Box<Comparison>),
}

impl Course {
    fn take(&mut self, recorded: &RecordedRequest<'_>, output: &mut impl Write) -> io::Result<()> {
        match self {
            Self::Decisions(engine) => return write_decision(output, recorded, &engine.decide(recorded)),
            Self::Summed(engine, summary) => summary.add(recorded, &engine.decide(recorded)),
            Self::Compared(comparison) => {
                let entries = recorded.entries();
                comparison.decide(recorded.at(), &recorded.domain, &[recorded.descriptor(&entries)]);
            }
        }
        Ok(())
    }

    fn overflowed(&self) -> u64 {
        match self {
            Self::Decisions(engine) | Self::Summed(engine, _) => engine.overflowed(),
            Self::Compared(comparison) => comparison.overflowed(),
        }
    }
}

enum LineReader {
    Json,
    Combined(AccessLogReader),
}

impl LineReader {
    fn read<'a>(&'a self, line: &'a str) -> Result<RecordedRequest<'a>, hivemind_engine::replay::LineError> {
        match self {
            Self::Json => RecordedRequest::from_json(line),
            Self::Combined(log) => log.read(line),
        }
    }
}

fn write_decision(
    output: &mut impl Write,
    recorded: &RecordedRequest<'_>,
    taken: &ReplayDecision,
) -> io::Result<()> {
    #[derive(serde::Serialize)]
    struct DecisionLine {
        t_ms: u64,
        allow: bool,
        remaining: Option<u64>,
        retry_after_ms: Option<u64>,
    }
    let &ReplayDecision { allow, remaining, retry_after_ms } = taken;
    serde_json::to_writer(
        &mut *output,
        &DecisionLine { t_ms: recorded.t_ms, allow, remaining, retry_after_ms },
    )
    .map_err(io::Error::from)?;
    output.write_all(b"\n")
}
