//! The output of nccl-tests (`all_reduce_perf -b 8 -e 8G -f 2 -g 8`), and of rccl-tests, which
//! print the same.
//!
//! Its table has a time out of place and one in place for each size. The sizes are those that the
//! cost model prices: of the gathered, scattered or reduced value, or what a device holds before an
//! AllToAll. Ranks and hosts are listed above the table; the collective is named by newer versions
//! alone, else by the command in the log or the name of the file.
//!
//! A log may hold several runs, one after another, as scripts print that measure every collective,
//! or one over several numbers of devices. A run is a table and what stands between it and the
//! table before: its own ranks and collective, and those of the run before where it has none.

use shardwise_ir::{Diag, Span};

use super::measurement::{CollectiveName, Measurement};
use super::text::{Text, over_devices, wrong};

/// The programs of nccl-tests that measure what a plan can have.
const PROGRAMS: [(&str, CollectiveName); 4] = [
    ("all_gather", CollectiveName::AllGather),
    ("reduce_scatter", CollectiveName::ReduceScatter),
    ("all_reduce", CollectiveName::AllReduce),
    ("alltoall", CollectiveName::AllToAll),
];

/// Those that measure something else.
const OTHERS: [&str; 6] = ["broadcast", "gather", "hypercube", "reduce", "scatter", "sendrecv"];

/// A table, and the part of the text that belongs to its run.
struct Run<'t> {
    columns: Vec<&'t str>,
    /// The line of the head.
    head: Span,
    /// Where the rows before the head end, if there are some.
    begin: usize,
    /// Where the next run has its head.
    end: usize,
}

/// The measurements of an output, which ends at `end`, two for each row; `None` where it has no
/// table.
pub(super) fn measurements(
    text: &Text<'_>,
    end: usize,
) -> Option<Result<Vec<Measurement>, Vec<Diag>>> {
    let runs = Run::all(&text.content[..end]);
    (!runs.is_empty()).then(|| read(&runs, text))
}

