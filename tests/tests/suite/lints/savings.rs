//! What lints say that an edit saves is what the plan of the edited text saves: also where
//! gradients or updates are derived from the brackets, and where another form of the program is
//! best then.

use shardwise::Options;
use shardwise::lint::{Finding, Settings, apply, lint};

fn serial_s(source: &str) -> f64 {
    let options = Options { memory: Some(f64::INFINITY), ..Options::default() };
    let planned = shardwise::plan("program", source, &options);
    planned.unwrap_or_else(|errors| panic!("{errors}\n{source}")).report.serial_s
}

fn found(source: &str, code: &str) -> Vec<Finding> {
    let linted = lint("program", source, &Options::default(), &Settings::default());
    linted.findings.into_iter().filter(|finding| finding.diag.code == code).collect()
}

/// The time after `words` in the help of a finding of `code`.
fn stated(source: &str, code: &str, words: &str) -> f64 {
    let findings = found(source, code);
    let helps = || findings.iter().filter_map(|finding| finding.diag.help.as_deref());
    let after = helps().find_map(|help| Some(help.split_once(words)?.1));
    let after = after.unwrap_or_else(|| panic!("{words} in {:?}", helps().collect::<Vec<_>>()));
    let mut of = after.split(' ');
    let (number, unit) = (of.next().unwrap_or_default(), of.next().unwrap_or_default());
    let number: f64 = number.parse().unwrap_or_else(|error| panic!("{after}: {error}"));
    let units = [("us", 1e-6), ("ms", 1e-3), ("s", 1.0)];
    let unit = units.iter().find(|(name, _)| *name == unit).unwrap_or_else(|| panic!("{after}"));
    number * unit.1
}

/// Times in messages have three digits.
fn is_close(a: f64, b: f64) -> bool {
    (a - b).abs() <= 0.01 * a.abs().max(b.abs())
}

const UPDATED: &str = "hardware tpu-v5p
mesh X=8, Y=2
dim B=1024, D=1024, F=32768, V=32768
input x[B, D], t[B, V]
param U[D_Y, V]
param W1[D, F], W2[F, D_Y], G[D, F]
h = x *D W1
g = x *D G
y = x + gelu(h) *F W2 + silu(g) *F W2
o = y *D U
Loss = sum_{B,V}(square(o - t))
backward from Loss
optimizer adam over Y
";

/// In the resolved program the gradient would keep the brackets of the parameter as it was: 267 us.
#[test]
fn other_brackets_of_a_parameter_are_those_of_its_gradient_too() {
    let stated = stated(UPDATED, "SW321", "declared as `W1[D, F_Y]`, the whole takes ");
    let edited = UPDATED.replace("W1[D, F]", "W1[D, F_Y]");
    let saved = serial_s(UPDATED) - serial_s(&edited);
    assert!(is_close(stated, saved), "{stated} {saved}");
}

const COPIED: &str = "hardware tpu-v5e
mesh X=8, Y=3
dim B=16368, D=12288, F=49152
input x[B, D_X], dy[B, D_X]
repeat L=4 {
  carry x
  param W1[D, F], W2[F, D], G[D, F]
  h = gelu(x *D W1)
  g = x *D G
  x = x + (h * g) *F W2
}
backward from x given dy
output x[B, D_Y]
";

/// The step is faster then: its gradient is reduced to parts.
#[test]
fn the_time_with_a_copy_split_is_that_of_the_edited_text() {
    let stated = stated(COPIED, "SW331", "such as `W1[D, F_XY]`: the step takes ");
    let takes = serial_s(&COPIED.replace("W1[D, F]", "W1[D, F_XY]"));
    assert!(is_close(stated, takes) && takes < serial_s(COPIED), "{stated} {takes}");
}

const PINNED: &str = "hardware tpu-v5p
mesh X=8 line, Y=4
dim B=196608, D=8192, F=32768
input x[B, D], dy[B, D]
param W1[D, F_Y], W2[F, D], G[D_Y, F]
h[B, F] = gelu(x *D W1)
g = x *D G
y[B, D] = (h * g) *F W2 + x
backward from y given dy
output y[B_Y, D]
";

const GATHERED: &str = "hardware a100
mesh X=4, Y=8
dim B=64, D=16384, F=49152
input x[B, D_Y]
param W1[D, F], W2[F_X, D], G[D_X, F]
h[B_X, F] = gelu(x *D W1)
g = x *D G
y = (h * g) *F W2 + x
output y[B, D]
";

/// The plans of both programs have an axis in parts.
#[test]
fn a_fix_saves_what_its_finding_costs() {
    for (source, code) in [(PINNED, "SW301"), (GATHERED, "SW310")] {
        let findings = found(source, code);
        assert!(!findings.is_empty(), "{code}");
        for finding in findings {
            let price = finding.price.expect("it costs time").seconds;
            let (edited, _) = apply(source, &finding.fix);
            let saved = serial_s(source) - serial_s(&edited);
            assert!(is_close(price, saved), "{price} {saved}\n{edited}");
        }
    }
}

const UNEVEN: &str = "hardware tpu-v5p
mesh X=16, Y=8
dim B=16384, D=8192, F=40022
input x[B, D], dy[B, D]
repeat L=4 {
  carry x
  param W1[D, F], W2[F, D], G[D, F]
  h = gelu(x *D W1)
  g = x *D G
  x = x + (h * g) *F W2
}
backward from x given dy
optimizer adam over X
";

#[test]
fn padding_saves_what_an_uneven_size_costs() {
    let findings = found(UNEVEN, "SW323");
    let price = findings[0].price.expect("it costs time").seconds;
    let saved = serial_s(UNEVEN) - serial_s(&UNEVEN.replace("40022", "40022 pad"));
    assert!(is_close(price, saved), "{price} {saved}");
}

const IN_PARTS: &str = "hardware a100
mesh X=8, Y=2
dim B=4096, D=2048, F=8192, V=4096
input x[B, D], t[B, V]
param U[D, V]
param W1[D_X, F], W2[F, D], G[D, F_Y]
h = gelu(x *D W1) * (x *D G)
y = h *F W2
o = y *D U
Loss = sum_{B,V}(square(o - t))
backward from Loss
output Loss[]
";

/// The plan has `X` in parts, and the mesh does not: brackets with `X.1` would be an error.
#[test]
fn brackets_that_are_proposed_can_be_written() {
    let helps: Vec<String> =
        found(IN_PARTS, "SW321").into_iter().filter_map(|finding| finding.diag.help).collect();
    assert!(!helps.is_empty());
    assert!(helps.iter().all(|help| !help.contains("X.1")), "{helps:?}");
}
