//! The working form of a model under a capacity: variables, tables over pairs of them, and what
//! their choices demand at moments. Presolve shrinks it step by step; [`Network::decode`] leads
//! from an assignment of what is left back to one of all variables.

use std::ops::Range;
use std::sync::Arc;

use rustc_hash::FxHashMap;

/// An infinite cost: infeasible.
pub(crate) const INFINITE: f64 = f64::INFINITY;

/// Rounding errors of sums of demands, as a share of the slack.
const ROUNDING: f64 = 1e-9;

/// A cost for each pair of choices of two variables: rows of the first, shared until one changes.
#[derive(Clone)]
pub(crate) struct Table {
    /// Its variables, ascending.
    pub(crate) ends: [usize; 2],
    /// The costs; none if the table was removed.
    pub(crate) costs: Arc<Vec<f64>>,
}

/// What each choice of a variable demands during some moments.
#[derive(Clone)]
pub(crate) struct Demand {
    pub(crate) live: Range<usize>,
    pub(crate) numbers: Vec<f64>,
}

impl Demand {
    /// The least number.
    pub(crate) fn least(&self) -> f64 {
        self.numbers.iter().copied().fold(INFINITE, f64::min)
    }

    /// The largest number.
    pub(crate) fn most(&self) -> f64 {
        self.numbers.iter().copied().fold(0.0, f64::max)
    }
}

/// A moment: its place among all moments of the model, and what it leaves to demands.
#[derive(Clone, Copy)]
pub(crate) struct Moment {
    pub(crate) id: usize,
    pub(crate) slack: f64,
}

impl Moment {
    /// Rounding errors of sums of demands.
    pub(crate) fn tolerance(&self) -> f64 {
        ROUNDING * self.slack.abs().max(1.0)
    }
}

/// One step of presolve, as decoding needs it.
#[derive(Clone)]
enum Step {
    /// For each choice of `variable` its number before.
    Kept { variable: usize, kept: Vec<usize> },
    /// For each choice of `leader`, that of `variable`.
    Follows { variable: usize, leader: usize, choices: Vec<usize> },
    /// `variable` takes its best choice beside the others of its tables.
    Eliminated { variable: usize, unary: Vec<f64>, tables: Vec<(usize, Vec<f64>)> },
}

/// The working form.
#[derive(Clone, Default)]
pub(crate) struct Network {
    /// The cost of each choice; none where a variable is gone.
    pub(crate) unary: Vec<Vec<f64>>,
    pub(crate) tables: Vec<Table>,
    pub(crate) tables_of: Vec<Vec<usize>>,
    between: FxHashMap<[usize; 2], usize>,
    pub(crate) demands: Vec<Arc<Vec<Demand>>>,
    pub(crate) moments: Vec<Moment>,
    pub(crate) constant: f64,
    /// Whether some variable has no choice left, or some moment no capacity left.
    pub(crate) is_infeasible: bool,
    steps: Vec<Step>,
}

impl Network {
    /// Without tables and demands.
    pub(crate) fn new(unary: Vec<Vec<f64>>, moments: Vec<Moment>, constant: f64) -> Self {
        let variables = unary.len();
        Self {
            is_infeasible: unary.iter().any(Vec::is_empty),
            unary,
            moments,
            constant,
            tables_of: vec![Vec::new(); variables],
            demands: vec![Arc::default(); variables],
            ..Self::default()
        }
    }

    /// Adds a variable with these costs of its choices; returns its number.
    pub(crate) fn add_variable(&mut self, costs: Vec<f64>) -> usize {
        self.unary.push(costs);
        self.tables_of.push(Vec::new());
        self.demands.push(Arc::default());
        self.unary.len() - 1
    }

