//! Exact minimisation by eliminating one variable after another.
//!
//! Eliminating a variable replaces the factors that mention it by one over the other variables they
//! mention: the minimum over its choices (bucket elimination, Dechter 1999; degree-1 and -2
//! reductions are its first steps). The order is greedy: next is the variable whose elimination
//! takes the fewest evaluations. Where the graph of the terms is narrow (its treewidth is small),
//! this alone minimises in milliseconds.
//!
//! Where a table would grow over the limit, the factors are split into groups that are minimised
//! separately ("mini-buckets"): the result is then a true lower bound instead of the optimum.
//! Branch and bound was the alternative for the main work; its bounds come from the same tables,
//! and it evaluates repeatedly what elimination tabulates once.

mod message;

use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap};

use indexmap::IndexMap;
use rustc_hash::FxBuildHasher;

use crate::solver::eliminate::message::{Others, message};
use crate::solver::factor::{Factor, strides};
use crate::solver::interrupt::Interrupt;
use crate::solver::weight::Weight;

/// The result of elimination.
pub(crate) struct Minimum {
    /// The least cost, or a lower bound of it.
    pub(crate) bound: Weight,
    /// Whether nothing was split, so that `bound` is attained by `assignment`.
    pub(crate) exact: bool,
    /// A choice for each variable.
    pub(crate) assignment: Vec<usize>,
    /// The number of combinations evaluated.
    pub(crate) evaluations: usize,
}

/// Limits on the size of tables.
#[derive(Clone, Copy, Debug)]
pub struct TableLimits {
    /// Entries of one table.
    pub table: usize,
    /// Entries of the table of one term.
    pub term: usize,
    /// Combinations evaluated for one variable.
    pub work: usize,
}

/// Minimises the sum of `factors` plus `unary[variable][choice]`.
pub(crate) fn minimize(
    unary: &[Vec<Weight>],
    factors: Vec<Factor>,
    limits: TableLimits,
    interrupt: &Interrupt,
) -> Minimum {
    Elimination::new(unary, factors, limits, interrupt).run()
}

/// The same if no table has to be split and it ends in time; else `None`, as soon as that is known.
pub(crate) fn minimize_exactly(
    unary: &[Vec<Weight>],
    factors: Vec<Factor>,
    limits: TableLimits,
    interrupt: &Interrupt,
) -> Option<Minimum> {
    let elimination = Elimination::new(unary, factors, limits, interrupt);
    let minimum = Elimination { exact_only: true, ..elimination }.run();
    minimum.exact.then_some(minimum)
}

/// Whether no table has to be split: elimination without the numbers, which takes a small part of
/// the time. The costs of choices do not matter, only how many there are.
pub(crate) fn is_exact(
    unary: &[Vec<Weight>],
    scopes: impl Iterator<Item = (Vec<usize>, Vec<Vec<u32>>)>,
    limits: TableLimits,
    interrupt: &Interrupt,
) -> bool {
    let mut elimination = Elimination::new(unary, Vec::new(), limits, interrupt);
    (elimination.exact_only, elimination.has_tables) = (true, false);
    for (scope, classes) in scopes {
        elimination.add(Factor { scope, classes, strides: Vec::new(), table: Vec::new() });
    }
    elimination.eliminate_all();
    elimination.exact
}

/// How many combinations elimination evaluates where tables may be as large as they have to be.
pub(crate) fn combinations(
    unary: &[Vec<Weight>],
    scopes: impl Iterator<Item = (Vec<usize>, Vec<Vec<u32>>)>,
    interrupt: &Interrupt,
) -> usize {
    let limits = TableLimits { table: usize::MAX, term: 0, work: usize::MAX };
    let mut elimination = Elimination::new(unary, Vec::new(), limits, interrupt);
    elimination.has_tables = false;
    for (scope, classes) in scopes {
        elimination.add(Factor { scope, classes, strides: Vec::new(), table: Vec::new() });
    }
    elimination.eliminate_all();
    elimination.evaluations
}

/// So many other variables that the product of their classes may be the largest number.
const FEW_OTHERS: usize = 64;

/// Combinations of classes of these variables.
fn product(others: &IndexMap<usize, usize, FxBuildHasher>) -> usize {
    others.values().fold(1, |product, &count| product.saturating_mul(count.max(1)))
}

