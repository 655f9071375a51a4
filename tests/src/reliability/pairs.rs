//! Laws of pairs of programs that should be planned alike, or one no costlier than the other.
//!
//! Where the search stops at its limits of work instead of a proof, two searches may end with
//! different plans; what then still holds is that the lower bound of one is no higher than the
//! price of the other.

use rayon::ThreadPoolBuilder;
use shardwise::{Hardware, Options, Planned};

use super::inputs::{Input, Kind, unlimited};
use super::plans::{ROUNDING, planned};
use super::{Checked, Law, Outcome};

const PROGRAMS: &[Kind] = &[Kind::Program, Kind::Model];

pub(super) fn laws() -> Vec<Law> {
    let law = |name, says, one_in, check| Law { name, says, kinds: PROGRAMS, one_in, check };
    vec![
        law(
            "renaming",
            "Other names of values give a plan of the same price.",
            4,
            has_the_price_under_other_names,
        ),
        law(
            "order",
            "Declarations in another order give a plan of the same price.",
            4,
            has_the_price_in_another_order,
        ),
        law(
            "dead statements",
            "A statement that nothing reads makes no plan cheaper.",
            4,
            is_no_cheaper_with_more,
        ),
        law(
            "freedom",
            "A declaration without its sharding makes no plan costlier.",
            4,
            is_no_costlier_when_free,
        ),
        law(
            "memory ladder",
            "Under ten limits of memory every plan fits, and no lower bound is above the price of \
             a plan under a tighter limit.",
            16,
            is_consistent_under_limits,
        ),
        law(
            "bandwidth",
            "Twice the bandwidth of links, networks and memory makes no plan costlier.",
            4,
            is_no_costlier_on_faster_chips,
        ),
        law(
            "threads",
            "One, two and eight threads find the same plan.",
            16,
            is_the_same_on_any_threads,
        ),
    ]
}

/// An error if the first plan, of a problem with more freedom, is proven to be costlier than the
/// second.
fn no_costlier(free: &Planned, bound: &Planned) -> Result<(), String> {
    let (least_s, found_s) = (free.lower_bound_s(), bound.report.serial_s);
    if least_s <= found_s * ROUNDING {
        return Ok(());
    }
    Err(format!(
        "no plan takes less than {least_s} s:\n{free}\nthis one takes {found_s} s:\n{bound}"
    ))
}

/// The plans of an input and of another program; nothing if the input has none.
fn both<'i>(input: &'i Input, second: &str) -> Result<Option<(&'i Planned, Planned)>, String> {
    let Ok(before) = input.plan() else { return Ok(None) };
    match planned(second, &unlimited()) {
        Ok(after) => Ok(Some((before, after))),
        Err(findings) => Err(format!("is planned, and this refused:\n{second}\n{findings}")),
    }
}

/// Whether two programs have plans of one price, as far as that is proven.
fn have_one_price(input: &Input, second: &str) -> Checked {
    let Some((before, after)) = both(input, second)? else { return Ok(Outcome::DoesNotApply) };
    no_costlier(before, &after)?;
    no_costlier(&after, before)?;
    Ok(Outcome::Holds)
}

/// A text with every word that is a name in it replaced.
fn renamed(text: &str, names: &[String]) -> String {
    let is_word = |c: char| c.is_alphanumeric() || c == '_' || c == '.';
    let mut out = String::new();
    let mut rest = text;
    while !rest.is_empty() {
        let (word, after) = rest.split_at(rest.find(|c: char| !is_word(c)).unwrap_or(rest.len()));
        match names.iter().position(|name| name == word) {
            // Reversed, so that an order by name is another one.
            Some(place) => out += &format!("name{}", names.len() - place),
            None => out += word,
        }
        let (gap, next) = after.split_at(after.find(is_word).unwrap_or(after.len()));
        out += gap;
        rest = next;
    }
    out
}

fn has_the_price_under_other_names(input: &Input) -> Checked {
    let checked = shardwise::check("input", &input.text, &Options::default());
    let Some(program) = checked.program else { return Ok(Outcome::DoesNotApply) };
    // A name that is a dimension's, too, cannot be replaced word by word.
    let is_dim = |name: &str| program.dims.iter().any(|dim| dim.name == name);
    let names = program.values.iter().map(|value| value.name.clone());
    let names: Vec<String> = names.filter(|name| !is_dim(name)).collect();
    have_one_price(input, &renamed(&input.text, &names))
}

fn is_declaration(line: &str) -> bool {
    ["input ", "param ", "state "].iter().any(|role| line.starts_with(role))
}