    /// The variables that are left.
    pub(crate) fn variables(&self) -> impl Iterator<Item = usize> + '_ {
        (0..self.unary.len()).filter(|&v| !self.is_gone(v))
    }

    /// Whether a variable was eliminated or follows another.
    pub(crate) fn is_gone(&self, variable: usize) -> bool {
        self.unary[variable].is_empty()
    }

    /// The number of choices.
    pub(crate) fn size(&self, variable: usize) -> usize {
        self.unary[variable].len()
    }

    /// The variable at the other end of a table.
    pub(crate) fn other(&self, table: usize, variable: usize) -> usize {
        let [first, second] = self.tables[table].ends;
        if first == variable { second } else { first }
    }

    /// The costs of a table by rows of `variable`.
    pub(crate) fn rows(&self, table: usize, variable: usize) -> Vec<f64> {
        let Table { ends: [first, second], costs } = &self.tables[table];
        if *first == variable {
            costs.to_vec()
        } else {
            transposed(costs, self.size(*first), self.size(*second))
        }
    }

    /// Adds a table by rows of `a`; joins it with one over the same variables.
    pub(crate) fn add_table(&mut self, a: usize, b: usize, costs: Vec<f64>) {
        if a > b {
            return self.add_table(b, a, transposed(&costs, self.size(a), self.size(b)));
        }
        if let Some(&table) = self.between.get(&[a, b]) {
            let known = Arc::make_mut(&mut self.tables[table].costs);
            known.iter_mut().zip(&costs).for_each(|(sum, cost)| *sum += cost);
        } else {
            self.insert_table([a, b], costs.into());
        }
    }

    /// Adds a table of two variables, ascending, that have none.
    pub(crate) fn insert_table(&mut self, ends: [usize; 2], costs: Arc<Vec<f64>>) {
        self.between.insert(ends, self.tables.len());
        for end in ends {
            self.tables_of[end].push(self.tables.len());
        }
        self.tables.push(Table { ends, costs });
    }

    /// Removes a table; returns its costs.
    pub(crate) fn remove_table(&mut self, table: usize) -> Arc<Vec<f64>> {
        let ends = self.tables[table].ends;
        for end in ends {
            self.tables_of[end].retain(|&other| other != table);
        }
        self.between.remove(&ends);
        std::mem::take(&mut self.tables[table].costs)
    }

    /// Adds what the choices of a variable demand.
    pub(crate) fn add_demand(&mut self, variable: usize, demand: Demand) {
        Arc::make_mut(&mut self.demands[variable]).push(demand);
    }

    /// Keeps these choices of a variable, in this order; a choice may be kept twice.
    pub(crate) fn restrict(&mut self, variable: usize, kept: Vec<usize>) {
        for i in 0..self.tables_of[variable].len() {
            let table = self.tables_of[variable][i];
            self.tables[table].costs = Arc::new(self.restricted(table, variable, &kept));
        }
        let pick = |of: &Vec<f64>| kept.iter().map(|&choice| of[choice]).collect::<Vec<f64>>();
        self.unary[variable] = pick(&self.unary[variable]);
        for demand in Arc::make_mut(&mut self.demands[variable]) {
            demand.numbers = pick(&demand.numbers);
        }
        self.is_infeasible |= kept.is_empty();
        self.steps.push(Step::Kept { variable, kept });
    }

    fn restricted(&self, table: usize, variable: usize, kept: &[usize]) -> Vec<f64> {
        let Table { ends: [first, second], costs } = &self.tables[table];
        let columns = self.size(*second);
        let row = |x: usize| &costs[x * columns..(x + 1) * columns];
        if *first == variable {
            kept.iter().flat_map(|&x| row(x).iter().copied()).collect()
        } else {
            let rows = (0..self.size(*first)).map(row);
            rows.flat_map(|row| kept.iter().map(|&y| row[y])).collect()
        }
    }

    /// Lets the choice of `variable` follow from that of `leader`, which takes over its costs,
    /// tables and demands.
    pub(crate) fn follow(&mut self, variable: usize, leader: usize, choices: Vec<usize>) {
        let own = std::mem::take(&mut self.unary[variable]);
        let size = own.len();
        for (sum, &choice) in self.unary[leader].iter_mut().zip(&choices) {
            *sum += own[choice];
        }
        for table in self.tables_of[variable].clone() {
            let other = self.other(table, variable);
            let is_first = self.tables[table].ends[0] == variable;
            let costs = self.remove_table(table);
            let columns = self.size(other);
            let rows = if is_first { costs.to_vec() } else { transposed(&costs, columns, size) };
            if other == leader {
                for (x, (sum, &choice)) in self.unary[leader].iter_mut().zip(&choices).enumerate() {
                    *sum += rows[choice * columns + x];
                }
            } else {
                let row = |&choice: &usize| &rows[choice * columns..(choice + 1) * columns];
                self.add_table(leader, other, choices.iter().flat_map(row).copied().collect());
            }
        }
        for Demand { live, numbers } in std::mem::take(&mut self.demands[variable]).iter() {
            let numbers = choices.iter().map(|&choice| numbers[choice]).collect();
            self.add_demand(leader, Demand { live: live.clone(), numbers });
        }
        self.steps.push(Step::Follows { variable, leader, choices });
    }

    /// Eliminates a variable without demands and with at most two tables.
    pub(crate) fn eliminate(&mut self, variable: usize) {
        let numbers = self.tables_of[variable].clone();
        let views = numbers.iter().map(|&t| (self.other(t, variable), self.rows(t, variable)));
        let tables: Vec<(usize, Vec<f64>)> = views.collect();
        for table in numbers {
            self.remove_table(table);
        }
        let unary = std::mem::take(&mut self.unary[variable]);
        match &tables[..] {
            [] => self.constant += unary.iter().copied().fold(INFINITE, f64::min),
            [(other, rows)] => {
                let least = least_sums(&unary, rows, &vec![0.0; unary.len()]);
                self.unary[*other].iter_mut().zip(least).for_each(|(sum, least)| *sum += least);
            }
            [(first, rows), (second, others), ..] => {
                self.add_table(*first, *second, least_sums(&unary, rows, others));
            }
        }
        self.steps.push(Step::Eliminated { variable, unary, tables });
    }

    /// The variables that are left alone, with their numbers here.
    pub(crate) fn compact(&self) -> (Self, Vec<usize>) {
        let left: Vec<usize> = self.variables().collect();
        let mut number = vec![usize::MAX; self.unary.len()];
        for (new, &old) in left.iter().enumerate() {
            number[old] = new;
        }
        let unary = left.iter().map(|&v| self.unary[v].clone()).collect();
        let mut small = Self::new(unary, self.moments.clone(), self.constant);
        small.is_infeasible |= self.is_infeasible;
        small.demands = left.iter().map(|&v| Arc::clone(&self.demands[v])).collect();
        for table in self.tables.iter().filter(|table| !table.costs.is_empty()) {
            small.insert_table(table.ends.map(|end| number[end]), Arc::clone(&table.costs));
        }
        (small, left)
    }

    /// Converts an assignment of what is left to one of all variables.
    pub(crate) fn decode(&self, assignment: &[usize]) -> Vec<usize> {
        let mut all = assignment.to_vec();
        for step in self.steps.iter().rev() {
            match step {
                Step::Kept { variable, kept } => all[*variable] = kept[all[*variable]],
                Step::Follows { variable, leader, choices } => {
                    all[*variable] = choices[all[*leader]];
                }
                Step::Eliminated { variable, unary, tables } => {
                    all[*variable] = best_choice(unary, tables, &all);
                }
            }
        }
        all
    }

    /// The cost of an assignment of what is left.
    pub(crate) fn cost(&self, assignment: &[usize]) -> f64 {
        let unary = self.variables().map(|v| self.unary[v][assignment[v]]);
        let tables = self.tables.iter().filter(|table| !table.costs.is_empty());
        let entry = |Table { ends: [a, b], costs }: &Table| {
            costs[assignment[*a] * self.size(*b) + assignment[*b]]
        };
        self.constant + unary.sum::<f64>() + tables.map(entry).sum::<f64>()
    }

    /// By how much an assignment of what is left exceeds the slack of each moment.
    pub(crate) fn excess(&self, assignment: &[usize]) -> Vec<f64> {
        let demands = self.variables().flat_map(|v| {
            let number =
                move |demand: &Demand| (demand.live.clone(), demand.numbers[assignment[v]]);
            self.demands[v].iter().map(number)
        });
        self.over(demands)
    }

    /// The sums of numbers that are live at each moment, less its slack.
    pub(crate) fn over(&self, numbers: impl Iterator<Item = (Range<usize>, f64)>) -> Vec<f64> {
        let mut changes = vec![0.0; self.moments.len() + 1];
        for (live, number) in numbers {
            changes[live.start] += number;
            changes[live.end] -= number;
        }
        let mut sum = 0.0;
        let moments = self.moments.iter().zip(changes);
        moments
            .map(|(moment, change)| {
                sum += change;
                sum - moment.slack
            })
            .collect()
    }
}