struct Elimination<'a> {
    /// Whether to stop where a table would be split.
    exact_only: bool,
    /// Whether factors have tables, not only scopes and classes.
    has_tables: bool,
    unary: &'a [Vec<Weight>],
    factors: Vec<Option<Factor>>,
    /// For each factor, how many classes of each of its variables have choices.
    classes: Vec<Vec<usize>>,
    /// The remaining factors of each variable.
    factors_of: Vec<BTreeSet<usize>>,
    limits: TableLimits,
    /// From when on tables are not joined any more.
    interrupt: &'a Interrupt,
    constant: Weight,
    exact: bool,
    evaluations: usize,
    /// Eliminated variables with the factors that determine their choices, in order.
    decided: Vec<(usize, Vec<Factor>)>,
}

impl<'a> Elimination<'a> {
    fn new(
        unary: &'a [Vec<Weight>],
        factors: Vec<Factor>,
        limits: TableLimits,
        interrupt: &'a Interrupt,
    ) -> Self {
        let mut this = Self {
            exact_only: false,
            has_tables: true,
            unary,
            factors: Vec::new(),
            classes: Vec::new(),
            factors_of: vec![BTreeSet::new(); unary.len()],
            limits,
            interrupt,
            constant: Weight::ZERO,
            exact: true,
            evaluations: 0,
            decided: Vec::new(),
        };
        for factor in factors {
            this.add(factor);
        }
        this
    }

    /// Adds a factor, without the variables that it does not depend on: eliminating one of those
    /// would join tables that have nothing to do with each other.
    fn add(&mut self, factor: Factor) {
        let factor = if self.has_tables {
            without_constants(factor)
        } else {
            scope_without_constants(factor)
        };
        if factor.scope.is_empty() {
            self.constant = self.constant + factor.table.first().copied().unwrap_or(Weight::ZERO);
            return;
        }
        for &variable in &factor.scope {
            self.factors_of[variable].insert(self.factors.len());
        }
        self.classes.push(factor.classes.iter().map(|classes| used(classes)).collect());
        self.factors.push(Some(factor));
    }

    fn run(mut self) -> Minimum {
        self.eliminate_all();
        self.decode()
    }

    fn eliminate_all(&mut self) {
        let mut queue: BinaryHeap<Reverse<(usize, usize)>> =
            (0..self.unary.len()).map(|v| Reverse((self.work(v), v))).collect();
        let mut done = vec![false; self.unary.len()];
        while let Some(Reverse((work, variable))) = queue.pop() {
            if self.exact_only && !self.exact {
                break;
            }
            if done[variable] {
                continue;
            }
            let now = self.work(variable);
            if now > work {
                queue.push(Reverse((now, variable)));
                continue;
            }
            done[variable] = true;
            for neighbour in self.eliminate(variable) {
                queue.push(Reverse((self.work(neighbour), neighbour)));
            }
        }
    }

    /// An upper estimate of the combinations that eliminating `variable` evaluates.
    fn work(&self, variable: usize) -> usize {
        let mut others: IndexMap<usize, usize, FxBuildHasher> = IndexMap::default();
        let mut asked = FEW_OTHERS;
        for &number in &self.factors_of[variable] {
            let Some(factor) = &self.factors[number] else { continue };
            for (&other, &classes) in factor.scope.iter().zip(&self.classes[number]) {
                others
                    .entry(other)
                    .and_modify(|count| {
                        *count = count.saturating_mul(classes).min(self.unary[other].len());
                    })
                    .or_insert(classes);
            }
            // The product only grows: a variable among thousands is not counted to the end.
            if others.len() > asked {
                if product(&others) == usize::MAX {
                    return usize::MAX;
                }
                asked *= 2;
            }
        }
        product(&others)
    }

    /// Removes a variable; returns those whose factors changed.
    fn eliminate(&mut self, variable: usize) -> BTreeSet<usize> {
        let ids = std::mem::take(&mut self.factors_of[variable]);
        let involved: Vec<Factor> = ids.iter().filter_map(|&id| self.factors[id].take()).collect();
        let mut changed = BTreeSet::new();
        for (id, factor) in ids.iter().zip(&involved) {
            for &other in factor.scope.iter().filter(|&&other| other != variable) {
                self.factors_of[other].remove(id);
                changed.insert(other);
            }
        }
        let groups = self.groups(variable, &involved);
        self.exact &= groups.len() <= 1;
        if self.exact_only && !self.exact {
            return changed;
        }
        for (i, (group, others)) in groups.into_iter().enumerate() {
            let zero = vec![Weight::ZERO; self.unary[variable].len()];
            let own = if i == 0 { &self.unary[variable] } else { &zero };
            let message = if self.has_tables {
                let found = message(variable, own, &group, others, self.interrupt);
                self.evaluations = self.evaluations.saturating_add(found.evaluations);
                self.exact &= !found.was_cut_short;
                found.factor
            } else {
                let count = others.counts().iter().fold(own.len(), |n, &k| n.saturating_mul(k));
                self.evaluations = self.evaluations.saturating_add(count);
                let Others { variables: scope, classes, .. } = others;
                Factor { scope, classes, strides: Vec::new(), table: Vec::new() }
            };
            self.add(message);
        }
        self.decided.push((variable, involved));
        changed
    }

