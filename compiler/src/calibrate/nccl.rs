//! The output of nccl-tests (`all_reduce_perf -b 8 -e 8G -f 2 -g 8`), and of rccl-tests, which
//! print the same.
//!
//! Its table has a time out of place and one in place for each size. The sizes are those that the
//! cost model prices: of the gathered, scattered or reduced value, or what a device holds before an
//! AllToAll. Ranks and hosts are listed above the table; the collective is named by newer versions
//! alone, else by the command in the log or the name of the file.

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

/// Where the table is.
pub(super) struct Table<'t> {
    columns: Vec<&'t str>,
    /// The byte after the head.
    start: usize,
}

impl<'t> Table<'t> {
    /// The table of an output; `None` where there is none.
    pub(super) fn find(text: &'t str) -> Option<Self> {
        let mut start = 0;
        for line in text.split_inclusive('\n') {
            start += line.len();
            let columns: Vec<&str> =
                line.trim_start_matches(['#', ' ', '\t']).split_whitespace().collect();
            let has = |name: &str| columns.contains(&name);
            if columns.first() == Some(&"size") && has("count") && has("time") {
                return Some(Self { columns, start });
            }
        }
        None
    }

    /// The measurements, two for each row.
    pub(super) fn read(&self, text: &Text<'_>) -> Result<Vec<Measurement>, Vec<Diag>> {
        let kind = collective(text)?;
        let devices = devices(text)?;
        let (mut measurements, mut diags) = (Vec::new(), Vec::new());
        for (span, fields) in self.rows(text) {
            match self.row(text, &fields, (kind, devices), span) {
                Ok(row) => measurements.extend(row),
                Err(diag) => diags.push(diag),
            }
        }
        if diags.is_empty() { Ok(measurements) } else { Err(diags) }
    }

    /// The rows below the head with their fields: those that begin with a size.
    fn rows<'s>(&self, text: &'s Text<'_>) -> impl Iterator<Item = (Span, Vec<&'s str>)> {
        let mut at = self.start;
        text.content[self.start..].split_inclusive('\n').filter_map(move |line| {
            let span = Span::new(at, at + line.trim_end().len());
            at += line.len();
            let fields: Vec<&str> = line.split_whitespace().collect();
            fields.first()?.parse::<u64>().ok()?;
            Some((span, fields))
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
            let time = fields[place].parse::<f64>().ok().filter(|time| *time > 0.0);
            let Some(time) = time.filter(|_| bytes > 0) else { continue };
            let kernel = over_devices(kind, bytes, devices, span)?;
            let place = text.place(span.start);
            let seconds = time * 1e-6;
            measurements.push(Measurement { kernel, seconds, spread: None, place, span });
        }
        Ok(measurements)
    }
}

/// The collective: the first program of nccl-tests that the text names, else that of the file.
fn collective(text: &Text<'_>) -> Result<CollectiveName, Vec<Diag>> {
    let first_in = |text: &str, suffix: &str| {
        let found = |(name, kind): &(&str, CollectiveName)| {
            Some((text.find(&format!("{name}{suffix}"))?, *kind))
        };
        PROGRAMS.iter().filter_map(found).min_by_key(|(at, _)| *at).map(|(_, kind)| kind)
    };
    first_in(text.content, "_perf").or_else(|| first_in(text.name, "")).ok_or_else(|| {
        vec![wrong(
            "which collective this is, is not stated".to_owned(),
            text.line(0),
            "add a line `# all_reduce_perf` (or all_gather_perf, reduce_scatter_perf, \
                alltoall_perf), or name the file so",
        )]
    })
}

/// How many ranks there are, and on how many hosts: `#  Rank  0 Group  0 Pid 7 on node1 device 0`.
fn devices(text: &Text<'_>) -> Result<(u64, u64), Vec<Diag>> {
    let ranks = text.content.lines().filter(|line| {
        line.trim_start_matches(['#', ' ', '\t']).starts_with("Rank ") && line.contains(" on ")
    });
    let mut hosts: Vec<&str> = ranks
        .filter_map(|line| {
            line.split_once(" on ").and_then(|(_, host)| host.split_whitespace().next())
        })
        .collect();
    let count = hosts.len() as u64;
    hosts.sort_unstable();
    hosts.dedup();
    if count == 0 {
        return Err(vec![wrong(
            "the ranks are not listed".to_owned(),
            text.line(0),
            "give the whole output, from `# Using devices` on",
        )]);
    }
    Ok((count, hosts.len() as u64))
}