/// The least cost of a choice beside each pair of choices of two others, whose costs are given by
/// its rows.
fn least_sums(unary: &[f64], first: &[f64], second: &[f64]) -> Vec<f64> {
    let (rows, columns) = (first.len() / unary.len(), second.len() / unary.len());
    let mut least = vec![INFINITE; rows * columns];
    for (x, own) in unary.iter().enumerate() {
        let beside = &second[x * columns..(x + 1) * columns];
        for (a, cost) in first[x * rows..(x + 1) * rows].iter().enumerate() {
            let cost = own + cost;
            for (least, other) in least[a * columns..(a + 1) * columns].iter_mut().zip(beside) {
                *least = least.min(cost + other);
            }
        }
    }
    least
}

/// The cheapest choice beside the others of its tables.
fn best_choice(unary: &[f64], tables: &[(usize, Vec<f64>)], assignment: &[usize]) -> usize {
    let cost = |choice: usize| {
        let entry = |(other, rows): &(usize, Vec<f64>)| {
            rows[choice * (rows.len() / unary.len()) + assignment[*other]]
        };
        unary[choice] + tables.iter().map(entry).sum::<f64>()
    };
    least_index((0..unary.len()).map(cost))
}

/// The index of the least number, the first of equal ones.
pub(crate) fn least_index(numbers: impl Iterator<Item = f64>) -> usize {
    let mut least = (INFINITE, 0);
    for (index, number) in numbers.enumerate() {
        if number < least.0 {
            least = (number, index);
        }
    }
    least.1
}

fn transposed(costs: &[f64], rows: usize, columns: usize) -> Vec<f64> {
    (0..columns).flat_map(|y| (0..rows).map(move |x| costs[x * columns + y])).collect()
}