    /// The factors in groups whose joint tables stay within the limits; one group if possible, and
    /// each alone once the time is over.
    fn groups<'f>(
        &self,
        variable: usize,
        involved: &'f [Factor],
    ) -> Vec<(Vec<&'f Factor>, Others)> {
        let with_others = |group: Vec<&'f Factor>| {
            let others = Others::new(variable, &group);
            (group, others)
        };
        if self.interrupt.is_due() {
            let alone = involved.iter().map(|factor| with_others(vec![factor]));
            return alone.collect();
        }
        // With fewer factors a table is no larger: those that fit together are one group.
        let (all, others) = with_others(involved.iter().collect());
        if all.len() <= 1 || self.fits(variable, &others) {
            return vec![(all, others)];
        }
        let mut groups: Vec<Vec<&Factor>> = Vec::new();
        for factor in involved {
            let place = groups.iter().position(|group| {
                let joined: Vec<&Factor> = group.iter().copied().chain([factor]).collect();
                self.fits(variable, &Others::new(variable, &joined))
            });
            match place {
                Some(place) => groups[place].push(factor),
                None => groups.push(vec![factor]),
            }
        }
        groups.into_iter().map(with_others).collect()
    }

    /// Whether the table over the other variables stays within the limits.
    fn fits(&self, variable: usize, others: &Others) -> bool {
        let combinations = |size: usize| size.saturating_mul(self.unary[variable].len());
        let size = others.size(self.limits.table);
        size.is_some_and(|size| combinations(size) <= self.limits.work)
    }

    fn decode(self) -> Minimum {
        let mut assignment = vec![0; self.unary.len()];
        for (variable, involved) in self.decided.iter().rev() {
            let best = (0..self.unary[*variable].len()).min_by_key(|&choice| {
                assignment[*variable] = choice;
                let rest: Weight = involved.iter().map(|factor| factor.price(&assignment)).sum();
                (self.unary[*variable][choice] + rest, choice)
            });
            assignment[*variable] = best.unwrap_or(0);
        }
        Minimum {
            bound: self.constant,
            exact: self.exact,
            assignment,
            evaluations: self.evaluations,
        }
    }
}

/// How many of a variable's classes have choices: they are numbered up to the largest.
fn used(classes: &[u32]) -> usize {
    classes.iter().max().map_or(1, |&class| class as usize + 1)
}

/// Whether the choices of a variable are all in one class.
fn is_constant(classes: &[u32]) -> bool {
    classes.iter().all(|class| *class == classes[0])
}

/// A factor without a table, and without the variables whose choices are all in one class.
fn scope_without_constants(mut factor: Factor) -> Factor {
    let of = factor.scope.into_iter().zip(factor.classes);
    (factor.scope, factor.classes) = of.filter(|(_, classes)| !is_constant(classes)).unzip();
    factor
}

/// A factor without the variables whose choices are all in one class.
fn without_constants(factor: Factor) -> Factor {
    if !factor.classes.iter().any(|classes| is_constant(classes)) {
        return factor;
    }
    let (mut scope, mut classes, mut kept, mut start) = (Vec::new(), Vec::new(), Vec::new(), 0);
    for (i, &variable) in factor.scope.iter().enumerate() {
        let of = &factor.classes[i];
        if is_constant(of) {
            start += of.first().map_or(0, |&class| class as usize * factor.strides[i]);
        } else {
            scope.push(variable);
            classes.push(of.clone());
            kept.push((factor.strides[i], factor.classes_of(i)));
        }
    }
    let counts: Vec<usize> = kept.iter().map(|(_, count)| *count).collect();
    let (strides, size) = strides(&counts, usize::MAX).unwrap_or_default();
    let entry = |place: usize| {
        let digits = kept
            .iter()
            .zip(&strides)
            .map(|((apart, count), stride)| place / stride % count * apart);
        factor.table[start + digits.sum::<usize>()]
    };
    Factor { scope, classes, table: (0..size).map(entry).collect(), strides }
}
