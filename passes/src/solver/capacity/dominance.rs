//! Dominated choices: another choice of the variable costs at most as much beside any choices of
//! its neighbours (dead-end elimination; Desmet et al. 1992, Goldstein 1994) and demands no more at
//! any moment.

use crate::solver::capacity::network::{INFINITE, Network};

impl Network {
    /// Removes dominated choices of variables for which that takes at most `most` comparisons;
    /// returns whether there were any.
    pub(crate) fn remove_dominated(&mut self, most: usize) -> bool {
        let mut any = false;
        for variable in 0..self.unary.len() {
            let beside: usize =
                self.tables_of[variable].iter().map(|&t| self.size(self.other(t, variable))).sum();
            let size = self.size(variable);
            if size < 2 || size * size * beside.max(1) > most {
                continue;
            }
            let kept = self.undominated(variable);
            if kept.len() < size {
                self.restrict(variable, kept);
                any = true;
            }
        }
        any
    }

    fn undominated(&self, variable: usize) -> Vec<usize> {
        let views: Vec<Vec<f64>> =
            self.tables_of[variable].iter().map(|&table| self.rows(table, variable)).collect();
        let size = self.size(variable);
        let mut alive = vec![true; size];
        for choice in 0..size {
            let mut others = (0..size).filter(|&other| other != choice && alive[other]);
            alive[choice] = !others.any(|other| self.dominates(variable, &views, other, choice));
        }
        (0..size).filter(|&choice| alive[choice]).collect()
    }

    fn dominates(&self, variable: usize, views: &[Vec<f64>], better: usize, worse: usize) -> bool {
        let demands_more =
            self.demands[variable].iter().any(|of| of.numbers[better] > of.numbers[worse]);
        let mut more = self.unary[variable][better] - self.unary[variable][worse];
        if demands_more {
            return false;
        }
        for rows in views {
            let columns = rows.len() / self.size(variable);
            let row = |choice: usize| &rows[choice * columns..(choice + 1) * columns];
            match largest_difference(row(better), row(worse)) {
                None => return true,
                Some(INFINITE) => return false,
                Some(difference) => more += difference,
            }
        }
        more <= 0.0
    }
}

/// By how much the first row exceeds the second at most, where the second is finite; `None` if it
/// never is.
fn largest_difference(first: &[f64], second: &[f64]) -> Option<f64> {
    let pairs = first.iter().zip(second).filter(|(_, second)| **second < INFINITE);
    pairs.map(|(first, second)| first - second).reduce(f64::max)
}