fn has_the_price_in_another_order(input: &Input) -> Checked {
    let mut lines: Vec<&str> = input.text.lines().collect();
    let Some(first) = lines.iter().position(|line| is_declaration(line)) else {
        return Ok(Outcome::DoesNotApply);
    };
    let count = lines[first..].iter().take_while(|line| is_declaration(line)).count();
    lines[first..first + count].reverse();
    have_one_price(input, &(lines.join("\n") + "\n"))
}

fn is_no_cheaper_with_more(input: &Input) -> Checked {
    let mut lines: Vec<&str> = input.text.lines().collect();
    let Some(at) = lines.iter().position(|line| is_declaration(line)) else {
        return Ok(Outcome::DoesNotApply);
    };
    let name = lines[at].split_whitespace().nth(1).unwrap_or_default();
    let name = name.split(['[', ':']).next().unwrap_or_default();
    let statement = format!("unread = 2.0 * {name}");
    lines.insert(at + 1, &statement);
    match both(input, &lines.join("\n"))? {
        Some((before, after)) => no_costlier(before, &after).map(|()| Outcome::Holds),
        None => Ok(Outcome::DoesNotApply),
    }
}

/// A line with all its dimensions open: `input A[I_?, J_?]`.
fn opened(line: &str) -> Option<String> {
    let (head, rest) = line.split_once('[')?;
    let (brackets, tail) = rest.split_once(']')?;
    if tail.contains('[') || brackets.contains('{') {
        return None;
    }
    let dims: Vec<String> = brackets
        .split(", ")
        .map(|dim| format!("{}_?", dim.split('_').next().unwrap_or(dim)))
        .collect();
    Some(format!("{head}[{}]{tail}", dims.join(", ")))
}

fn is_no_costlier_when_free(input: &Input) -> Checked {
    let mut lines: Vec<String> = input.text.lines().map(str::to_owned).collect();
    let found = lines.iter().position(|line| is_declaration(line) && line.contains('_'));
    let Some((at, line)) = found.and_then(|at| Some((at, opened(&lines[at])?))) else {
        return Ok(Outcome::DoesNotApply);
    };
    lines[at] = line;
    match both(input, &(lines.join("\n") + "\n"))? {
        Some((bound, free)) => no_costlier(&free, bound).map(|()| Outcome::Holds),
        None => Ok(Outcome::DoesNotApply),
    }
}

fn is_consistent_under_limits(input: &Input) -> Checked {
    let Ok(unlimited) = input.plan() else { return Ok(Outcome::DoesNotApply) };
    let peak_bytes = unlimited.report.memory.peak_bytes;
    let mut looser = vec![unlimited.clone()];
    for tenth in (1..=10).rev() {
        let limit_bytes = peak_bytes * f64::from(tenth) / 10.0;
        let options = Options { memory: Some(limit_bytes), ..Options::default() };
        let Ok(found) = planned(&input.text, &options) else { continue };
        if found.report.memory.peak_bytes > limit_bytes * ROUNDING {
            return Err(format!("{limit_bytes} bytes do not hold\n{found}"));
        }
        for free in &looser {
            no_costlier(free, &found)?;
        }
        looser.push(found);
    }
    Ok(Outcome::Holds)
}

fn is_no_costlier_on_faster_chips(input: &Input) -> Checked {
    let text = input.text.replace(" rates measured", "");
    let Ok(slow) = planned(&text, &unlimited()) else { return Ok(Outcome::DoesNotApply) };
    let chip = &slow.plan.program.hardware;
    let double = |bandwidth: Option<f64>| bandwidth.map(|bytes_per_s| 2.0 * bytes_per_s);
    let faster = Hardware {
        name: "faster".to_owned(),
        hbm_bandwidth: double(chip.hbm_bandwidth),
        link_bandwidth: double(chip.link_bandwidth),
        dcn_bandwidth: double(chip.dcn_bandwidth),
        ..chip.clone()
    };
    let options =
        Options { hardware: Some("faster".to_owned()), known: vec![faster], ..unlimited() };
    let fast = planned(&text, &options)
        .map_err(|findings| format!("is refused on a faster chip: {findings}"))?;
    no_costlier(&fast, &slow)?;
    Ok(Outcome::Holds)
}

fn is_the_same_on_any_threads(input: &Input) -> Checked {
    let on = |threads: usize| {
        let pool = ThreadPoolBuilder::new().num_threads(threads).build();
        let pool = pool.map_err(|error| error.to_string())?;
        let found = pool.install(|| planned(&input.text, &unlimited()));
        Ok::<_, String>(found.map_or_else(|findings| findings.to_string(), |it| it.to_string()))
    };
    let texts = [on(1)?, on(2)?, on(8)?];
    if texts[0] == texts[1] && texts[0] == texts[2] {
        return Ok(Outcome::Holds);
    }
    Err(format!("{}\n{}\n{}", texts[0], texts[1], texts[2]))
}
