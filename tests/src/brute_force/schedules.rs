//! The shortest schedule of a program on one mesh axis: all layouts, and all orders of compute and
//! of the links.
//!
//! With one axis and at most one use of each value, a value is resharded by one path on the same
//! links, of which only the length matters: a job beside the jobs of compute.

use shardwise_ir::dataflow::Analyzed;
use shardwise_ir::ids::ValueId;

use super::{Brute, Goal, Layout, Pinned, Space};

/// A job on one of two machines, which starts when others are done.
struct Job {
    on_links: bool,
    seconds: f64,
    after: Vec<usize>,
}

/// The length of the shortest schedule of any plan, in seconds; `None` where a value has several
/// uses, there is more than one axis, or a block.
pub fn shortest_schedule(program: &Analyzed) -> Option<f64> {
    let brute = Brute { program, goal: Goal::Serial };
    let uses = |value: ValueId| {
        program.dataflow().uses_of(value).count()
            + program.outputs.iter().filter(|output| output.value == value).count()
    };
    let is_simple = program.repeats.is_empty()
        && brute.axes() == 1
        && program.values.indices().all(|value| uses(value) <= 1);
    if !is_simple {
        return None;
    }
    let spaces: Vec<Space> = program.values.indices().map(|value| brute.space(value)).collect();
    let layouts: Vec<Vec<Layout>> = program.ops.iter().map(|op| brute.layouts(op)).collect();
    let pinned = brute.pinned();
    let mut best = f64::INFINITY;
    let mut picked = vec![0; layouts.len()];
    if layouts.iter().any(Vec::is_empty) {
        return Some(best);
    }
    loop {
        let chosen: Vec<&Layout> = layouts.iter().zip(&picked).map(|(all, &i)| &all[i]).collect();
        let jobs = brute.jobs(&spaces, &pinned, &chosen);
        if jobs.iter().all(|job| job.seconds.is_finite()) {
            let mut order = Order { jobs: &jobs, ends: vec![None; jobs.len()], best };
            order.continue_from([0.0, 0.0]);
            best = order.best;
        }
        let Some(digit) = (0..picked.len()).find(|&d| picked[d] + 1 < layouts[d].len()) else {
            return Some(best);
        };
        picked[digit] += 1;
        picked[..digit].fill(0);
    }
}

impl Brute<'_> {
    /// A job for each operation, then one for each use of a value that is resharded for it.
    fn jobs(&self, spaces: &[Space], pinned: &Pinned, chosen: &[&Layout]) -> Vec<Job> {
        let compute = |(layout, beyond): (&&Layout, f64)| Job {
            on_links: false,
            seconds: layout.seconds + beyond,
            after: Vec::new(),
        };
        let mut jobs: Vec<Job> = chosen.iter().zip(self.read_beyond(chosen)).map(compute).collect();
        for (number, op) in self.program.ops.iter().enumerate() {
            for (operand, need) in op.operands.iter().zip(&chosen[number].needs) {
                let needed = [spaces[operand.value.index()].number[need]];
                let reshard = self.reshard(spaces, pinned, chosen, (operand.value, &needed));
                let last = jobs.len();
                jobs[number].after.push(last);
                jobs.push(reshard);
            }
        }
        for (output, accepted) in self.program.outputs.iter().zip(&pinned.outputs) {
            jobs.push(self.reshard(spaces, pinned, chosen, (output.value, accepted)));
        }
        jobs
    }

    /// The way of a value to the nearest of the states in which it is wanted, through its declared
    /// sharding.
    fn reshard(
        &self,
        spaces: &[Space],
        pinned: &Pinned,
        chosen: &[&Layout],
        (value, wanted): (ValueId, &[usize]),
    ) -> Job {
        let space = &spaces[value.index()];
        let producer = self.program.dataflow().definition(value);
        let declared = pinned.values[value.index()].clone();
        let given = producer.map(|op| space.number[&chosen[op.index()].gives]);
        let starts = declared.unwrap_or_else(|| given.into_iter().collect());
        let to_start = |start: usize| given.map_or(0.0, |given| space.distance[given][start]);
        let ways = starts
            .iter()
            .flat_map(|&start| wanted.iter().map(move |&end| (start, end)))
            .map(|(start, end)| to_start(start) + space.distance[start][end]);
        Job {
            on_links: true,
            seconds: ways.fold(f64::INFINITY, f64::min),
            after: producer.map(|op| op.index()).into_iter().collect(),
        }
    }
}

/// A schedule that is made job by job.
struct Order<'j> {
    jobs: &'j [Job],
    ends: Vec<Option<f64>>,
    best: f64,
}

impl Order<'_> {
    /// Tries every job next whose predecessors are done, where both machines are free from `free`.
    fn continue_from(&mut self, free: [f64; 2]) {
        let so_far = self.ends.iter().flatten().copied().fold(0.0, f64::max);
        if so_far >= self.best {
            return;
        }
        if self.ends.iter().all(Option::is_some) {
            self.best = so_far;
            return;
        }
        for (number, job) in self.jobs.iter().enumerate() {
            let before: Option<Vec<f64>> = job.after.iter().map(|&job| self.ends[job]).collect();
            let (None, Some(before)) = (self.ends[number], before) else { continue };
            let machine = usize::from(job.on_links);
            let ready = before.into_iter().fold(0.0, f64::max);
            // What takes no time occupies nothing, and is as good now as later.
            if job.seconds <= 0.0 {
                self.ends[number] = Some(ready);
                self.continue_from(free);
                self.ends[number] = None;
                return;
            }
            let end = ready.max(free[machine]) + job.seconds;
            let mut after = free;
            after[machine] = end;
            self.ends[number] = Some(end);
            self.continue_from(after);
            self.ends[number] = None;
        }
    }
}