fn read(runs: &[Run<'_>], text: &Text<'_>) -> Result<Vec<Measurement>, Vec<Diag>> {
    let mut before = None;
    let (mut measurements, mut diags) = (Vec::new(), Vec::new());
    for run in runs {
        let kind = run.collective(text, before.map(|(kind, _)| kind))?;
        let devices = run.devices(text, before.map(|(_, devices)| devices))?;
        before = Some((kind, devices));
        for (span, fields) in run.rows(text) {
            match run.row(text, &fields, (kind, devices), span) {
                Ok(row) => measurements.extend(row),
                Err(diag) => diags.push(diag),
            }
        }
    }
    if diags.is_empty() { Ok(measurements) } else { Err(diags) }
}

impl<'t> Run<'t> {
    fn all(text: &'t str) -> Vec<Self> {
        let mut runs: Vec<Self> = Vec::new();
        let (mut at, mut begin) = (0, 0);
        for line in text.split_inclusive('\n') {
            let head = Span::new(at, at + line.trim_end().len());
            at += line.len();
            let columns: Vec<&str> =
                line.trim_start_matches(['#', ' ', '\t']).split_whitespace().collect();
            let has = |name: &str| columns.contains(&name);
            if columns.first() == Some(&"size") && has("count") && has("time") {
                if let Some(last) = runs.last_mut() {
                    last.end = head.start;
                }
                runs.push(Self { columns, head, begin, end: text.len() });
            }
            if !runs.is_empty() && size_of_row(line).is_some() {
                begin = at;
            }
        }
        runs
    }

    /// The rows below the head with their fields: those that begin with a size.
    fn rows<'s>(&self, text: &'s Text<'_>) -> impl Iterator<Item = (Span, Vec<&'s str>)> {
        let mut at = self.head.start;
        text.content[at..self.end].split_inclusive('\n').filter_map(move |line| {
            let span = Span::new(at, at + line.trim_end().len());
            at += line.len();
            size_of_row(line)?;
            Some((span, line.split_whitespace().collect()))
        })
    }

    fn row(
        &self,
        text: &Text<'_>,
        fields: &[&str],
        (kind, devices): (CollectiveName, (u64, u64)),
        span: Span,
    ) -> Result<Vec<Measurement>, Diag> {
        if fields.len() < self.columns.len() {
            let message = format!("this row has {} of {} values", fields.len(), self.columns.len());
            return Err(wrong(message, span, "give the whole output, with no line cut"));
        }
        let bytes = fields[0].parse::<u64>().unwrap_or_default();
        let mut measurements = Vec::new();
        let is_time = |(_, name): &(usize, &&str)| **name == "time";
        for (place, _) in self.columns.iter().enumerate().filter(is_time) {
            // A collective that cannot run in place has `N/A` there; below 1 byte a rank, 0 bytes.
            if bytes == 0 || fields[place] == "N/A" {
                continue;
            }
            let time = time_us(fields[place], span)?;
            self.check_result(fields, place, span)?;
            let kernel = over_devices(kind, bytes, devices, span)?;
            let place = text.place(span.start);
            let seconds = time * 1e-6;
            measurements.push(Measurement { kernel, seconds, spread: None, place, span });
        }
        Ok(measurements)
    }

    /// An error where the run whose time is at `place` has elements that are wrong: `#wrong` is the
    /// next such column. Large counts are written as `1.04858e+06`.
    fn check_result(&self, fields: &[&str], place: usize, span: Span) -> Result<(), Diag> {
        let mut beside = self.columns.iter().zip(fields).skip(place);
        let count = beside.find(|(name, _)| **name == "#wrong").map_or("0", |(_, field)| field);
        if count.parse::<f64>().is_ok_and(|count| count > 0.0) {
            let help = "a collective that fails its check measures nothing; remove this row, or \
                run it again";
            return Err(wrong(format!("{count} elements of this result are wrong"), span, help));
        }
        Ok(())
    }

    /// The collective: the last program of nccl-tests that the text names above the table, else
    /// that of the run before, else that of the file.
    fn collective(
        &self,
        text: &Text<'_>,
        before: Option<CollectiveName>,
    ) -> Result<CollectiveName, Vec<Diag>> {
        let wrong = |message: String, help: &str| vec![wrong(message, self.head, help)];
        match programs(&text.content[self.begin..self.head.start]).last() {
            Some(Program::Measures(kind)) => return Ok(kind),
            Some(Program::Other(name)) => {
                let message = format!("`{name}_perf` measures no collective of a plan");
                return Err(wrong(message, "remove this table"));
            }
            None => {}
        }
        let of_file =
            PROGRAMS.iter().filter_map(|(name, kind)| Some((text.name.find(name)?, kind)));
        let of_file = of_file.min_by_key(|(at, _)| *at).map(|(_, kind)| *kind);
        before.or(of_file).ok_or_else(|| {
            wrong(
                "which collective this is, is not stated".to_owned(),
                "add a line `# all_reduce_perf` (or all_gather_perf, reduce_scatter_perf, \
                    alltoall_perf) above it, or name the file so",
            )
        })
    }

    /// How many ranks there are, and on how many hosts: `#  Rank  0 Group  0 Pid 7 on node1 device
    /// 0`. Of several groups, each of which runs the collective alone, those of the first.
    fn devices(
        &self,
        text: &Text<'_>,
        before: Option<(u64, u64)>,
    ) -> Result<(u64, u64), Vec<Diag>> {
        let lines = text.content[self.begin..self.head.start].lines();
        let ranks: Vec<(&str, &str)> = lines.filter_map(rank).collect();
        let group = ranks.first().map(|(group, _)| *group);
        let of_group = ranks.iter().filter(|(of, _)| Some(*of) == group);
        let mut hosts: Vec<&str> = of_group.map(|(_, host)| *host).collect();
        let count = hosts.len() as u64;
        hosts.sort_unstable();
        hosts.dedup();
        let own = (count > 0).then_some((count, hosts.len() as u64));
        own.or(before).ok_or_else(|| {
            vec![wrong(
                "the ranks are not listed".to_owned(),
                self.head,
                "give the whole output, from `# Using devices` on",
            )]
        })
    }
}

/// A time of a table, in microseconds.
fn time_us(text: &str, span: Span) -> Result<f64, Diag> {
    let time = text.parse::<f64>().ok().filter(|time| time.is_finite() && *time > 0.0);
    time.ok_or_else(|| {
        let help = "a collective takes more than 0 us; remove this row, or measure it again";
        wrong(format!("`{text}` is no time"), span, help)
    })
}

/// The bytes that a row of a table begins with.
fn size_of_row(line: &str) -> Option<u64> {
    line.split_whitespace().next()?.parse().ok()
}

/// A program of nccl-tests that a text names.
enum Program<'t> {
    Measures(CollectiveName),
    Other(&'t str),
}

/// The programs that a text names, but for `# Collective test concluded: all_reduce_perf`.
fn programs(text: &str) -> impl Iterator<Item = Program<'_>> {
    let lines = text.lines().filter(|line| !line.contains("concluded"));
    lines.flat_map(|line| line.match_indices("_perf").map(move |(at, _)| &line[..at])).filter_map(
        |until| {
            let is_part = |of: char| of.is_ascii_lowercase() || of == '_';
            let word = &until[until.trim_end_matches(is_part).len()..];
            let known = PROGRAMS.iter().find(|(name, _)| word.ends_with(name));
            let known = known.map(|(_, kind)| Program::Measures(*kind));
            known.or_else(|| OTHERS.contains(&word).then_some(Program::Other(word)))
        },
    )
}

/// The group and the host of a line that lists a rank.
fn rank(line: &str) -> Option<(&str, &str)> {
    let listed = line.trim_start_matches(['#', ' ', '\t']).strip_prefix("Rank ")?;
    let (rank, host) = listed.split_once(" on ")?;
    let group = rank.split_once("Group").and_then(|(_, of)| of.split_whitespace().next());
    Some((group.unwrap_or_default(), host.split_whitespace().next()?))
}
